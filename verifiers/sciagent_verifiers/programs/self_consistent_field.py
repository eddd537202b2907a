"""The base class and the settings of the verifiers by ORCA and Gaussian."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from sciagent.chemistry.molecule import Molecule
from sciagent.errors import did_you_mean
from sciagent.verification.contract import Context, Cost, Finding, Level, Settings, Tier
from sciagent_simulators.geometry import GeometryProtocol
from sciagent_simulators.programs.method import (
    BEYOND,
    WORD,
    Machine,
    ProgramDispersion,
    ProgramMethod,
    ProgramSolventModel,
)
from sciagent_simulators.programs.scf import ScfProgram, compute
from sciagent_simulators.solvents import PyscfSolvent
from sciagent_verifiers.high_fidelity.density_functional import ROWS, SIZE
from sciagent_verifiers.high_fidelity.pyscf_scf import FLEXIBLE, RIGID
from sciagent_verifiers.programs.program_verifier import ProgramVerifier

KNOWN = (
    "PBE0", "B3LYP", "CAM-B3LYP", "M06-2X", "TPSSh", "r2SCAN0", "BHandHLYP", "wB97X", "wB97X-D3(BJ)", "PBE", "BLYP",
    "BP86", "TPSS", "r2SCAN", "HF", "r2SCAN-3c", "wB97X-3c", "wB97X-V", "wB97M-V", "B97-3c",
)  # fmt: skip
"""Names with a checked spelling; the settings take others, too."""
STEPS = 8  # steps of a relaxation, for its cost


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
        for what in (self.functional, *([self.basis] if self.basis else []), *self.keywords):
            if not WORD.fullmatch(what):
                raise ValueError(f'"{what}" is not one word of letters, digits and ()+-,=./*_')
        if BEYOND.search(self.functional):
            raise ValueError(f"{self.functional} goes beyond the self-consistent field, whose results alone are read")
        near = did_you_mean(self.functional, KNOWN)
        if near and self.functional.casefold() in (name.casefold() for name in KNOWN if name != self.functional):
            raise ValueError(f'unknown functional "{self.functional}"{near}')
        if self.functional.lower().endswith("-3c") and self.basis:
            raise ValueError(f'{self.functional} has its own basis set; set basis: ""')
        return self

    @property
    def program_method(self) -> ProgramMethod:
        """The method for the simulator."""
        return ProgramMethod(
            self.functional, self.basis, self.dispersion, self.solvent, self.solvent_model, self.keywords,
            self.optimise, self.max_cycles, self.max_steps,
        )  # fmt: skip

    @property
    def level(self) -> Level:
        method = self.functional + {None: "", "d3bj": "-D3(BJ)", "d4": "-D4"}[self.dispersion]
        method += f"+{self.solvent_model}" if self.solvent else ""
        method += "".join(f" {word}" for word in self.keywords)
        phase, start = self.solvent or "gas", self.geometry.label
        geometry = Level(method, self.basis, phase, start).label if self.optimise else start
        return Level(method, self.basis, phase, geometry)


class SelfConsistentField(ProgramVerifier):
    """A verifier by ORCA or Gaussian; a subclass names the program."""

    tier = Tier.HIGH_FIDELITY
    settings: ProgramScfSettings
    spread = RIGID, FLEXIBLE
    scf: ClassVar[ScfProgram]
    """The program."""
    overhead: ClassVar[float] = 3.0
    """Core-seconds that the program takes for any molecule."""

    @property
    def level(self) -> Level:
        return self.settings.level

    def cost(self, candidate: Molecule) -> Cost:
        """Returns an estimate from the number of basis functions and PySCF's timings; it is corrected as jobs end."""
        numbers = [atom.GetAtomicNum() for atom in candidate.mol.GetAtoms()]
        numbers += [1] * sum(atom.GetTotalNumHs() for atom in candidate.mol.GetAtoms())
        functions = SIZE.get(self.settings.basis, 1.9) * sum(next(n for last, n in ROWS if z <= last) for z in numbers)
        seconds = 9.0 * (functions / 114) ** 2.5 * (1.3 if self.settings.solvent else 1.0)
        seconds *= 1.8 if candidate.multiplicity > 1 else 1.0
        return Cost(core_seconds=self.overhead + seconds * (1 + (1.4 * STEPS if self.settings.optimise else 0)))

    def finding(self, molecule: Molecule, context: Context) -> Finding:
        geometry, diagnostics = self.start(molecule, context)
        machine = Machine(context.threads, context.memory_mb)
        method, folder = self.settings.program_method, self.folder(molecule, context)
        result, output = compute(self.scf, geometry, method, folder, machine)
        return self.answered(molecule, context, result, output, diagnostics)
