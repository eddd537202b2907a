"""Base classes of verifiers that start an external program, and the settings of ORCA and Gaussian."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.domain.evidence_keys_and_pooled_replicates import ArtifactFile
from sciagent.domain.properties_and_levels import DIPOLE, HOMO, HOMO_LUMO_GAP, LUMO, TOTAL_ENERGY
from sciagent.errors import did_you_mean
from sciagent.verification.verifier_contract import (
    Context,
    Cost,
    Finding,
    Level,
    Property,
    PropertyAtLevel,
    Settings,
    Tier,
    at,
)
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of, check_bonds
from sciagent_simulators.programs.program_scf import (
    BEYOND,
    WORD,
    Machine,
    ProgramDispersion,
    ProgramMethod,
    ProgramResult,
    ProgramSolventModel,
    ScfProgram,
    compute,
)
from sciagent_simulators.programs.run_program_and_name_failure import ProgramOutput
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import PyscfSolvent
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare
from sciagent_verifiers.high_fidelity.density_functional_base import BASIS_FACTORS, functions_of_atom
from sciagent_verifiers.high_fidelity.pyscf_orbitals_dipole_energy import FLEXIBLE, RIGID
from sciagent_verifiers.verifier_bases import Calculation, rigid_or_flexible

MAX_KEPT = 4 << 20  # bytes; a longer output is not kept with the evidence


class ProgramVerifier(Calculation):
    """A verifier by one of `programs`. Its settings have `geometry` and `max_atoms`."""

    engines = ("tblite", "ase", "rdkit")
    preload = ("numpy", "ase.optimize", "rdkit.Chem.AllChem", "tblite.ase")

    @property
    def measures(self) -> tuple[PropertyAtLevel, ...]:
        return at(self.level, HOMO, LUMO, HOMO_LUMO_GAP, DIPOLE, TOTAL_ENERGY)

    def start(self, molecule: Molecule, context: Context) -> tuple[Geometry, Mapping[str, Any]]:
        """Returns the geometry by the protocol of the settings, and diagnostics. Raises SimulatorError."""
        protocol = self.settings.geometry
        seed = protocol.seed(molecule.key, context.replicate)
        return prepare(molecule.mol, molecule.charge, molecule.multiplicity, protocol, seed)

    def folder(self, molecule: Molecule, context: Context) -> Path:
        """Returns the program's working folder, which does not exist yet."""
        return context.scratch / f"{self.name}-{molecule.key[:16]}"

    def scf_finding(
        self,
        molecule: Molecule,
        context: Context,
        result: ProgramResult,
        output: ProgramOutput,
        diagnostics: Mapping[str, Any],
    ) -> Finding:
        """Returns the finding of a self-consistent field. Raises SimulatorError if a bond has broken or formed."""
        check_bonds(result.geometry, bonds_of(molecule.mol))
        values: dict[Property, float | None] = {
            HOMO: result.homo,
            LUMO: result.lumo,
            HOMO_LUMO_GAP: result.gap,
            DIPOLE: result.dipole,
            TOTAL_ENERGY: result.energy,
        }
        facts = {**diagnostics, **result.diagnostics, "program": f"{output.program.title} {output.version}"}
        finding = self.calculated(molecule, context, self.measured(molecule, values), facts, {"": result.geometry})
        return with_output(finding, context, output)


def with_output(finding: Finding, context: Context, output: ProgramOutput) -> Finding:
    """Returns the finding with the program's output as a file, unless it is too long to be kept."""
    data = output.text.encode("utf-8", "replace")
    if len(data) > MAX_KEPT:
        return replace(finding, diagnostics={**finding.diagnostics, "output_not_kept": f"{len(data)} bytes"})
    file = context.scratch / f"{finding.candidate_key[:16]}-{output.program.name}.txt"
    file.write_bytes(data)
    return replace(finding, artifacts=(*finding.artifacts, ArtifactFile(file.name, str(file), "text/plain")))


KNOWN_FUNCTIONALS = (
    "PBE0", "B3LYP", "CAM-B3LYP", "M06-2X", "TPSSh", "r2SCAN0", "BHandHLYP", "wB97X", "wB97X-D3(BJ)", "PBE", "BLYP",
    "BP86", "TPSS", "r2SCAN", "HF", "r2SCAN-3c", "wB97X-3c", "wB97X-V", "wB97M-V", "B97-3c",
)  # fmt: skip
"""Names with a checked spelling; the settings take others, too."""
EXPECTED_STEPS = 8  # of a relaxation, in the estimate of its cost
# The estimated seconds of a self-consistent field: REFERENCE_SECONDS for REFERENCE_FUNCTIONS basis functions, and with
# the power COST_EXPONENT of their number. The factors multiply it.
REFERENCE_SECONDS = 9.0
REFERENCE_FUNCTIONS = 114
COST_EXPONENT = 2.5
SOLVENT_FACTOR = 1.3
OPEN_SHELL_FACTOR = 1.8
STEP_FACTOR = 1.4  # cost of a step of a relaxation, over that of a self-consistent field
DEFAULT_BASIS_FACTOR = 1.9  # basis functions over those of def2-SVP, for a basis set that BASIS_FACTORS lacks


class ProgramScfSettings(Settings):
    """A self-consistent field by an external program. Names that sciagent knows mean the same in every engine."""

    functional: str = Field(
        "PBE0",
        max_length=60,
        description="Functional, Hartree-Fock (HF) or a composite method such as r2SCAN-3c. Names of pyscf.scf are "
        "translated; any other is passed on as it is.",
    )
    basis: str = Field(
        "def2-SVP", max_length=60, description="Basis set, in the program's spelling; empty for a composite method."
    )
    dispersion: ProgramDispersion | None = Field(None, description="Dispersion correction.")
    solvent: PyscfSolvent | None = Field(None, description="Implicit solvent; none is the gas phase.")
    solvent_model: ProgramSolventModel = Field("SMD", description="Model of the solvent.")
    keywords: tuple[str, ...] = Field(
        (), max_length=20, description="Further words of the program's own input, such as NoCOSX; part of the level."
    )
    max_cycles: int = Field(125, ge=1, le=1000, description="Cycles of the self-consistent field.")
    optimise: bool = Field(False, description="Relax the geometry at this level, in this solvent.")
    max_steps: int = Field(100, ge=1, le=1000, description="Steps that a relaxation may take.")
    geometry: GeometryProtocol = Field(GeometryProtocol(), description="Protocol of the first geometry.")
    max_atoms: int = Field(100, ge=1, description="Larger molecules are refused; hydrogens included.")

    @model_validator(mode="after")
    def _names_are_words(self) -> Self:
        words = [self.functional, *self.keywords]
        if self.basis:
            words.insert(1, self.basis)
        for word in words:
            if not WORD.fullmatch(word):
                raise ValueError(f'"{word}" is not one word of letters, digits and ()+-,=./*_')
            if "external" in word.casefold():  # Gaussian would take the energies from another program
                raise ValueError(f'"{word}" hands the calculation over to another program')
        if BEYOND.search(self.functional):
            raise ValueError(f"{self.functional} goes beyond the self-consistent field, whose results alone are read")
        hint = did_you_mean(self.functional, KNOWN_FUNCTIONALS)
        other_names = [name.casefold() for name in KNOWN_FUNCTIONALS if name != self.functional]
        # a known name with other capital letters: programs would take it, and the level would have another name
        if hint and self.functional.casefold() in other_names:
            raise ValueError(f'unknown functional "{self.functional}"{hint}')
        if self.functional.lower().endswith("-3c") and self.basis:
            raise ValueError(f'{self.functional} has its own basis set; set basis: ""')
        return self

    @property
    def program_method(self) -> ProgramMethod:
        """The method for the simulator."""
        return ProgramMethod(
            functional=self.functional,
            basis=self.basis,
            dispersion=self.dispersion,
            solvent=self.solvent,
            solvent_model=self.solvent_model,
            keywords=self.keywords,
            relax=self.optimise,
            max_cycles=self.max_cycles,
            max_steps=self.max_steps,
        )

    @property
    def level(self) -> Level:
        method = self.functional + {None: "", "d3bj": "-D3(BJ)", "d4": "-D4"}[self.dispersion]
        method += f"+{self.solvent_model}" if self.solvent else ""
        method += "".join(f" {word}" for word in self.keywords)
        phase = self.solvent or "gas"
        start = self.geometry.label
        geometry = start
        if self.optimise:  # the relaxation has the same level as the values
            geometry = Level(method, self.basis, phase=phase, geometry=start).label
        return Level(method, self.basis, phase=phase, geometry=geometry)


class SelfConsistentField(ProgramVerifier):
    """A verifier by ORCA or Gaussian; a subclass names the program."""

    tier = Tier.HIGH_FIDELITY
    settings: ProgramScfSettings
    spreads = rigid_or_flexible(RIGID, FLEXIBLE)
    scf: ClassVar[ScfProgram]
    """The program."""
    overhead: ClassVar[float] = 3.0
    """Core-seconds that the program takes for any molecule."""

    @property
    def level(self) -> Level:
        return self.settings.level

    def cost(self, candidate: Molecule) -> Cost:
        """Returns an estimate from the number of basis functions and PySCF's timings; it is corrected as jobs end."""
        atoms = list(candidate.mol.GetAtoms())
        n_hydrogens = sum(atom.GetTotalNumHs() for atom in atoms)
        n_functions = sum(functions_of_atom(atom.GetAtomicNum()) for atom in atoms)
        n_functions += n_hydrogens * functions_of_atom(1)
        basis_functions = BASIS_FACTORS.get(self.settings.basis, DEFAULT_BASIS_FACTOR) * n_functions
        seconds = REFERENCE_SECONDS * (basis_functions / REFERENCE_FUNCTIONS) ** COST_EXPONENT
        if self.settings.solvent:
            seconds *= SOLVENT_FACTOR
        if candidate.multiplicity > 1:
            seconds *= OPEN_SHELL_FACTOR
        if self.settings.optimise:
            seconds *= 1 + STEP_FACTOR * EXPECTED_STEPS
        return Cost(core_seconds=self.overhead + seconds)

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        geometry, diagnostics = self.start(molecule, context)
        machine = Machine(threads=context.threads, memory_mb=context.memory_mb)
        method = self.settings.program_method
        folder = self.folder(molecule, context)
        result, output = compute(self.scf, geometry, method, folder, machine)
        return self.scf_finding(molecule, context, result, output, diagnostics)
