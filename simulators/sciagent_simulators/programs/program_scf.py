"""Single points and relaxations by ORCA and Gaussian, run and checked alike; `ScfProgram` has what differs.

A program's "normal termination" is not enough. The energy of a converged SCF has to be there, a relaxation has to have
converged, and atoms, charge and multiplicity have to be those of the geometry that was handed in.

Users may add words to the program's input.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.programs import Program
from sciagent_simulators.geometry_and_its_checks import Geometry, Positions, check, failure
from sciagent_simulators.programs.run_program_and_name_failure import ProgramOutput, Reasons, failed, run
from sciagent_simulators.solvent_tables_and_faster_pyscf_solvents import PyscfSolvent

SPIN_TOLERANCE = 0.1  # largest accepted <S^2> - S(S+1)
SAME_DISTANCE = 0.01  # angstrom; largest change of a distance between atoms in a single point


@dataclass(frozen=True)
class ProgramResult:
    """The values that a program computed. HOMO and LUMO are the highest and the lowest of both spins."""

    energy: float
    """eV; in a solvent it includes the free energy of solvation."""
    homo: float | None
    """eV; None if no orbital is occupied."""
    lumo: float | None
    """eV; None if no orbital is empty."""
    dipole: float
    """Norm in debye; for an ion, about its centre of mass."""
    geometry: Geometry
    """The geometry of these values: the one handed in, or the relaxed one."""
    diagnostics: dict[str, Any] = field(default_factory=dict)
    """Facts of the calculation, such as the number of cycles."""

    @property
    def gap(self) -> float | None:
        return None if self.homo is None or self.lumo is None else self.lumo - self.homo


def scf_facts(n_energies: int, s_squared: float | None) -> dict[str, Any]:
    """Returns diagnostics: the steps of a relaxation, and <S^2>.

    n_energies: energies in the output, one for each geometry. s_squared: <S^2>; None if the program printed none."""
    facts: dict[str, Any] = {}
    if n_energies > 1:
        facts["relax_steps"] = n_energies - 1
    if s_squared is not None:
        facts["s_squared"] = s_squared
    return facts


def checked(result: ProgramResult, asked: Geometry, relaxed: bool) -> ProgramResult:
    """Returns the result if it can belong to the geometry that was handed in.

    relaxed: whether the program was asked to move the atoms.
    Raises SimulatorError: crashed (bad_result) for other atoms, charge or multiplicity, implausible (not_finite,
    implausible_energy), unstable (spin_contaminated).
    """
    computed = result.geometry
    if computed.numbers != asked.numbers:
        detail = f"{len(computed.numbers)} atoms in the output, {len(asked.numbers)} were asked for"
        raise failure(Reason.BAD_RESULT, detail)
    if (computed.charge, computed.multiplicity) != (asked.charge, asked.multiplicity):
        detail = f"charge {computed.charge}, multiplicity {computed.multiplicity} in the output"
        raise failure(Reason.BAD_RESULT, f"{detail}; asked for {asked.charge} and {asked.multiplicity}")
    orbitals = [value for value in (result.homo, result.lumo) if value is not None]
    values_are_finite = all(map(math.isfinite, [result.energy, result.dipole, *orbitals]))
    if not (values_are_finite and np.isfinite(computed.positions).all()):
        raise failure(Reason.NOT_FINITE, "a value of the result is NaN or infinite")
    if not relaxed and np.abs(_distances(computed) - _distances(asked)).max() > SAME_DISTANCE:
        raise failure(Reason.BAD_RESULT, "the distances between the atoms are not those of the geometry asked for")
    if result.energy >= 0:
        raise failure(Reason.IMPLAUSIBLE_ENERGY, f"total energy {result.energy:.3f} eV is not negative")
    spin = asked.unpaired / 2
    s_squared = result.diagnostics.get("s_squared")
    if s_squared is not None and s_squared - spin * (spin + 1) > SPIN_TOLERANCE:
        detail = f"<S^2> is {s_squared:.3f}; a pure multiplicity {asked.multiplicity} has {spin * (spin + 1):.3f}"
        raise failure(Reason.SPIN_CONTAMINATED, detail, s_squared=s_squared)
    return result


def _distances(geometry: Geometry) -> Positions:
    distances: Positions = np.linalg.norm(geometry.positions[:, None] - geometry.positions[None], axis=-1)
    return distances


WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9()*+=,./_-]{0,59}")
"""The form of the name of a functional or a basis set, and of a further keyword: one word of the program's input.
It has no blank, line break, quote, `%`, `!` or `#`, so it cannot begin a section or a command."""

BEYOND = re.compile(
    r"^(RI-?|SCS-?|SOS-?|U|R|RO)?(MP\d|CC[SD2]|CIS|CI[SD]|QCI|BD|CAS|EOM|SAC|NEVPT|MR|G[1-4]|CBS|W1|TD|OO-|DSD|revDSD)"
    r"|DLPNO|PLYP$|2PLYP|QIDH|0-?DH|wB97X-2|PWPB95|PTPSS|B2GP|B2T|wB2|2-OS",
    re.IGNORECASE,
)
"""Names of correlated, multireference, excited-state and composite methods and of double hybrids. Their energies stand
elsewhere in the output, and their orbitals and dipoles belong to another level."""

ProgramDispersion = Literal["d3bj", "d4"]
ProgramSolventModel = Literal["SMD", "C-PCM"]


@dataclass(frozen=True)
class ProgramMethod:
    """A self-consistent field with its dispersion correction, solvent, and relaxation of the geometry."""

    functional: str
    """Name of the functional or method, as sciagent or the program spells it."""
    basis: str = ""
    """Name of the basis set; empty for a composite method."""
    dispersion: ProgramDispersion | None = None
    """Dispersion correction."""
    solvent: PyscfSolvent | None = None
    """Implicit solvent; None for the gas phase."""
    solvent_model: ProgramSolventModel = "SMD"
    """Model of the solvent."""
    keywords: tuple[str, ...] = ()
    """Further words of the program's own input."""
    relax: bool = False
    """Whether the geometry is relaxed at this level."""
    max_cycles: int = 125
    """Cycles of the self-consistent field."""
    max_steps: int = 100
    """Steps of the relaxation."""


@dataclass(frozen=True)
class Machine:
    """The cores and the memory that a run may use."""

    threads: int = 1
    """Cores."""
    memory_mb: int = 0
    """Memory limit of the job; 0 if unknown."""

    def memory(self, share: float, least: int = 500) -> int:
        """Returns this share of the memory limit, MB, at least `least`. Without a limit it is 2000 MB for each core."""
        limit = float(self.memory_mb)
        if not limit:
            limit = 2000 * self.threads / share
        return max(least, int(share * limit))


@dataclass(frozen=True)
class ScfProgram:
    """A program for self-consistent fields, with its input and output."""

    program: Program
    """The program itself."""
    file: str
    """Name of the input file."""
    input_text: Callable[[Geometry, ProgramMethod, Machine], str]
    """Returns the input."""
    result: Callable[[str], ProgramResult | None]
    """Reads the last values of an output; None if it lacks the energy of a converged SCF or another value."""
    reasons: Reasons
    """Reasons of failures."""
    normal: str
    """The text that ends every complete output."""
    relaxed: str
    """The text that states a converged relaxation."""
    beyond: str
    """Regular expression for energies of methods beyond the self-consistent field; an output with one is refused."""
    reads_stdin: bool = False
    """Whether the input file is the standard input; otherwise it is the argument."""


def compute(
    kind: ScfProgram, geometry: Geometry, method: ProgramMethod, folder: Path, machine: Machine | None = None
) -> tuple[ProgramResult, ProgramOutput]:
    """Returns the result of a single point or a relaxation, and the program's output.

    folder: a new one. Raises SimulatorError as `run` and `checked` do, and for every failure that the output names.
    """
    check(geometry)
    machine = machine or Machine()
    files = {kind.file: kind.input_text(geometry, method, machine)}
    if kind.reads_stdin:
        output = run(kind.program, [], folder, threads=machine.threads, files=files, stdin=kind.file)
    else:  # the input names the number of processes, which have one thread each
        output = run(kind.program, [kind.file], folder, threads=1, files=files)
    return read(kind, output, geometry, method.relax), output


def read(kind: ScfProgram, output: ProgramOutput, asked: Geometry, relax: bool) -> ProgramResult:
    """Returns the result in the output. Raises SimulatorError with the reason where there is none."""
    needed_texts = [kind.normal]
    if relax:
        needed_texts.append(kind.relaxed)
    for needed_text in needed_texts:
        if output.status or needed_text not in output.text:
            raise failed(output, kind.reasons, f'"{needed_text}" is missing')
    if re.search(kind.beyond, output.text, re.MULTILINE):
        raise failure(Reason.BAD_RESULT, "the output has an energy beyond the self-consistent field, which is not read")
    result = kind.result(output.text)
    if result is None:
        missing = "it lacks the energy of a converged SCF, orbitals, the dipole, charge or multiplicity"
        raise failed(output, kind.reasons, missing)
    return checked(result, asked, relax)


def coordinates(geometry: Geometry) -> Iterator[str]:
    """Yields a line with the element and the position of each atom, in angstrom."""
    for symbol, place in zip(geometry.atoms.symbols, geometry.positions, strict=True):
        yield f"{symbol:<2} " + " ".join(f"{x:15.8f}" for x in place)
