"""Python environments of engines that cannot share sciagent's own. A TOML file lists their interpreters:

    [mace]
    python = "/home/me/mace/bin/python"

Such an environment has the engine, sciagent itself without its dependencies, and the few packages that the process of a
job imports. The file belongs to the machine; each machine with workers has its own.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from sciagent.errors import UnknownNameError, UsageError
from sciagent.inputs.environment_variables import engines_file

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
    imports = (
        "import json, platform, sciagent.verification.sandbox.zygote_nursery; from importlib.metadata import version"
    )
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
