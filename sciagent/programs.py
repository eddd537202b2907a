"""External programs, such as ORCA: where they are on this machine, and their versions.

A program is the file that its variable names (`SCIAGENT_ORCA=/opt/orca/orca`), or else the first file on the path whose
output shows that it is the program. A file name is not enough: `orca` is also the name of a screen reader.

A Python package that cannot share an environment with sciagent, such as GPAW, is a program too: the Python interpreter
that can import it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sciagent.domain.outcomes import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.inputs.settings import path

PATIENCE = 60.0  # seconds for a program to state its version
IMPORT_PATIENCE = 300.0  # seconds for a Python that imports a package first; GPAW takes 6 s, over 60 on a busy machine


@dataclass(frozen=True)
class Program:
    """A program that sciagent can start, with the output by which it is recognised."""

    name: str
    """Name in messages and in the provenance of evidence, such as `orca`."""
    title: str
    """Name in texts for people, such as `ORCA`."""
    variable: str
    """The environment variable that names its file."""
    commands: tuple[str, ...]
    """File names that are looked for on the path, in this order."""
    question: tuple[str, ...]
    """Arguments with which it prints its version; its standard input is empty then."""
    answer: str
    """Regular expression for that output; its groups, joined by a blank, are the version."""
    source: str
    """Packages or addresses from which people get it, for messages."""
    is_python: bool = False
    """Whether it is the interpreter of another Python environment, which gets none of our variables for Python."""
    patience: float = PATIENCE
    """Seconds to wait for its version. A process asks once; only a program that was too slow is asked again."""

    def environment(self) -> dict[str, str]:
        """Returns the environment variables with which the program is started."""
        return {name: value for name, value in os.environ.items() if not (self.is_python and name.startswith("PYTHON"))}


@dataclass(frozen=True)
class FoundProgram:
    """A program on this machine."""

    path: Path
    """Its file."""
    version: str
    """The version that it states."""


XTB = Program(
    "xtb",
    "xtb",
    "SCIAGENT_XTB",
    ("xtb",),
    ("--version",),
    r"xtb version (\S+)",
    "Debian and Ubuntu: apt-get install xtb; else https://github.com/grimme-lab/xtb",
)
CREST = Program(
    "crest",
    "CREST",
    "SCIAGENT_CREST",
    ("crest",),
    ("--version",),
    r"(?:Version|crest)\s+v?(\d+\.\d[\w.]*)",
    "https://github.com/crest-lab/crest",
)
ORCA = Program(
    "orca",
    "ORCA",
    "SCIAGENT_ORCA",
    ("orca",),
    ("--version",),
    r"Program Version\s+(\d+\.\d[\w.]*)",
    "ORCA 5 or later, https://orcaforum.kofo.mpg.de",
)
GAUSSIAN = Program(
    "gaussian",
    "Gaussian",
    "SCIAGENT_GAUSSIAN",
    ("g16", "g09"),
    (),
    r"Gaussian (\d\d), Revision ([A-Z]\.\d\d)",
    "https://gaussian.com; g16 needs its own environment (g16root, GAUSS_EXEDIR)",
)
MPIEXEC = Program(
    "openmpi",
    "Open MPI",
    "SCIAGENT_MPIEXEC",
    ("mpiexec", "mpirun"),
    ("--version",),
    r"(?:OpenRTE|Open MPI)\) (\d\S*)",
    "Debian and Ubuntu: apt-get install openmpi-bin",
)
"""Starts a parallel program. It has to be the Open MPI with which that program was built."""


def interpreter(module: str, title: str, variable: str, source: str) -> Program:
    """Returns the program that is a Python interpreter with this module, which has a `__version__`."""
    question = ("-c", f"import {module}; print('{module}', {module}.__version__)")
    answer = rf"(?m)^{module} (\d\S*)$"
    names = ("python3", "python")
    return Program(module, title, variable, names, question, answer, source, is_python=True, patience=IMPORT_PATIENCE)


GPAW = interpreter(
    "gpaw", "GPAW", "SCIAGENT_GPAW", "Debian and Ubuntu: apt-get install gpaw; else https://gpaw.readthedocs.io"
)
PROGRAMS = (XTB, CREST, ORCA, GAUSSIAN, GPAW, MPIEXEC)


class _SilentError(Exception):
    """A file that has printed no version in time."""


def find(program: Program) -> FoundProgram:
    """Returns the program on this machine. Raises SimulatorError bad_environment (program_missing)."""
    strangers = []
    for file in _files(program):
        try:
            found, printed = _asked(program, str(file), *_state(file))
        except _SilentError:  # asked again the next time: the machine may have been busy
            found, printed = None, f"it prints no version within {program.patience:g} s"
        if found is not None:
            return found
        strangers.append(f"{file} is not {program.title}: {printed}")
    named = path(program.variable)
    if named is not None and not strangers:
        strangers = [f"{program.variable} names {named}, which is no executable file"]
    why = "; ".join(strangers[:3]) or f"no {' or '.join(program.commands)} on the path"
    what = "the Python that has it" if program.is_python else "its file"
    way_out = f"install it ({program.source}), or name {what}: export {program.variable}=/path/to/{program.commands[0]}"
    raise SimulatorError(
        Outcome.BAD_ENVIRONMENT, Reason.PROGRAM_MISSING, f"{program.title} is not available here ({why}); {way_out}"
    )


def _files(program: Program) -> Iterator[Path]:
    """Yields the file that the variable names, else every executable of that name on the path."""
    named = path(program.variable)
    if named is not None:
        found = [shutil.which(str(named))]
    else:
        folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
        found = [shutil.which(command, path=folder) for command in program.commands for folder in folders if folder]
    yield from dict.fromkeys(Path(file).absolute() for file in found if file)


def _state(file: Path) -> tuple[int, int]:
    """Returns size and time of the file, so that a replaced program is asked again."""
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=64)
def _asked(program: Program, file: str, size: int, modified: int) -> tuple[FoundProgram | None, str]:
    """Runs the file for its version. Returns the program, or None and a text on what the file did instead."""
    with tempfile.TemporaryDirectory(prefix="sciagent-version-") as folder:
        try:
            asked = subprocess.run(
                [file, *program.question],
                cwd=folder,
                env={**program.environment(), "OMP_NUM_THREADS": "1", "GAUSS_SCRDIR": folder},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=program.patience,
                start_new_session=True,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise _SilentError from error
        except OSError as error:
            return None, f"it does not start: {error.strerror}"
    printed = asked.stdout[:200_000].decode(errors="replace")
    match = re.search(program.answer, printed)
    if match is None:
        said = " ".join(printed.split())[:80]
        return None, f'it answers "{said}"' if said else "it answers nothing"
    return FoundProgram(Path(file), " ".join(match.groups())), ""
