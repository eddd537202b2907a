"""The version of sciagent's code, which a ledger keeps with what the code made."""

from __future__ import annotations

import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

FOLDER = Path(__file__).parent.parent
PATIENCE = 10  # seconds to wait for git


@cache
def code_version() -> str:
    """Returns the version of the package; in a checkout also the commit, with `-dirty` if files differ from it."""
    try:
        version = metadata.version("sciagent")
    except metadata.PackageNotFoundError:
        version = "unknown"
    if not (FOLDER / ".git").exists():  # the package is installed, perhaps within another project's checkout
        return version
    command = ["git", "-C", str(FOLDER), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return version
    return f"{version}+{done.stdout.strip()}"[:100] if done.returncode == 0 else version
