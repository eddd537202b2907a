"""The verifier `pyscf.thermo`: enthalpy and free energy of a molecule by frequencies of a density functional."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import ENTHALPY, GIBBS_FREE_ENERGY, LOWEST_FREQUENCY, ZERO_POINT_ENERGY
from sciagent.verification.verifier_contract import Context, Cost, Finding, PropertyAtLevel
from sciagent_simulators.geometry_and_its_checks import Geometry, failure
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import ground_state
from sciagent_simulators.pyscf_relax import pyscf_hessian
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import PyscfSolvent
from sciagent_simulators.tblite_engine import ionised
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import NormalModes, minimum, normal_modes
from sciagent_verifiers.high_fidelity.density_functional_base import (
    DIFFUSE,
    NONLOCAL,
    DensityFunctional,
    DensityFunctionalSettings,
)
from sciagent_verifiers.thermochemistry_settings_and_values import (
    ThermalSettings,
    soft_mode_spread,
    thermal_measures,
    thermal_values,
    with_frequencies,
)
from sciagent_verifiers.verifier_bases import rigid_or_flexible

RIGID = {ZERO_POINT_ENERGY: 0.0005, ENTHALPY: 0.001, GIBBS_FREE_ENERGY: 0.002, LOWEST_FREQUENCY: 3.0}
FLEXIBLE = {ZERO_POINT_ENERGY: 0.005, ENTHALPY: 0.03, GIBBS_FREE_ENERGY: 0.035, LOWEST_FREQUENCY: 15.0}


class PyscfThermoSettings(DensityFunctionalSettings, ThermalSettings):
    """The settings of pyscf.scf, always relaxed in the gas phase, with temperature and standard state."""

    optimise: bool = Field(True, description="Always true: frequencies need the geometry of their own level.")
    fmax: float = Field(0.005, gt=0, le=0.05, description="Largest force on an atom, eV/angstrom.")
    max_atoms: int = Field(40, ge=1, description="Larger molecules are refused; hydrogens included.")

    @model_validator(mode="after")
    def _one_level(self) -> PyscfThermoSettings:
        if not self.optimise:
            raise ValueError("frequencies need the geometry of their own level; leave optimise out")
        if self.solvent and self.pressure:
            raise ValueError("pressure is that of a gas; in a solvent the standard state is 1 mol/L")
        if self.ion == "anion" and self.basis not in DIFFUSE:
            raise ValueError(f"an anion needs diffuse functions, which {self.basis_set} has not; take def2-SVPD")
        return self

    @property
    def average_temperature(self) -> float:
        return self.temperature

    @property
    def relaxed_in(self) -> PyscfSolvent | None:
        return None


@dataclass(frozen=True, eq=False)
class RelaxedField:
    """The mean field of a relaxed geometry in the gas phase."""

    mf: Any
    """PySCF's mean field."""
    energy: float
    """eV."""
    facts: dict[str, Any]
    """Diagnostics of relaxation, field and Hessian."""
    hessian_file: str
    """Name of the file that resumes a numerical Hessian."""


class PyscfThermo(DensityFunctional):
    """Enthalpy, free energy, zero-point energy and lowest frequency of a molecule by density functionals, PySCF.

    The geometry is relaxed at this level in the gas phase. The Hessian is analytic, or numerical for functionals with
    non-local correlation (VV10). Translations and rotations are projected out. A molecule is an ideal gas of rigid
    rotors and harmonic oscillators, with the quasi-harmonic entropy of Grimme. The free energy is that of one
    conformer, or of an ensemble (`average`), and needs a difference: of a reaction, or of two states (`ion`). With a
    solvent the electronic energy is that in the solvent at the gas-phase geometry, frequencies are those of the gas
    phase, as SMD is parametrised, and the standard state is 1 mol/L.

    An imaginary frequency beyond `imaginary_limit` means a saddle point. The molecule is then displaced along the mode,
    both ways, and relaxed again, up to three times; the detail says so. If that does not help, the finding is
    `unstable` (`imaginary_frequency`) and names the mode by its frequency and atoms. The finding's
    files are the geometry and a table of the modes.

    Harmonic frequencies of PBE0/def2-SVP lie 3 to 5 percent above the observed fundamentals of water, ammonia and
    benzene (`scale`).
    By PBE0/def2-TZVP free energies of two isodesmic gas reactions are 1 and 6 kJ/mol too high; those of three that are
    not isodesmic are 18 to 41 kJ/mol too negative (`benchmarks/numbers/thermo.json`). The uncertainty is repeatability
    (k = 1), not the error of the functional: over the seed of the conformer search, an estimate by class, and over
    other relaxations to the same minimum, which move soft modes as those of GFN2-xTB (`benchmarks/soft_modes`).

    Sources: those of `sciagent_simulators.thermochemistry.ideal_gas_and_symmetry_number`; PySCF: Sun et al., J. Chem.
    Phys. 153, 024109 (2020).
    """

    name = "pyscf.thermo"
    version = "1"
    Settings = PyscfThermoSettings
    settings: PyscfThermoSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)
    rotations_counted = True
    preload: ClassVar[tuple[str, ...]] = (*DensityFunctional.preload, "pyscf.hessian")

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return thermal_measures(self.level, self.settings, self.settings.solvent)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of fields, spin check and relaxation, and of the Hessian: a gas-phase field for each atom.

        Water, ammonia, benzene with PBE0/def2-SVP took 4, 7 and 360 core-seconds on a busy machine."""
        gas = self.scf_seconds(candidate, gas=True)
        seconds = 0.5 + gas + self.spin_seconds(candidate, gas=True) + self.relax_seconds(candidate, gas=True)
        seconds += self.scf_seconds(candidate) if self.settings.solvent else 0.0
        # A numerical Hessian has 6 gradients for each atom; an analytic one costs a field for each.
        fields_per_atom = 5.4 if self.settings.functional in NONLOCAL else 1.0
        seconds += gas * candidate.n_atoms * fields_per_atom
        return Cost(core_seconds=seconds * self.calculations(candidate))

    def at_geometry(self, molecule: Molecule, context: Context, start: Geometry) -> tuple[Finding, Geometry, float]:
        chosen = self.settings
        first = ionised(start, chosen.ion) if chosen.ion else start
        gas = chosen.engine(solvent=None)
        attempt_numbers = count(1)

        def checkpoint_file(part: str) -> Path:
            """Returns the checkpoint file of a part of the calculation."""
            return self.checkpoint(molecule, context, part).with_suffix(".chk")

        def relaxed(geometry: Geometry) -> tuple[Geometry, RelaxedField]:
            """Returns the relaxed geometry and its mean field. Each call has checkpoint files of its own."""
            attempt = next(attempt_numbers)
            ending = "" if attempt == 1 else f"-{attempt}"
            end, facts = self.relaxed(molecule, context, geometry, part=f"relax{ending}")
            mf, result = ground_state(end, gas, checkpoint_file(f"gas{ending}"), context.threads)
            if chosen.ion == "anion" and result.homo > 0:
                raise failure(Reason.ANION_UNBOUND, f"the last electron of the anion lies at {result.homo:+.2f} eV")
            facts |= result.diagnostics
            return end, RelaxedField(mf, result.energy, facts, hessian_file=f"hessian{ending}")

        def modes_of(geometry: Geometry, field: RelaxedField) -> NormalModes:
            """Returns the normal modes, and states in the facts of the field how the Hessian was computed."""
            file = checkpoint_file(field.hessian_file)
            hessian, how = pyscf_hessian(field.mf, geometry, gas, file, context.threads)
            field.facts["hessian"] = how
            return normal_modes(geometry, hessian)

        stationary = minimum(first, relaxed, modes_of, limit=chosen.imaginary_limit)
        geometry = stationary.geometry
        energy = stationary.result.energy
        diagnostics = stationary.result.facts
        if chosen.solvent:
            in_solvent = chosen.engine(spin_check="off")
            _, solute = ground_state(geometry, in_solvent, checkpoint_file("solvent"), context.threads)
            diagnostics["solvent_contribution"] = solute.energy - energy
            energy = solute.energy
        values, facts, note = thermal_values(stationary, energy, chosen, chosen.solvent)
        levels = {m.property: m.level for m in self.measures}
        noise = soft_mode_spread(facts, chosen)
        rows = list[Measured]()
        for prop, value in values.items():
            rows.extend(self.measured(molecule, {prop: value}, further=noise, level=levels[prop]))
        finding = self.calculated(molecule, context, tuple(rows), diagnostics | facts, {"": geometry}, note)
        finding = with_frequencies(finding, context.scratch, geometry, stationary.modes, chosen.scale)
        measured_values = {row.property: row.quantity.value for row in rows}
        return finding, geometry, measured_values[GIBBS_FREE_ENERGY.name]
