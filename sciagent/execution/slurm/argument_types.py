"""Types of texts that become a command argument or a line of a batch script. Each allows only a few characters."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator

from sciagent.domain.jobs.resource_requests import NAME
from sciagent.yaml.validation import fault

RESERVED = (
    "account", "array", "bb", "bbf", "chdir", "clusters", "cluster", "cpus-per-task", "dependency", "error", "export",
    "export-file", "get-user-env", "help", "hold", "ignore-pbs", "input", "job-name", "kill-on-invalid-dep", "mem",
    "mem-per-cpu", "mem-per-gpu", "no-requeue", "nodes", "ntasks", "ntasks-per-core", "ntasks-per-gpu",
    "ntasks-per-node", "ntasks-per-socket", "open-mode", "output", "parsable", "partition", "qos", "quiet", "requeue",
    "signal", "test-only", "time", "time-min", "uid", "gid", "usage", "verbose", "version", "wait", "wrap",
)  # fmt: skip
"""Options of sbatch that sciagent sets itself, or that would change its input or its user."""


def _checked(pattern: str, takes: str, limit: int) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(value: str) -> str:
        if len(value) > limit:
            raise fault(f"{len(value)} characters; the limit is {limit}")
        if not compiled.fullmatch(value):
            shown = value if len(value) <= 60 else value[:57] + "..."
            raise fault(f"{shown!r} is not taken here", f"takes {takes}")
        return value

    return AfterValidator(check)


Name = Annotated[str, _checked(r"[A-Za-z0-9][A-Za-z0-9_.-]*", 'letters, digits, "_", "." and "-"', 64)]
"""Name of a partition, an account or a QOS."""

Licence = Annotated[str, _checked(NAME, 'a lower-case letter, then letters, digits and "_"', 31)]
"""Name of a licence, as in a rung's `resources`."""

Module = Annotated[
    str, _checked(r"[A-Za-z0-9][A-Za-z0-9_.+/-]*", 'the name of a module: letters, digits and "_.+-/"', 128)
]
Variable = Annotated[
    str,
    _checked(
        r"(?!SLURM_|SBATCH_)[A-Za-z_][A-Za-z0-9_]*",
        'the name of an environment variable: letters, digits and "_"; not SLURM_ or SBATCH_, which Slurm sets',
        100,
    ),
]
Value = Annotated[
    str, _checked(r"[A-Za-z0-9_@%+=:,./ -]*", 'letters, digits, spaces and "_@%+=:,./-"; no quotes, no $', 1000)
]
"""Value of an environment variable."""

AbsolutePath = Annotated[
    str,
    _checked(
        r"(?!.*/\.\.?(?:/|$))(?:/[A-Za-z0-9_@+=:,.-]+)+",
        'a path from "/" on: letters, digits and "_@+=:,.-"; no folder "." or "..", no "/" at its end',
        400,
    ),
]


def key_of(option: str) -> str:
    """The key in --key or --key=value."""
    return option.removeprefix("--").partition("=")[0]


def _not_reserved(value: str) -> str:
    """Refuse reserved options and their prefixes, since sbatch accepts a prefix as the whole option."""
    key = key_of(value)
    if taken := [name for name in RESERVED if name.startswith(key)]:
        short = "" if key in taken else f", for it is short for --{taken[0]}"
        raise fault(f"--{key} cannot be given here{short}", "sciagent sets it, or relies on how it stands")
    return value


Option = Annotated[
    str,
    _checked(r"--[a-z]+(?:-[a-z]+)*(?:=[A-Za-z0-9_@%+:.,/*-]+)?", "--key or --key=value, as --constraint=skylake", 200),
    AfterValidator(_not_reserved),
]
"""An additional option of sbatch."""
