"""Solvation free energy of a molecule by density functional theory in an implicit solvent."""

from __future__ import annotations

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties import SOLVATION_ENERGY
from sciagent.verification.contract import Context, Cost, Finding, PropertyAtLevel, at
from sciagent_simulators.pyscf_engine import ground_state
from sciagent_simulators.pyscf_solvent import Solvent
from sciagent_simulators.tblite_engine import HARTREE
from sciagent_verifiers.calculation import calculated, geometry_artifact, measured
from sciagent_verifiers.high_fidelity.density_functional import DensityFunctional, DensityFunctionalSettings, Functional

RIGID = {SOLVATION_ENERGY: 0.001}
FLEXIBLE = {SOLVATION_ENERGY: 0.03}


class SolvationSettings(DensityFunctionalSettings):
    """Settings of pyscf.scf, with water and SMD by default; optimise relaxes the geometry in the gas phase."""

    functional: Functional = Field("B3LYP", description="Exchange and correlation.")
    solvent: Solvent = Field("water", description="Where to; the gas phase is where from.")

    @property
    def relaxed_in(self) -> Solvent | None:
        return None

    @property
    def method(self) -> str:
        """The models other than SMD give the electrostatic part alone, and say so."""
        return super().method + ("" if self.solvent_model == "SMD" else " electrostatic")


class PyscfSolvation(DensityFunctional):
    """Free energy of going from 1 mol/L of gas to 1 mol/L of solution, at the geometry of the gas phase, PySCF.

    The energy in the solvent's field, with SMD its cavity, dispersion and structure term, less that in the gas phase.
    No vibrations, no relaxation in the solvent, a single conformer: for what is flexible a few kJ/mol. The other models
    give the electrostatic part alone; their level says so and they are not compared with experiment.

    Uncertainty is repeatability (k = 1) over the seed of the conformer search. Against experiment, ten solutes in
    water: `benchmarks/numbers/pyscf_hydration.json`.

    Sources: as `sciagent_simulators.pyscf_solvent`.
    """

    name = "pyscf.solvation"
    version = "1"
    Settings = SolvationSettings
    settings: SolvationSettings

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.settings.level, SOLVATION_ENERGY)

    def cost(self, candidate: Molecule) -> Cost:
        """A field in the solvent, and a field in the gas phase with its spin check."""
        seconds = 0.5 + self.scf_seconds(candidate)
        seconds += self.scf_seconds(candidate, gas=True) + self.spin_seconds(candidate, gas=True)
        return Cost(core_seconds=seconds + self.relax_seconds(candidate, gas=True))

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        chosen = self.settings
        geometry, diagnostics = self.start(molecule, context)
        files = [self.checkpoint(molecule, context, part).with_suffix(".chk") for part in ("gas", "solvent")]
        _, gas = ground_state(geometry, chosen.engine(solvent=None), files[0], context.threads)
        mf, solute = ground_state(geometry, chosen.engine(spin_check="off"), files[1], context.threads)
        surface_term = getattr(mf.with_solvent, "e_cds", None)
        diagnostics |= gas.diagnostics | {
            "solvent_scf_step": solute.diagnostics["scf_step"],
            "nonelectrostatic": None if surface_term is None else float(surface_term) * HARTREE,
        }
        values = {SOLVATION_ENERGY: solute.energy - gas.energy}
        rows = measured(molecule, chosen.level, values, RIGID, FLEXIBLE)
        return calculated(molecule, rows, diagnostics, [geometry_artifact(geometry, molecule, context)])
