"""Settings of the installation, from the environment (`SCIAGENT_*`). Campaign settings live in the YAML."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from sciagent.errors import UsageError

DEFAULT_LEDGER = "sciagent.db"


class Settings(BaseModel):
    """`ledger`: SQLAlchemy URL or a file path. `artifacts`: folder of files under their SHA-256."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ledger: str = DEFAULT_LEDGER
    artifacts: Path | None = None


def load(ledger: str | None = None) -> Settings:
    """`--ledger` goes before SCIAGENT_LEDGER, and that before ./sciagent.db."""
    artifacts = os.environ.get("SCIAGENT_ARTIFACTS")
    return Settings(
        ledger=ledger or os.environ.get("SCIAGENT_LEDGER") or DEFAULT_LEDGER,
        artifacts=Path(artifacts) if artifacts else None,
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
