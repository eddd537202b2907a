"""External programs, such as ORCA: where they are on this machine, and their versions.

A program is the file that its variable names (`SCIAGENT_ORCA=/opt/orca/orca`), or else the first file on the path whose
output shows that it is the program. A file name is not enough: `orca` is also the name of a screen reader.

A Python package that cannot share an environment with sciagent, such as GPAW, is a program too: the Python interpreter
that can import it.

The module that runs a program describes it by a `Program`, and a verifier that needs a program declares it. Nothing
else names a program: `sciagent doctor` lists what the installed verifiers declare.

An engine that cannot share a Python environment with sciagent has one of its own. A TOML file lists the interpreters:

    [mace]
    python = "/home/me/mace/bin/python"

Such an environment has the engine, sciagent itself without its dependencies, and the few packages that the process of a
job imports. The file belongs to the machine; each machine with workers has its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from sciagent.domain.outcomes_and_verdicts import Outcome, Reason
from sciagent.errors import SimulatorError, UnknownNameError, UsageError
from sciagent.inputs.environment_variables import engines_file, path

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


NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}", re.ASCII)  # of an environment
ANSWER_PATIENCE = 120  # seconds for the imports of another environment from a cold disk
INSTALL = "pip install --no-deps sciagent && pip install pydantic numpy psutil ase pymatgen"
"""The packages that an environment needs beside its engine, for crystals; for molecules rdkit instead of pymatgen."""
HEAD = "# Python environments of engines, see `sciagent engines --help`\n"


def environments() -> Mapping[str, Path]:
    """Returns the interpreters by name of their environment. Raises UsageError for a file that cannot be read."""
    import tomllib

    file = engines_file()
    try:
        entries = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from None
    for name, entry in entries.items():
        if not NAME.fullmatch(name) or not isinstance(entry, dict) or not isinstance(entry.get("python"), str):
            raise UsageError(f'{file}: [{name}] has to be a name of small letters with python = "PATH"')
    return {name: Path(entry["python"]).expanduser() for name, entry in sorted(entries.items())}


def add(name: str, python: Path) -> Mapping[str, str]:
    """Adds an environment, or replaces one, and returns its versions. Raises UsageError if it cannot run sciagent."""
    if not NAME.fullmatch(name):
        raise UsageError(f'"{name}" is no name of an environment: use small letters, digits, - and _')
    python = Path(os.path.abspath(python.expanduser()))  # noqa: PTH100  a resolved link would leave its environment
    versions = inspect(python)
    _write({**environments(), name: python})
    return versions


def remove(name: str) -> None:
    """Removes an environment from the list; its folder stays. Raises UnknownNameError."""
    known = environments()
    if name not in known:
        raise UnknownNameError("environment", name, tuple(known))
    _write({other: python for other, python in known.items() if other != name})


def inspect(python: Path) -> Mapping[str, str]:
    """Returns the versions of Python and sciagent in an environment. Raises UsageError if the two sciagents differ, or
    if it cannot run the process of a job."""
    imports = "import json, platform, sciagent.verification.sandbox.nursery; from importlib.metadata import version"
    shown = "print(json.dumps({'python': platform.python_version(), 'sciagent': version('sciagent')}))"
    printed = printed_by(python, "-c", f"{imports}; {shown}")
    versions: Mapping[str, str] = json.loads(printed)
    if versions["sciagent"] != version("sciagent"):
        raise UsageError(
            f"{python} has sciagent {versions['sciagent']}, and this is {version('sciagent')}; install the same there"
        )
    return versions


def inspect_once(python: Path) -> tuple[tuple[str, str], ...]:
    """Returns the result of `inspect` as pairs; it is kept as long as the interpreter's file stays the same."""
    try:
        stat = python.stat()
    except OSError as error:
        raise UsageError(f"{python}: {error.strerror}; sciagent engines NAME --python PATH names another") from None
    return _inspected(python, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=32)
def _inspected(python: Path, modified: int, size: int) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(inspect(python).items()))


def printed_by(python: Path, *arguments: str, stdin: str = "") -> str:
    """Returns the last line that the interpreter prints. Raises UsageError if it fails, with the last line of its
    error."""
    try:
        done = subprocess.run(
            [str(python), "-P", *arguments],  # -P: imports nothing from the working folder
            env=without_python_variables(os.environ),
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_PATIENCE,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(f"{python} did not answer within {ANSWER_PATIENCE} s") from None
    except OSError as error:
        raise UsageError(f"{python} does not start: {error.strerror}") from None
    if done.returncode or not done.stdout.strip():
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        raise UsageError(f"{python} cannot run jobs of sciagent: {lines[-1][:300]}; in that environment: {INSTALL}")
    return done.stdout.strip().splitlines()[-1]


def without_python_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables without those that would lead another Python to the packages of this one."""
    return {name: value for name, value in variables.items() if not name.startswith("PYTHON")}


def _write(environments_: Mapping[str, Path]) -> None:
    file = engines_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"[{name}]\npython = {json.dumps(str(python))}\n" for name, python in sorted(environments_.items())]
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        partial.write_text("\n".join([HEAD, *parts]), encoding="utf-8")
        partial.replace(file)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
