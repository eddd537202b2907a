"""The verifier `pyscf.scf`: frontier orbitals, dipole and total energy by density functional theory."""

from __future__ import annotations

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
from sciagent.verification.verifier_contract import Context, Cost, Finding, PropertyAtLevel, at
from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import single_point
from sciagent_verifiers.high_fidelity.density_functional_base import DensityFunctional, DensityFunctionalSettings
from sciagent_verifiers.verifier_bases import rigid_or_flexible

RIGID = {HOMO: 0.001, LUMO: 0.001, HOMO_LUMO_GAP: 0.001, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
FLEXIBLE = {HOMO: 0.05, LUMO: 0.06, HOMO_LUMO_GAP: 0.06, DIPOLE: 0.6, TOTAL_ENERGY: 0.03}


class PyscfScf(DensityFunctional):
    """Kohn-Sham orbitals, dipole and total energy by PySCF, density fitted, in the gas phase or an implicit solvent.

    The default is PBE0/def2-SVP on the same GFN2-xTB geometry as `xtb.singlepoint`. The gap is that of the Kohn-Sham
    orbitals. HOMO and LUMO of an open shell are taken over both spins. The dipole of an ion is about its centre of
    mass. The finding is `unstable` for a closed-shell singlet that is not the ground state or needs more than one
    determinant, for a spin-contaminated open shell, and for an anion whose last electron is unbound.

    The uncertainty is repeatability (k = 1) over conformer searches, not the error of the functional.
    Without turning bonds values repeat within 0.001 eV. With them the root mean square of PBE0/def2-SVP over 6 small
    molecules, 3 seeds each, is 0.02 eV for HOMO and gap, 0.05 for the LUMO, 0.03 for the energy, and 0.6 D. Orbitals
    get the larger values of GFN2-xTB on 14 molecules. Density fitting shifts orbitals and energies by about 0.001 eV.

    Version 2 reports near_degenerate for molecules that need several determinants (ozone), and adds solvents,
    range-separated functionals and relaxation at this level. Every setting enters the hash.

    VV10 of wB97X-V and wB97M-V is on a grid three levels coarser than `grid`: energies of water move by 1 meV, their
    differences by 0.1 meV. wB97X-V, wB97M-V, r2SCAN-3c and wB97X-3c agree with Q-Chem and ORCA within 4e-5 hartree.

    Source: PBE0: Adamo, Barone, J. Chem. Phys. 110, 6158 (1999); PySCF: Sun et al., J. Chem. Phys. 153, 024109 (2020).
    """

    name = "pyscf.scf"
    version = "2"
    Settings = DensityFunctionalSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def cost(self, candidate: Molecule) -> Cost:
        """Returns the cost of the field, its spin check and the relaxation; that of the first geometry is small."""
        seconds = 0.5 + self.scf_seconds(candidate) + self.spin_seconds(candidate) + self.relax_seconds(candidate)
        return Cost(core_seconds=seconds * self.calculations(candidate))

    def at_geometry(self, molecule: Molecule, context: Context, start: Geometry) -> tuple[Finding, Geometry, float]:
        geometry, diagnostics = self.relaxed(molecule, context, start)
        checkpoint = self.checkpoint(molecule, context, "scf").with_suffix(".chk")
        result = single_point(geometry, self.settings.engine(), checkpoint, context.threads)
        gap = {HOMO: result.homo, LUMO: result.lumo, HOMO_LUMO_GAP: result.gap}
        values = {**gap, DIPOLE: result.dipole, TOTAL_ENERGY: result.energy}
        rows = self.measured(molecule, values)
        finding = self.calculated(molecule, context, rows, diagnostics | result.diagnostics, {"": geometry})
        return finding, geometry, result.energy
