"""The executors by name: `local`, `ledger`, `celery`, `slurm`."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

from sciagent.errors import UsageError
from sciagent.execution.celery.wakeups import Listener, Wakeups
from sciagent.execution.executor_wakes_workers import QUEUES, Executor
from sciagent.inputs import environment_variables
from sciagent.store.database.ledger import Ledger

EXECUTORS = ("local", "ledger", "celery", "slurm")


class CeleryExecutor(Executor):
    """Wakes Celery workers. A broker may lose messages, so workers also look for queued jobs every few seconds.

    broker_url: see `Broker.parse`, which raises UsageError.
    """

    def __init__(self, broker_url: str) -> None:
        self._wakeups = Wakeups(broker_url)
        self._listeners: list[Listener] = []

    def wake(self, slots_by_queue: Mapping[str, int]) -> None:
        for queue, n_slots in slots_by_queue.items():
            self._wakeups.wake(queue, n_slots)

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        self._listeners.append(Listener(self._wakeups.broker, campaign_id, bell))

    def close(self) -> None:
        for listener in self._listeners:
            listener.close()
        self._wakeups.close()


def broker_url(given: str | None = None) -> str:
    """Returns the broker's URL: `given`, else SCIAGENT_BROKER. Raises UsageError if neither is set."""
    url = given or environment_variables.secret("SCIAGENT_BROKER")
    if url is None:
        raise UsageError(
            "no broker is named: set SCIAGENT_BROKER to its URL, or SCIAGENT_BROKER_FILE to a file that holds it; "
            "sciagent worker takes --broker URL, too"
        )
    return url


def executor_of(name: str, ledger: Ledger, site: Path | None = None) -> Executor | None:
    """Returns the executor of this name; None for the local pool. site: YAML profile for Slurm; default:
    SCIAGENT_SLURM_SITE. Raises UsageError for an unknown name or a missing setting."""
    if name == "local":
        return None
    if name == "ledger":
        return Executor()
    if name == "celery":
        return CeleryExecutor(broker_url())
    if name == "slurm":
        from sciagent.execution.slurm.controller import SlurmController
        from sciagent.execution.slurm.site_profile import load_site

        profile = site or environment_variables.path("SCIAGENT_SLURM_SITE")
        if profile is None:
            raise UsageError("--executor slurm needs a site profile: --site SITE.yaml, or SCIAGENT_SLURM_SITE")
        return SlurmController(ledger, load_site(profile), QUEUES)
    raise UsageError(f'--executor "{name}": one of {", ".join(EXECUTORS)}')
