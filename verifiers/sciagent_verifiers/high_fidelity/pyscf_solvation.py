"""The verifier `pyscf.solvation`: solvation free energy by density functional theory in an implicit solvent."""

from __future__ import annotations

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties_and_levels import SOLVATION_ENERGY
from sciagent.verification.verifier_contract import Context, Cost, Finding, PropertyAtLevel, at
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import ground_state
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import PyscfSolvent
from sciagent_simulators.tblite_engine import HARTREE
from sciagent_verifiers.high_fidelity.density_functional_base import (
    DIFFUSE_DEFAULT,
    Basis,
    DensityFunctional,
    DensityFunctionalSettings,
    Functional,
)
from sciagent_verifiers.method_errors import PYSCF_SOLVATION
from sciagent_verifiers.verifier_bases import rigid_or_flexible

RIGID = {SOLVATION_ENERGY: 0.001}
FLEXIBLE = {SOLVATION_ENERGY: 0.03}


class SolvationSettings(DensityFunctionalSettings):
    """The settings of pyscf.scf, with water and SMD by default; `optimise` relaxes the geometry in the gas phase."""

    functional: Functional = Field("B3LYP", description="Exchange and correlation.")
    basis: Basis = Field(
        DIFFUSE_DEFAULT, description="Diffuse functions let the solvent polarise it; empty for a composite method."
    )
    solvent: PyscfSolvent = Field("water", description="Where to; the gas phase is where from.")

    @property
    def relaxed_in(self) -> PyscfSolvent | None:
        return None

    @property
    def method(self) -> str:
        """The name for `Level.method`. Models other than SMD have only the electrostatic part, and are named so."""
        return super().method + ("" if self.solvent_model == "SMD" else " electrostatic")


class PyscfSolvation(DensityFunctional):
    """Free energy of going from 1 mol/L of gas to 1 mol/L of solution, at the geometry of the gas phase, PySCF.

    The value is the energy in the solvent minus that in the gas phase; SMD includes terms for cavity, dispersion and
    solvent structure. It has no vibrations, no relaxation in the solvent and one conformer, which matters by a few
    kJ/mol for flexible molecules. The other models have only the electrostatic part, as their level says.

    The uncertainty is repeatability (k = 1) over conformer searches. A comparison with experiment, twelve
    solutes in water, is in `benchmarks/numbers/pyscf_hydration_diffuse.json`, and without diffuse functions in
    `pyscf_hydration.json`.

    Sources: those of `sciagent_simulators.solvent_tables_and_faster_pyscf_solvents`.
    """

    name = "pyscf.solvation"
    version = "1"
    Settings = SolvationSettings
    settings: SolvationSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)
    method_errors = PYSCF_SOLVATION

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, SOLVATION_ENERGY)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of a field in the solvent, a field in the gas phase with spin check, and the relaxation."""
        seconds = 0.5 + self.scf_seconds(candidate)
        seconds += self.scf_seconds(candidate, gas=True) + self.spin_seconds(candidate, gas=True)
        seconds += self.relax_seconds(candidate, gas=True)
        return Cost(core_seconds=seconds * self.calculations(candidate))

    def at_geometry(self, molecule: Molecule, context: Context, start: Geometry) -> tuple[Finding, Geometry, float]:
        chosen = self.settings
        geometry, diagnostics = self.relaxed(molecule, context, start)
        gas_file = self.checkpoint(molecule, context, "gas").with_suffix(".chk")
        solvent_file = self.checkpoint(molecule, context, "solvent").with_suffix(".chk")
        _, gas = ground_state(geometry, chosen.engine(solvent=None), gas_file, context.threads)
        # the gas phase has passed the check of the spin
        mf, solute = ground_state(geometry, chosen.engine(spin_check="off"), solvent_file, context.threads)
        surface_term = getattr(mf.with_solvent, "e_cds", None)  # of SMD only
        diagnostics |= gas.diagnostics
        diagnostics["solvent_scf_step"] = solute.diagnostics["scf_step"]
        diagnostics["nonelectrostatic"] = None if surface_term is None else float(surface_term) * HARTREE
        rows = self.measured(molecule, {SOLVATION_ENERGY: solute.energy - gas.energy})
        finding = self.calculated(molecule, context, rows, diagnostics, {"": geometry})
        return finding, geometry, gas.energy
