"""Frontier orbitals, dipole and total energy of a molecule by extended tight binding."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
from sciagent.verification.contract import (
    Context,
    Cost,
    Finding,
    Level,
    Outcome,
    Prior,
    PropertyAtLevel,
    Refusal,
    Settings,
    Tier,
    at,
)
from sciagent_simulators.geometry import GeometryProtocol, prepare
from sciagent_simulators.tblite_engine import HEAVIEST, single_point
from sciagent_verifiers.calculation import MoleculeCalculation, geometry_artifact, measured, refusal

RIGID = {HOMO: 0.001, LUMO: 0.001, HOMO_LUMO_GAP: 0.001, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
FLEXIBLE = {HOMO: 0.05, LUMO: 0.06, HOMO_LUMO_GAP: 0.06, DIPOLE: 0.5, TOTAL_ENERGY: 0.016}


class XtbSettings(Settings):
    """max_atoms: hydrogens included; larger molecules are refused."""

    method: Literal["GFN2-xTB", "GFN1-xTB"] = "GFN2-xTB"
    geometry: GeometryProtocol = GeometryProtocol()
    max_atoms: int = Field(200, ge=1)


class XtbSinglepoint(MoleculeCalculation):
    """Frontier orbitals, dipole and total energy by GFN2-xTB in the gas phase.

    One calculation, five properties. The gap is an orbital-energy difference, not an optical gap: against
    PBE0/def2-SVP it ranks well (Spearman 0.93, 16 organics) and lies about 2 eV low, so gates are in its own scale.
    The dipole of an ion is about its centre of mass. A single atom without empty orbitals has no LUMO and no gap.

    Uncertainty is repeatability (k = 1) over the seed of the conformer search: 8 seeds, 10 conformers, 14 molecules.
    Without rotatable bonds values repeat within 0.001 eV; with them the root mean square over molecules is given.

    Source: Bannwarth, Ehlert, Grimme, J. Chem. Theory Comput. 15, 1652 (2019).
    """

    name = "xtb.singlepoint"
    version = "1"
    tier = Tier.SIMULATION
    Settings = XtbSettings
    settings: XtbSettings
    engines = ("tblite", "ase")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase")
    priors = (
        Prior(
            property="homo_lumo_gap", level="PBE0/def2-SVP", spearman=0.93, residual=0.86, n=16,
            source="16 hand-picked organics, GFN2 geometries; 0.89 and 0.49 eV without the two saturated ones",
        ),
    )  # fmt: skip

    @property
    def level(self) -> Level:
        return Level(method=self.settings.method, phase="gas", geometry=self.settings.geometry.label)

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        return refusal(candidate, HEAVIEST, self.settings.max_atoms)

    def cost(self, candidate: Molecule) -> Cost:
        """Embedding, force field, ranking and relaxation; fitted to 12 to 68 atoms, 10 conformers."""
        share = 0.6 + 0.4 * self.settings.geometry.conformers / 10
        return Cost(core_seconds=0.02 + 4e-5 * share * candidate.n_atoms**2.8)

    def one(self, molecule: Molecule, context: Context) -> Finding:
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        geometry, diagnostics = prepare(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)
        result = single_point(geometry, self.settings.method)
        values = {
            HOMO: result.homo, LUMO: result.lumo, HOMO_LUMO_GAP: result.gap, DIPOLE: result.dipole,
            TOTAL_ENERGY: result.energy,
        }  # fmt: skip
        return Finding(
            molecule.key,
            Outcome.OK,
            measured=measured(molecule, self.level, values, RIGID, FLEXIBLE),
            diagnostics=diagnostics | {"scf_step": result.recovery, "fmax": result.fmax},
            artifacts=(geometry_artifact(geometry, molecule, context),),
        )
