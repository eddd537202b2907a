"""Who is told that there is work: workers that look into the ledger need nobody, others are woken by a broker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from sciagent import settings
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

EXECUTORS = ("local", "ledger", "celery", "slurm")
QUEUES = ("simulation", "high_fidelity")  # the tiers whose jobs are computed elsewhere


class Executor:
    """How a driver notifies remote workers. The jobs themselves are in the ledger, so a notification may be lost.

    This one notifies nobody: `sciagent worker` looks into the ledger by itself, a few times a second.
    """

    @property
    def fault(self) -> str | None:
        """Why no job reaches a worker until a person corrects something; None if all is well."""
        return None

    def wake(self, slots_by_queue: Mapping[str, int]) -> None:
        """Jobs were offered: wake so many slots of each queue."""

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        """Set the bell when a job of the campaign has ended, if notifications come."""

    def close(self) -> None:
        """End all connections and threads."""


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
        return Executor()
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
