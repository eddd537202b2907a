"""External programs, such as ORCA: where they are on this machine, and their versions.

A program is the file that its variable names (`SCIAGENT_ORCA=/opt/orca/orca`), or else the first file on the path whose
output shows that it is the program. A file name is not enough: `orca` is also the name of a screen reader.

A Python package that cannot share an environment with sciagent, such as GPAW, is a program too: the Python interpreter
that can import it.

The module that runs a program describes it by a `Program`, and a verifier that needs a program declares it. Nothing
else names a program: `sciagent doctor` lists what the installed verifiers declare.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.errors import SimulatorError
from sciagent.inputs.engine_environments import without_python_variables
from sciagent.inputs.environment_variables import path

MAX_PRINTED_BYTES = 200_000  # of a program's output that are searched for its version
MAX_SHOWN_FILES = 3  # files in the message on a missing program
PATIENCE = 60.0  # seconds for a program to state its version
IMPORT_PATIENCE = 300.0  # seconds for a Python that imports a package first: 6 s for GPAW, over 60 on a busy machine


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
    is_beside_python: bool = False
    """Whether pip may have put it beside this Python: that folder is searched too, activated environment or not."""
    scratch_variable: str = ""
    """The environment variable that names the folder of its temporary files; empty if it takes the working folder."""

    def environment(self, folder: Path) -> dict[str, str]:
        """Returns the environment variables with which the program is started in a folder."""
        variables = without_python_variables(os.environ) if self.is_python else dict(os.environ)
        if self.scratch_variable:
            variables[self.scratch_variable] = str(folder)
        return variables


@dataclass(frozen=True)
class FoundProgram:
    """A program on this machine."""

    path: Path
    """Its file."""
    version: str
    """The version that it states."""


def interpreter(module: str, title: str, variable: str, source: str) -> Program:
    """Returns the program that is a Python interpreter with this module, which has a `__version__`."""
    question = ("-c", f"import {module}; print('{module}', {module}.__version__)")
    answer = rf"(?m)^{module} (\d\S*)$"
    names = ("python3", "python")
    return Program(
        name=module,
        title=title,
        variable=variable,
        commands=names,
        question=question,
        answer=answer,
        source=source,
        is_python=True,
        patience=IMPORT_PATIENCE,
    )


class _SilentError(Exception):
    """A file printed no version in time."""


def find(program: Program) -> FoundProgram:
    """Returns the program on this machine. Raises SimulatorError bad_environment (program_missing)."""
    strangers = []  # one line on each file that is not the program
    for file in _files(program):
        try:
            size, modified = _state(file)
            found, what_it_does = _asked_for_version(program, str(file), size, modified)
        except _SilentError:  # asked again the next time: the machine may have been busy
            found = None
            what_it_does = f"it prints no version within {program.patience:g} s"
        if found is not None:
            return found
        strangers.append(f"{file} is not {program.title}: {what_it_does}")
    named = path(program.variable)
    if named is not None and not strangers:
        strangers = [f"{program.variable} names {named}, which is no executable file"]
    why = "; ".join(strangers[:MAX_SHOWN_FILES]) or f"no {' or '.join(program.commands)} on the path"
    what = "the Python that has it" if program.is_python else "its file"
    way_out = f"install it ({program.source}), or name {what}: export {program.variable}=/path/to/{program.commands[0]}"
    raise SimulatorError(
        Outcome.BAD_ENVIRONMENT, Reason.PROGRAM_MISSING, f"{program.title} is not available here ({why}); {way_out}"
    )


def _files(program: Program) -> Iterator[Path]:
    """Yields the file that the variable names; without the variable, every executable of the command on the path."""
    named = path(program.variable)
    if named is not None:
        files = [shutil.which(str(named))]
    else:
        folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder]
        if program.is_beside_python:
            folders.append(str(Path(sys.executable).parent))
        files = [shutil.which(command, path=folder) for command in program.commands for folder in folders]
    yield from dict.fromkeys(Path(file).absolute() for file in files if file)  # each file once


def _state(file: Path) -> tuple[int, int]:
    """Returns the size and the time of the last change of a file, by which a replaced program is noticed."""
    stat = file.stat()
    return stat.st_size, stat.st_mtime_ns


@lru_cache(maxsize=64)
def _asked_for_version(program: Program, file: str, size: int, modified: int) -> tuple[FoundProgram | None, str]:
    """Runs a file for its version. Returns (program, empty text), or (None, what the file did instead).

    size, modified: state of the file; they are part of the key under which the result is kept.
    """
    with tempfile.TemporaryDirectory(prefix="sciagent-version-") as folder:
        try:
            completed = subprocess.run(
                [file, *program.question],
                cwd=folder,
                env={**program.environment(Path(folder)), "OMP_NUM_THREADS": "1"},
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
    printed = completed.stdout[:MAX_PRINTED_BYTES].decode(errors="replace")
    match = re.search(program.answer, printed)
    if match is None:
        first_words = " ".join(printed.split())[:80]
        return None, f'it answers "{first_words}"' if first_words else "it answers nothing"
    return FoundProgram(Path(file), " ".join(match.groups())), ""
