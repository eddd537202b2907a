"""Settings of the installation, from environment variables (`SCIAGENT_*`), and the version of its code."""

from __future__ import annotations

import getpass
import math
import os
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from sciagent.errors import UsageError

DEFAULT_LEDGER = "sciagent.db"
MAX_SECRET_BYTES = 4096
MIN_LEASE_SECONDS = 2
MAX_LEASE_SECONDS = 86400  # a day


def ledger_address(given: str | None = None) -> str:
    """Returns the URL or file path of the ledger: `given`, else SCIAGENT_LEDGER, else the line of the file that
    SCIAGENT_LEDGER_FILE names, else ./sciagent.db. Raises UsageError."""
    return given or secret("SCIAGENT_LEDGER") or DEFAULT_LEDGER


def lease_seconds() -> float:
    """Returns SCIAGENT_LEASE_SECONDS, default 60: the seconds after which the work of a silent worker or driver is
    given to others. All users of a ledger must set the same number. Raises UsageError."""
    given = os.environ.get("SCIAGENT_LEASE_SECONDS") or "60"
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan  # is in no range
    if not MIN_LEASE_SECONDS <= seconds <= MAX_LEASE_SECONDS:
        raise UsageError(f'SCIAGENT_LEASE_SECONDS="{given}": a number from {MIN_LEASE_SECONDS} to {MAX_LEASE_SECONDS}')
    return seconds


def secret(name: str) -> str | None:
    """Returns the value of a variable, or the only line of the file that NAME_FILE names; None if neither is set.

    Raises UsageError if both are set, or if the file cannot be read, is empty or has more than one line.
    """
    value = os.environ.get(name)
    file_name = os.environ.get(f"{name}_FILE")
    if not file_name:
        return value or None
    if value:
        raise UsageError(f"both {name} and {name}_FILE are set; unset one")
    try:
        with Path(file_name).expanduser().open("rb") as file:
            lines = file.read(MAX_SECRET_BYTES + 1).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{name}_FILE: {file_name} cannot be read: {reason}") from None
    if len(lines) != 1 or not lines[0].strip() or len(lines[0]) > MAX_SECRET_BYTES:
        raise UsageError(f"{name}_FILE: {file_name} must hold one line, and nothing else")
    return lines[0].strip()


def cache_folder() -> Path:
    """Returns the folder for files that can be built again: SCIAGENT_CACHE, default `sciagent` in the user's cache."""
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return path("SCIAGENT_CACHE") or user_cache / "sciagent"


def models_folder() -> Path:
    """Returns the folder of the models on this machine: SCIAGENT_MODELS, default `models` in the cache folder."""
    return path("SCIAGENT_MODELS") or cache_folder() / "models"


def engines_file() -> Path:
    """Returns the file that lists the environments of engines: SCIAGENT_ENGINES, default `sciagent/engines.toml` in the
    user's configuration folder."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return path("SCIAGENT_ENGINES") or folder / "sciagent" / "engines.toml"


def path(name: str) -> Path | None:
    """Returns the path that a variable holds, such as SCIAGENT_ARTIFACTS (the folder of artifacts) or
    SCIAGENT_SLURM_SITE (the cluster's profile); None if it is not set."""
    given = os.environ.get(name)
    return Path(given).expanduser() if given else None


def user() -> str:
    """Returns the name of the current user, under which the ledger stores a person's actions."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


CHECKOUT = Path(__file__).parents[2]  # the checkout, unless the package is installed
GIT_SECONDS = 10  # longest wait for git


@cache
def code_version() -> str:
    """Returns the version of the package; in a checkout also the commit, with `-dirty` if files differ from it."""
    try:
        version = metadata.version("sciagent")
    except metadata.PackageNotFoundError:
        version = "unknown"
    if not (CHECKOUT / ".git").exists():  # the package is installed, perhaps within another project's checkout
        return version
    command = ["git", "-C", str(CHECKOUT), "describe", "--always", "--dirty", "--exclude=*", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired):
        return version
    return f"{version}+{done.stdout.strip()}"[:100] if done.returncode == 0 else version
