"""The verifier `xtb.thermo`: enthalpy and free energy of a molecule by frequencies of GFN2-xTB."""

from __future__ import annotations

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.domain.properties_and_levels import ENTHALPY, GIBBS_FREE_ENERGY, LOWEST_FREQUENCY, ZERO_POINT_ENERGY
from sciagent.verification.verifier_contract import Context, Cost, Finding, Level, PropertyAtLevel
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of, check_bonds
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import Solvent
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_simulators.tblite_engine import DISSOCIATED, RECOVERY, XtbResult, ionised, relax
from sciagent_simulators.thermochemistry.normal_modes_and_minimum_search import NormalModes, minimum, normal_modes
from sciagent_simulators.thermochemistry.tblite_hessian import tblite_hessian
from sciagent_verifiers.simulation.tight_binding_base_and_second_opinion import TightBinding
from sciagent_verifiers.thermochemistry_settings_and_values import (
    ThermalSettings,
    soft_mode_spread,
    thermal_measures,
    thermal_values,
    with_frequencies,
)
from sciagent_verifiers.verifier_bases import rigid_or_flexible

FMAX = 0.005  # eV/angstrom
ACCURACY = 0.05  # factor on tblite's thresholds for the Hessian; below 1 is tighter than its default
DEFAULT_DAMPING = 0.4  # mixer damping of a self-consistent field that needed no recovery
# repeatability (k = 1) over conformer searches: in eV, and of the frequency in 1/cm
RIGID = {ZERO_POINT_ENERGY: 0.0005, ENTHALPY: 0.001, GIBBS_FREE_ENERGY: 0.002, LOWEST_FREQUENCY: 2.0}
FLEXIBLE = {ZERO_POINT_ENERGY: 0.005, ENTHALPY: 0.02, GIBBS_FREE_ENERGY: 0.03, LOWEST_FREQUENCY: 15.0}


class XtbThermoSettings(ThermalSettings):
    """Temperature, standard state, solvent and geometry."""

    solvent: Solvent | None = Field(None, description="Geometry, energy and frequencies in this solvent (ALPB).")
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="How the first geometry is made.")
    max_atoms: int = Field(150, ge=1, description="Hydrogens included; larger molecules are refused.")

    @model_validator(mode="after")
    def _one_level(self) -> XtbThermoSettings:
        if self.geometry.method != "gfn2":
            raise ValueError("frequencies need a geometry at their own level: geometry: {method: gfn2}")
        if self.geometry.solvent and self.geometry.solvent != self.solvent:
            raise ValueError("geometry and frequencies are in one solvent: set solvent, and leave geometry.solvent out")
        if self.solvent and self.pressure:
            raise ValueError("pressure is that of a gas; in a solvent the standard state is 1 mol/L")
        return self

    @property
    def protocol(self) -> GeometryProtocol:
        """The protocol of the geometry, in the solvent of the frequencies."""
        return self.geometry.model_copy(update={"solvent": self.solvent}) if self.solvent else self.geometry


class XtbThermo(TightBinding):
    """Enthalpy, free energy, zero-point energy and lowest frequency of a molecule by GFN2-xTB.

    The geometry is relaxed tightly (0.005 eV/angstrom), and the Hessian comes from central differences of gradients.
    Translations and rotations are projected out. A molecule is an ideal gas of rigid rotors and harmonic oscillators,
    with the quasi-harmonic entropy of Grimme. The free energy is that of one conformer, and needs a difference: of a
    reaction, or of two states. In a solvent (ALPB, parametrised at 298 K) everything is at the geometry there, and the
    standard state is 1 mol/L.

    An imaginary frequency beyond `imaginary_limit` means a saddle point. The molecule is then displaced along the mode,
    both ways, and relaxed again, up to three times; the detail says so. If that does not help, the finding is
    `unstable` (`imaginary_frequency`) and names the mode by its frequency and atoms. The finding's
    files are the geometry and a table of the modes.

    GFN2-xTB was fitted to geometries and frequencies, not to reaction energies: free energies of two isodesmic
    reactions are 5 and 7 kJ/mol too high, those of three others 45 to 231 kJ/mol too negative
    (`benchmarks/numbers/thermo.json`). A difference to an ion (`ion`) needs the shift of 4.8455 eV that `xtb.ip_ea`
    subtracts.

    The uncertainty is repeatability (k = 1), not the error of the method. It has two parts. One is the spread over the
    seed of the conformer search, estimated for the class of the molecule, rigid or flexible. The other is the spread
    over other relaxations to the same minimum, which move soft modes (`benchmarks/soft_modes`): by 8 cm^-1, and 0.8
    kJ/mol in the free energy, for a mode at 10 cm^-1; by 1 cm^-1 and 0.01 kJ/mol for one at 100 cm^-1.

    Sources: Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15, 1652 (2019); ideal_gas, in sciagent_simulators.
    """

    name = "xtb.thermo"
    version = "1"
    Settings = XtbThermoSettings
    settings: XtbThermoSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)

    @property
    def level(self) -> Level:
        solvent = self.settings.solvent
        method = "GFN2-xTB+ALPB" if solvent else "GFN2-xTB"
        return Level(method, phase=solvent or "gas", geometry=self.settings.protocol.label)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return thermal_measures(self.level, self.settings, self.settings.solvent)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the geometry, its tight relaxation and 6n gradients."""
        hessian = 6e-5 * candidate.n_atoms**3
        return Cost(core_seconds=0.05 + self.geometry_seconds(candidate, further_relaxations=0.5) + hessian)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        settings = self.settings
        first, diagnostics = self.geometry(molecule, context, settings.protocol)
        start = ionised(first, settings.ion) if settings.ion else first
        bonds = bonds_of(molecule.mol)
        reason = DISSOCIATED[settings.ion] if settings.ion else Reason.BOND_CHANGED

        def relaxed(geometry: Geometry) -> tuple[Geometry, XtbResult]:
            end, result = relax(geometry, fmax=FMAX, solvation=self.solvation)
            check_bonds(end, bonds, reason)
            return end, result

        def modes_of(geometry: Geometry, result: XtbResult) -> NormalModes:
            damping = RECOVERY[result.recovery].get("mixer-damping", DEFAULT_DAMPING)
            hessian = tblite_hessian(geometry, self.solvation, damping=damping, accuracy=ACCURACY)
            return normal_modes(geometry, hessian)

        stationary = minimum(start, relaxed, modes_of, limit=settings.imaginary_limit)
        values, facts, note = thermal_values(stationary, stationary.result.energy, settings, settings.solvent)
        levels = {m.property: m.level for m in self.measures}
        spread_of_soft_modes = soft_mode_spread(facts, settings)
        rows = list[Measured]()
        for prop, value in values.items():
            rows.extend(self.measured(molecule, {prop: value}, further=spread_of_soft_modes, level=levels[prop]))
        structures = {"": stationary.geometry}  # the only geometry, so that its file needs no suffix
        finding = self.calculated(molecule, context, tuple(rows), diagnostics | facts, structures, note)
        return with_frequencies(finding, context.scratch, stationary.geometry, stationary.modes, settings.scale)
