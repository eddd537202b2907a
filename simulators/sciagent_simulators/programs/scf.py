"""Single points and relaxations by ORCA and Gaussian: one run and one set of checks, with a table of the differences.

A program's "normal termination" is not enough. The energy of a converged SCF has to be there, a relaxation has to have
converged, and atoms, charge and multiplicity have to be those of the geometry that was handed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sciagent.domain.outcomes import Reason
from sciagent.programs import Program
from sciagent_simulators.geometry import Geometry, check, failure
from sciagent_simulators.programs.method import Machine, ProgramMethod
from sciagent_simulators.programs.result import ProgramResult, checked
from sciagent_simulators.programs.running import ProgramOutput, Reasons, failed, run


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
    """Regular expression for energies beyond the self-consistent field, which are not read."""
    reads_stdin: bool = False
    """Whether the input file is the standard input; otherwise it is the argument."""


def compute(
    kind: ScfProgram, geometry: Geometry, method: ProgramMethod, folder: Path, machine: Machine | None = None
) -> tuple[ProgramResult, ProgramOutput]:
    """Returns the result of a single point or a relaxation, and the program's output.

    folder: a new one. Raises SimulatorError as `run` and `checked` do, and for every failure that the output names.
    """
    check(geometry)
    text = kind.input_text(geometry, method, machine := machine or Machine())
    # a program that reads a file starts its threads as processes, by its input
    arguments, stdin, threads = ([], kind.file, machine.threads) if kind.reads_stdin else ([kind.file], "", 1)
    output = run(kind.program, arguments, folder, threads, {kind.file: text}, stdin)
    return read(kind, output, geometry, method.relax), output


def read(kind: ScfProgram, output: ProgramOutput, asked: Geometry, relax: bool) -> ProgramResult:
    """Returns the result in the output. Raises SimulatorError with the reason where there is none."""
    for needed in (kind.normal, *([kind.relaxed] if relax else [])):
        if output.status or needed not in output.text:
            raise failed(output, kind.reasons, f'"{needed}" is missing')
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
