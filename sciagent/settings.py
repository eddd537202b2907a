"""Settings of the installation, from the environment (`SCIAGENT_*`). Campaign settings live in the YAML."""

from __future__ import annotations

import getpass
import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from sciagent.errors import UsageError

DEFAULT_LEDGER = "sciagent.db"
MAX_SECRET_BYTES = 4096


class Settings(BaseModel):
    """`ledger`: SQLAlchemy URL or a file path. `artifacts`: folder of files under their SHA-256. `broker`: URL of Redis
    or RabbitMQ. URLs may hold passwords: they are in no representation."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ledger: str = Field(DEFAULT_LEDGER, repr=False)
    artifacts: Path | None = None
    broker: str | None = Field(None, repr=False)


def load(ledger: str | None = None, broker: str | None = None) -> Settings:
    """`--ledger` goes before SCIAGENT_LEDGER, and that before ./sciagent.db; `--broker` before SCIAGENT_BROKER. For
    both the variable may name a file instead: SCIAGENT_LEDGER_FILE, SCIAGENT_BROKER_FILE. Raises UsageError."""
    artifacts = os.environ.get("SCIAGENT_ARTIFACTS")
    return Settings(
        ledger=ledger or secret("SCIAGENT_LEDGER") or DEFAULT_LEDGER,
        artifacts=Path(artifacts) if artifacts else None,
        broker=broker or secret("SCIAGENT_BROKER"),
    )


def lease_seconds() -> float:
    """How long a worker or a driver may be silent before its work is given to others: SCIAGENT_LEASE_SECONDS, else 60.
    The same for all who share a ledger. Raises UsageError."""
    given = os.environ.get("SCIAGENT_LEASE_SECONDS") or "60"
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 2 <= seconds <= 86400:
        raise UsageError(f'SCIAGENT_LEASE_SECONDS="{given}": a number from 2 to 86400')
    return seconds


def slurm_site() -> Path | None:
    """The profile of the cluster: SCIAGENT_SLURM_SITE, if it is set."""
    given = os.environ.get("SCIAGENT_SLURM_SITE")
    return Path(given).expanduser() if given else None


def secret(name: str) -> str | None:
    """What the variable says, or the one line of the file that NAME_FILE names; None without either. Raises UsageError:
    both are set, or the file cannot be read, is empty or holds more than a line."""
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
    """Where what can be built again is kept between campaigns: SCIAGENT_CACHE, else `sciagent` in the user's cache."""
    if given := os.environ.get("SCIAGENT_CACHE"):
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sciagent"


def models_folder() -> Path:
    """Where models for this machine are: SCIAGENT_MODELS, else `models` in the cache."""
    if given := os.environ.get("SCIAGENT_MODELS"):
        return Path(given).expanduser()
    return cache_folder() / "models"


def user() -> str:
    """The user of this machine, for what the ledger keeps under a person's name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
