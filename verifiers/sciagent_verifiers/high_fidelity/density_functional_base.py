"""The base class of the PySCF verifiers: settings, level, refusals, geometry and cost estimates."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.chemistry.molecule_normal_form import atoms_of
from sciagent.verification.verifier_contract import Context, Level, Reason, Refusal, Settings, Tier
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of, check_bonds
from sciagent_simulators.pyscf_engine_composites_and_spin_checks import DftSettings
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import PyscfSolvent, SolventModel
from sciagent_simulators.starting_geometry import GeometryProtocol
from sciagent_verifiers.high_fidelity.conformer_average import (
    AVERAGE,
    AVERAGE_CONFORMERS,
    ROOM_TEMPERATURE,
    Average,
    ConformerCalculation,
    average_fault,
)

Functional = Literal[
    "PBE0", "B3LYP", "CAM-B3LYP", "M06-2X", "TPSSh", "r2SCAN0", "BHandHLYP", "wB97X", "wB97X-D3(BJ)", "LC-wPBE",
    "PBE", "BLYP", "BP86", "TPSS", "r2SCAN", "HF", "wB97X-V", "wB97M-V", "r2SCAN-3c", "wB97X-3c",
]  # fmt: skip
Basis = Literal["def2-SVP", "def2-SVPD", "def2-TZVP", "def2-TZVPD", "def2-TZVPP", "def2-TZVPPD", "def2-QZVP", ""]
Dispersion = Literal["d3bj", "d4"]

PYSCF_NAME = {"wB97X-D3(BJ)": "wb97x-d3bj", "LC-wPBE": "hyb_gga_xc_lc_wpbe"}
RANGE_SEPARATED = frozenset({"CAM-B3LYP", "wB97X", "wB97X-D3(BJ)", "LC-wPBE", "wB97X-V", "wB97M-V", "wB97X-3c"})
NONLOCAL = frozenset({"wB97X-V", "wB97M-V"})  # functionals with VV10
COMPOSITE = {"r2SCAN-3c": "def2-mTZVPP", "wB97X-3c": "vDZP"}  # composite methods and their own basis sets
# Functionals that take no dispersion correction: they have their own, or there are no parameters for them.
NO_DISPERSION = frozenset({"M06-2X", "BHandHLYP", "wB97X", "wB97X-D3(BJ)", "LC-wPBE", *NONLOCAL, *COMPOSITE})
DIFFUSE = frozenset({"def2-SVPD", "def2-TZVPD", "def2-TZVPPD"})
DIFFUSE_DEFAULT: Final = "def2-SVPD"  # of anions, electron affinities and solvation free energies

ATOMIC_NUMBERS_WITHOUT_BASIS = range(58, 72)  # def2 has no lanthanides in PySCF

# The numbers from here to EXPECTED_STEPS estimate the cost.
FUNCTIONS_BY_ROW = ((2, 5), (10, 14), (18, 18), (36, 32), (54, 26), (86, 32))
"""(last atomic number of a row of the periodic table, basis functions per atom in def2-SVP)."""
BASIS_FACTORS = {
    "def2-SVP": 1.0,
    "def2-SVPD": 1.45,
    "def2-TZVP": 1.9,
    "def2-TZVPD": 2.35,
    "def2-TZVPP": 2.4,
    "def2-TZVPPD": 2.85,
    "def2-QZVP": 4.6,
    "def2-mTZVPP": 1.3,
    "vDZP": 1.0,
}
"""{basis set: basis functions over those of def2-SVP}."""
VV10_FACTORS = {4: 5.0, 5: 17.0}
"""{level of the grid: cost with VV10 over the cost without}; VV10_FACTOR on the coarser levels."""
VV10_FACTOR = 1.5
GRID_FACTORS = {0: 0.55, 1: 0.65, 2: 0.8, 3: 1.0, 4: 1.4, 5: 1.8}
"""{level of the grid: cost over the cost with level 3}."""
SOLVENT_FACTORS = {"SMD": 3.0, "IEF-PCM": 2.0, "C-PCM": 2.0, "ddCOSMO": 2.2}
"""{model of the solvent: cost over the cost in the gas phase}."""
OPEN_SHELL_FACTOR = 1.8
RANGE_SEPARATED_FACTOR = 1.6
EXPECTED_STEPS = 8  # of a relaxation


class DensityFunctionalSettings(Settings):
    """A Kohn-Sham calculation on a molecule."""

    functional: Functional = Field("PBE0", description="Exchange-correlation functional.")
    basis: Basis = Field(
        "def2-SVP", description="Basis set, with its potentials beyond krypton; empty for a composite method."
    )
    grid: int = Field(3, ge=0, le=5, description="Level of the integration grid, 0 coarse to 5.")
    conv_tol: float = Field(1e-8, gt=0, le=1e-5, description="Convergence of the energy, hartree.")
    max_cycles: int = Field(100, ge=1, le=1000, description="Cycles of each step of the recovery ladder.")
    dispersion: Dispersion | None = Field(None, description="Dispersion correction; of energy and forces only.")
    solvent: PyscfSolvent | None = Field(None, description="Implicit solvent; none is the gas phase.")
    solvent_model: SolventModel = Field("SMD", description="Model of the solvent; all but SMD are electrostatics only.")
    spin_check: Literal["auto", "always", "off"] = Field(
        "auto",
        description="Whether a closed-shell singlet is tested for being the ground state: `auto` where a cheap screen "
        "leaves doubt.",
    )
    geometry: GeometryProtocol = Field(GeometryProtocol.model_validate({}), description="Makes the first geometry.")
    optimise: bool = Field(False, description="Relax the geometry at this level, in this solvent.")
    fmax: float = Field(0.02, gt=0, le=1, description="Largest force on an atom of a relaxed geometry, eV/angstrom.")
    max_steps: int = Field(100, ge=1, le=1000, description="Steps that a relaxation may take.")
    max_atoms: int = Field(100, ge=1, description="Larger molecules are refused; hydrogens included.")
    average: Average | None = AVERAGE
    average_conformers: int = AVERAGE_CONFORMERS

    @model_validator(mode="after")
    def _average_is_possible(self) -> DensityFunctionalSettings:
        fault = average_fault(self.average, self.average_conformers, self.geometry)
        if fault:
            raise ValueError(fault)
        return self

    @model_validator(mode="before")
    @classmethod
    def _composite_has_its_basis(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("functional"), str):
            return given
        functional = given["functional"].replace("ω", "w").replace("²", "2")
        defaults = {"basis": ""} if functional in COMPOSITE else {}
        return {**defaults, **given, "functional": functional}

    @model_validator(mode="after")
    def _basis_belongs_to_the_functional(self) -> DensityFunctionalSettings:
        composite_basis = COMPOSITE.get(self.functional)
        if composite_basis and self.basis:
            raise ValueError(f"{self.functional} has its own basis set, {composite_basis}; leave basis out")
        if not composite_basis and not self.basis:
            raise ValueError(f"{self.functional} needs a basis set, such as def2-TZVP")
        return self

    @model_validator(mode="after")
    def _dispersion_is_parametrised(self) -> DensityFunctionalSettings:
        if self.dispersion and self.functional in NO_DISPERSION:
            has_own_dispersion = self.functional in (*NONLOCAL, *COMPOSITE, "wB97X-D3(BJ)")
            fault = "has its own dispersion" if has_own_dispersion else f"has no parameters of {self.dispersion}"
            raise ValueError(f"{self.functional} {fault}; leave dispersion out")
        return self

    def engine(self, **changes: Any) -> DftSettings:
        """Returns the settings of the engine. changes: settings of the engine that replace the verifier's own."""
        engine: dict[str, Any] = {
            "functional": PYSCF_NAME.get(self.functional, self.functional.lower()),
            "basis": self.basis_set.lower(),
            "grid_level": self.grid,
            "conv_tol": self.conv_tol,
            "max_cycles": self.max_cycles,
            "dispersion": self.dispersion,
            "solvent": self.solvent,
            "solvent_model": self.solvent_model,
            "spin_check": self.spin_check,
        }
        return DftSettings(**{**engine, **changes})

    @property
    def basis_set(self) -> str:
        """The name of the basis set, also of a composite method, whose `basis` is empty."""
        return self.basis or COMPOSITE[self.functional]

    @property
    def ground_method(self) -> str:
        """Functional and dispersion, such as `PBE0-D4`."""
        return self.functional + {None: "", "d3bj": "-D3(BJ)", "d4": "-D4"}[self.dispersion]

    @property
    def method(self) -> str:
        """The name for `Level.method`: functional, dispersion and solvent model, such as `PBE0-D4+SMD`."""
        return self.ground_method + (f"+{self.solvent_model}" if self.solvent else "")

    @property
    def relaxed_in(self) -> PyscfSolvent | None:
        """The solvent in which the geometry is optimised; None for the gas phase."""
        return self.solvent

    @property
    def average_temperature(self) -> float:
        """The temperature at which conformers are weighted, K."""
        return ROOM_TEMPERATURE

    @property
    def geometry_label(self) -> str:
        """The geometry's name; an optimised one starts with its level: `PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10`."""
        start = self.geometry.label
        if self.average:
            start += f", ensemble of {self.average_conformers} at {self.average_temperature:g} K"
        if not self.optimise:
            return start
        method = self.ground_method + (f"+{self.solvent_model}" if self.relaxed_in else "")
        return Level(method, self.basis, phase=self.relaxed_in or "gas", geometry=start).label

    @property
    def level(self) -> Level:
        return Level(self.method, self.basis, phase=self.solvent or "gas", geometry=self.geometry_label)


class DensityFunctional(ConformerCalculation):
    """A verifier that uses PySCF; subclasses define what it measures."""

    tier = Tier.HIGH_FIDELITY
    settings: DensityFunctionalSettings
    engines = ("pyscf", "pyscf-dispersion", "tblite", "ase")
    preload: ClassVar[tuple[str, ...]] = (
        "numpy",
        "ase.optimize",
        "rdkit.Chem.AllChem",
        "tblite.ase",
        "pyscf.dft",
        "pyscf.df",
        "pyscf.tdscf",
    )

    @property
    def level(self) -> Level:
        return self.settings.level

    def defaults_for(self, charges: Collection[int]) -> Mapping[str, Any]:
        """Returns a basis set with diffuse functions where anions are expected."""
        has_anions = min(charges, default=0) < 0
        lacks_diffuse = self.settings.basis and self.settings.basis not in DIFFUSE
        if has_anions and lacks_diffuse:
            return {"basis": DIFFUSE_DEFAULT}
        return {}

    def accepts(self, candidate: Molecule) -> Refusal | None:
        for atom in candidate.mol.GetAtoms():
            if atom.GetAtomicNum() in ATOMIC_NUMBERS_WITHOUT_BASIS:
                return Refusal(Reason.ELEMENT, f"{atom.GetSymbol()} has no {self.settings.basis_set} basis here")
        return super().accepts(candidate)

    def relaxed(
        self, molecule: Molecule, context: Context, geometry: Geometry, part: str = "relax"
    ) -> tuple[Geometry, dict[str, Any]]:
        """Returns the geometry, relaxed at this level if `optimise` is set, and diagnostics.

        part: names the files from which a later attempt resumes. Raises SimulatorError."""
        chosen = self.settings
        facts: dict[str, Any] = {}
        if chosen.optimise:
            from sciagent_simulators.pyscf_relax import relax

            stem = self.checkpoint(molecule, context, part)
            engine = chosen.engine(solvent=chosen.relaxed_in)
            geometry, relaxation_facts = relax(
                geometry, engine, fmax=chosen.fmax, max_steps=chosen.max_steps, checkpoint=stem, threads=context.threads
            )
            check_bonds(geometry, bonds_of(molecule.mol))
            facts |= relaxation_facts
        return geometry, facts

    def checkpoint(self, molecule: Molecule, context: Context, part: str) -> Path:
        """Returns the stem of the files from which a later attempt resumes this part of the calculation."""
        return context.checkpoint / f"{self.evidence_key(molecule, context.replicate).hash[:16]}-{part}"

    def basis_functions(self, candidate: Molecule) -> float:
        """Returns an estimate of the number of basis functions; it is exact for organics in def2-SVP."""
        atoms = atoms_of(candidate.mol)
        n_hydrogens: int = sum(atom.GetTotalNumHs() for atom in atoms)
        n_functions: int = sum(functions_of_atom(atom.GetAtomicNum()) for atom in atoms)
        n_functions += n_hydrogens * functions_of_atom(1)
        return BASIS_FACTORS[self.settings.basis_set] * n_functions

    def scf_seconds(self, candidate: Molecule, multiplicity: int | None = None, gas: bool = False) -> float:
        """Returns the core-seconds of a self-consistent field without the spin check. gas: ignore the solvent.

        Measured for PBE0/def2-SVP, grid 3, with the triplet screen (the field takes 0.6 of it): 6, 8, 14 s at 72, 94,
        114 basis functions; extrapolated from grid 2, about 46 and 66 s at 160 and 198. Benzene in def2-SVP, grid 3:
        PBE0 8, wB97X 10, wB97X-V 13, wB97M-V 23 s.
        """
        chosen = self.settings
        # 14.5 core-seconds at 114 basis functions with the triplet screen, of which the field takes 0.6
        seconds: float = 0.6 * 14.5 * GRID_FACTORS[chosen.grid] * (self.basis_functions(candidate) / 114) ** 2.5
        if (multiplicity or candidate.multiplicity) > 1:
            seconds *= OPEN_SHELL_FACTOR
        if chosen.functional in RANGE_SEPARATED:
            seconds *= RANGE_SEPARATED_FACTOR
        if chosen.functional in NONLOCAL:
            seconds *= VV10_FACTORS.get(chosen.grid, VV10_FACTOR)
        if chosen.solvent and not gas:
            seconds *= SOLVENT_FACTORS[chosen.solvent_model]
        return seconds

    def spin_seconds(self, candidate: Molecule, gas: bool = False) -> float:
        """Returns the core-seconds of the spin check, which only singlets have."""
        if candidate.multiplicity > 1:
            return 0.0
        fields = {"off": 0.0, "auto": 0.4, "always": 3.0}[self.settings.spin_check]  # cost of the check over a field's
        return self.scf_seconds(candidate, gas=gas) * fields

    def relax_seconds(self, candidate: Molecule, multiplicity: int | None = None, gas: bool = False) -> float:
        """Returns the core-seconds of the relaxation, 0 without one.

        Each of EXPECTED_STEPS steps costs 0.9 of a field: a field that starts from a density (0.5), and a gradient."""
        if not self.settings.optimise:
            return 0.0
        return EXPECTED_STEPS * 0.9 * self.scf_seconds(candidate, multiplicity, gas)


def functions_of_atom(atomic_number: int) -> int:
    """Returns the number of basis functions of an atom in def2-SVP, by its row of the periodic table."""
    for last_number, n_functions in FUNCTIONS_BY_ROW:
        if atomic_number <= last_number:
            return n_functions
    raise ValueError(f"no basis functions are known for atomic number {atomic_number}")
