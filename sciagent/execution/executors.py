"""Who is told that there is work: workers that look into the ledger need nobody, others are woken by a broker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from sciagent import settings
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

EXECUTORS = ("local", "ledger", "celery", "slurm")
QUEUES = ("simulation", "high_fidelity")  # the tiers whose jobs are computed elsewhere


class Executor(Protocol):
    """How a driver reaches workers elsewhere. The jobs themselves are in the ledger; what is said here may be lost."""

    name: str

    @property
    def fault(self) -> str | None:
        """Why no job gets there any more until a person mends it; None where nothing is known."""

    def wake(self, jobs_by_queue: Mapping[str, int]) -> None:
        """So many jobs were offered."""

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        """Ring when a job of the campaign has ended, if that can be heard of."""

    def close(self) -> None: ...


class LedgerExecutor:
    """`sciagent worker` looks into the ledger by itself, a few times a second."""

    name = "ledger"
    fault = None

    def wake(self, jobs_by_queue: Mapping[str, int]) -> None:
        return None

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        return None

    def close(self) -> None:
        return None


def broker_url(given: str | None = None) -> str:
    """Where the broker is: as given, else SCIAGENT_BROKER. Raises UsageError."""
    if (found := settings.load(broker=given).broker) is None:
        raise UsageError(
            "no broker is named: set SCIAGENT_BROKER to its URL, or SCIAGENT_BROKER_FILE to a file that holds it; "
            "sciagent worker takes --broker URL, too"
        )
    return found


def executor_of(name: str, ledger: Ledger, site: Path | None = None) -> Executor | None:
    """None for the local pool. site: of Slurm, a profile in YAML; default: SCIAGENT_SLURM_SITE. Raises UsageError for a
    name that is none, or where something is missing."""
    if name == "local":
        return None
    if name == "ledger":
        return LedgerExecutor()
    if name == "celery":
        from sciagent.execution.celery.executor import CeleryExecutor

        return CeleryExecutor(broker_url())
    if name == "slurm":
        from sciagent.execution.slurm.controller import SlurmExecutor
        from sciagent.execution.slurm.load import load_site

        if (path := site or settings.slurm_site()) is None:
            raise UsageError("--executor slurm needs a site profile: --site SITE.yaml, or SCIAGENT_SLURM_SITE")
        return SlurmExecutor(ledger, load_site(path), QUEUES)
    raise UsageError(f'--executor "{name}": one of {", ".join(EXECUTORS)}')
