"""Frontier orbitals, dipole and total energy of a molecule by density functional theory."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.properties import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
from sciagent.verification.contract import (
    Context,
    Cost,
    Finding,
    Level,
    Outcome,
    PropertyAtLevel,
    Reason,
    Refusal,
    Settings,
    Tier,
    at,
)
from sciagent_simulators.geometry import GeometryProtocol, prepare
from sciagent_simulators.pyscf_engine import DftSettings, single_point
from sciagent_verifiers.calculation import MoleculeCalculation, geometry_artifact, measured, refusal

HEAVIEST = 86
NO_BASIS = range(58, 72)  # def2 has no lanthanides in PySCF
RIGID = {HOMO: 0.001, LUMO: 0.001, HOMO_LUMO_GAP: 0.001, DIPOLE: 0.005, TOTAL_ENERGY: 0.001}
FLEXIBLE = {HOMO: 0.05, LUMO: 0.06, HOMO_LUMO_GAP: 0.06, DIPOLE: 0.6, TOTAL_ENERGY: 0.03}

# Basis functions per atom in def2-SVP of hydrogen and helium, then of each further row, and what larger sets multiply.
ROWS = ((2, 5), (10, 14), (18, 18), (36, 32), (54, 26), (86, 32))
SIZE = {"def2-SVP": 1.0, "def2-SVPD": 1.45, "def2-TZVP": 1.9, "def2-TZVPD": 2.35, "def2-TZVPP": 2.4, "def2-QZVP": 4.6}
GRID = {0: 0.55, 1: 0.65, 2: 0.8, 3: 1.0, 4: 1.4, 5: 1.8}


class PyscfSettings(Settings):
    """conv_tol: hartree. dispersion changes the energy only. spin_check: whether a closed-shell singlet is tested for
    being the ground state: `auto` where a cheap screen leaves doubt, `always`, `off`. max_atoms: hydrogens included."""

    functional: Literal[
        "PBE0", "B3LYP", "CAM-B3LYP", "M06-2X", "TPSSh", "r2SCAN0", "PBE", "BLYP", "BP86", "TPSS", "r2SCAN", "HF"
    ] = "PBE0"
    basis: Literal["def2-SVP", "def2-SVPD", "def2-TZVP", "def2-TZVPD", "def2-TZVPP", "def2-QZVP"] = "def2-SVP"
    grid: int = Field(3, ge=0, le=5)
    conv_tol: float = Field(1e-8, gt=0, le=1e-5)
    max_cycles: int = Field(100, ge=1, le=1000)
    dispersion: Literal["d3bj", "d4"] | None = None
    spin_check: Literal["auto", "always", "off"] = "auto"
    geometry: GeometryProtocol = GeometryProtocol()
    max_atoms: int = Field(100, ge=1)

    @model_validator(mode="after")
    def _dispersion_is_parametrised(self) -> PyscfSettings:
        if self.dispersion and self.functional == "M06-2X":
            raise ValueError(f"{self.dispersion} has no parameters for M06-2X; leave dispersion out")
        return self


class PyscfScf(MoleculeCalculation):
    """Kohn-Sham orbitals, dipole and total energy by PySCF, density fitted, in the gas phase.

    By default PBE0/def2-SVP on the GFN2-xTB geometry that `xtb.singlepoint` has too. The gap is that of the Kohn-Sham
    orbitals. Of an open shell HOMO and LUMO are taken over both spins. The dipole of an ion is about its centre of
    mass. A closed-shell singlet that is not the ground state, a contaminated open shell and an anion whose last
    electron is not bound end as `unstable`.

    Uncertainty is repeatability (k = 1) over the seed of the conformer search, not the error of the functional. Without
    rotatable bonds values repeat within 0.001 eV. With them the root mean square of PBE0/def2-SVP over 6 small
    molecules, 3 seeds each, is 0.02 eV for the HOMO and the gap, 0.05 for the LUMO, 0.03 for the energy,
    0.6 D; orbitals are given the larger figures that GFN2-xTB has on 14 molecules. Density fitting shifts orbitals and
    energies by about 0.001 eV.

    Source: PBE0: Adamo, Barone, J. Chem. Phys. 110, 6158 (1999); PySCF: Sun et al., J. Chem. Phys. 153, 024109 (2020).
    """

    name = "pyscf.scf"
    version = "1"
    tier = Tier.HIGH_FIDELITY
    Settings = PyscfSettings
    settings: PyscfSettings
    engines = ("pyscf", "pyscf-dispersion", "tblite", "ase")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase", "pyscf.dft", "pyscf.df", "pyscf.tdscf")

    @property
    def level(self) -> Level:
        suffix = {None: "", "d3bj": "-D3(BJ)", "d4": "-D4"}[self.settings.dispersion]
        return Level(
            method=self.settings.functional + suffix,
            basis=self.settings.basis,
            phase="gas",
            geometry=self.settings.geometry.label,
        )

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def accepts(self, candidate: Molecule) -> Refusal | None:
        for atom in candidate.mol.GetAtoms():
            if atom.GetAtomicNum() in NO_BASIS:
                return Refusal(Reason.ELEMENT, f"{atom.GetSymbol()} has no {self.settings.basis} basis here")
        return refusal(candidate, HEAVIEST, self.settings.max_atoms)

    def basis_functions(self, candidate: Molecule) -> float:
        """Estimated number, without a calculation; for organics in def2-SVP exact."""
        numbers = [atom.GetAtomicNum() for atom in candidate.mol.GetAtoms()]
        numbers += [1] * sum(atom.GetTotalNumHs() for atom in candidate.mol.GetAtoms())
        return SIZE[self.settings.basis] * sum(next(n for last, n in ROWS if z <= last) for z in numbers)

    def cost(self, candidate: Molecule) -> Cost:
        """Measured for PBE0/def2-SVP, grid 3, with the screen for triplets: 6, 8, 14 s at 72, 94, 114 basis functions;
        from grid 2 about 46 and 66 s at 160 and 198. The geometry adds little."""
        seconds = 14.5 * GRID[self.settings.grid] * (self.basis_functions(candidate) / 114) ** 2.5
        share = {"off": 0.6, "auto": 1.0, "always": 2.5}[
            self.settings.spin_check if candidate.multiplicity == 1 else "off"
        ]
        unrestricted = 1.8 if candidate.multiplicity > 1 else 1.0
        return Cost(core_seconds=0.5 + seconds * share * unrestricted)

    def one(self, molecule: Molecule, context: Context) -> Finding:
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        geometry, diagnostics = prepare(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)
        checkpoint = context.checkpoint / f"{self.evidence_key(molecule, context.replicate).hash[:16]}.chk"
        result = single_point(geometry, self._engine_settings(), checkpoint, context.threads)
        values = {
            HOMO: result.homo, LUMO: result.lumo, HOMO_LUMO_GAP: result.gap, DIPOLE: result.dipole,
            TOTAL_ENERGY: result.energy,
        }  # fmt: skip
        return Finding(
            molecule.key,
            Outcome.OK,
            measured=measured(molecule, self.level, values, RIGID, FLEXIBLE),
            diagnostics=diagnostics | result.diagnostics,
            artifacts=(geometry_artifact(geometry, molecule, context),),
        )

    def _engine_settings(self) -> DftSettings:
        chosen = self.settings
        return DftSettings(
            functional=chosen.functional.lower(), basis=chosen.basis.lower(), grid_level=chosen.grid,
            conv_tol=chosen.conv_tol, max_cycles=chosen.max_cycles, dispersion=chosen.dispersion,
            spin_check=chosen.spin_check,
        )  # fmt: skip
