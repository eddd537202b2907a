"""Settings of the installation, from environment variables (`SCIAGENT_*`)."""

from __future__ import annotations

import getpass
import os
from dataclasses import dataclass, field
from pathlib import Path

from sciagent.errors import UsageError

DEFAULT_LEDGER = "sciagent.db"
MAX_SECRET_BYTES = 4096


@dataclass(frozen=True)
class InstallationSettings:
    """The addresses of ledger, artifacts and broker. `repr` leaves URLs out, since they may hold passwords."""

    ledger: str = field(default=DEFAULT_LEDGER, repr=False)
    """SQLAlchemy URL or file path of the ledger."""
    artifacts: Path | None = None
    """Folder of the artifacts, which are named by their SHA-256."""
    broker: str | None = field(default=None, repr=False)
    """URL of Redis or RabbitMQ."""


def load(ledger: str | None = None, broker: str | None = None) -> InstallationSettings:
    """Reads the settings. The arguments take precedence over SCIAGENT_LEDGER and SCIAGENT_BROKER; SCIAGENT_LEDGER_FILE
    and SCIAGENT_BROKER_FILE may name a file instead. The default ledger is ./sciagent.db. Raises UsageError."""
    artifacts = os.environ.get("SCIAGENT_ARTIFACTS")
    return InstallationSettings(
        ledger=ledger or secret("SCIAGENT_LEDGER") or DEFAULT_LEDGER,
        artifacts=Path(artifacts) if artifacts else None,
        broker=broker or secret("SCIAGENT_BROKER"),
    )


def lease_seconds() -> float:
    """Returns SCIAGENT_LEASE_SECONDS, default 60: after this time the work of a silent worker or driver is given to
    others. It must be the same for all users of a ledger. Raises UsageError."""
    given = os.environ.get("SCIAGENT_LEASE_SECONDS") or "60"
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 2 <= seconds <= 86400:
        raise UsageError(f'SCIAGENT_LEASE_SECONDS="{given}": a number from 2 to 86400')
    return seconds


def slurm_site() -> Path | None:
    """Returns the path of the cluster's profile: SCIAGENT_SLURM_SITE; None if not set."""
    given = os.environ.get("SCIAGENT_SLURM_SITE")
    return Path(given).expanduser() if given else None


def secret(name: str) -> str | None:
    """Returns the value of a variable, or the only line of the file that NAME_FILE names; None if neither is set.

    Raises UsageError if both are set, or if the file cannot be read, is empty or has more than one line.
    """
    value, path = os.environ.get(name), os.environ.get(f"{name}_FILE")
    if not path:
        return value or None
    if value:
        raise UsageError(f"both {name} and {name}_FILE are set; unset one")
    try:
        with Path(path).expanduser().open("rb") as file:
            lines = file.read(MAX_SECRET_BYTES + 1).decode().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(f"{name}_FILE: {path} cannot be read: {reason}") from None
    if len(lines) != 1 or not lines[0].strip() or len(lines[0]) > MAX_SECRET_BYTES:
        raise UsageError(f"{name}_FILE: {path} must hold one line, and nothing else")
    return lines[0].strip()


def cache_folder() -> Path:
    """Returns the folder for files that can be built again: SCIAGENT_CACHE, default `sciagent` in the user's cache."""
    if given := os.environ.get("SCIAGENT_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sciagent"


def models_folder() -> Path:
    """Returns the folder of the models on this machine: SCIAGENT_MODELS, default `models` in the cache folder."""
    if given := os.environ.get("SCIAGENT_MODELS"):
        return Path(given).expanduser()
    return cache_folder() / "models"


def user() -> str:
    """Returns the name of the current user, under which the ledger stores a person's actions."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
