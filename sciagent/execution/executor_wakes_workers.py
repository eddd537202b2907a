"""The interface by which a driver notifies remote workers of offered jobs, and is notified of ended jobs.

`executors.executor_of` creates the executor that `--executor` names.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

QUEUES = ("simulation", "high_fidelity")  # the tiers whose jobs run on remote workers


class Executor:
    """Notifies remote workers of offered jobs. The jobs themselves are in the ledger, so a notification may be lost.

    This base class sends no notification: `sciagent worker` polls the ledger about once per second or more often.
    """

    @property
    def fault(self) -> str | None:
        """Why no job reaches a worker until a person corrects something; None if there is no such fault."""
        return None

    def wake(self, slots_by_queue: Mapping[str, int]) -> None:
        """Wake the given number of slots of each queue, after jobs were offered."""

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        """Set `bell` whenever a job of the campaign has ended, if this executor receives notifications."""

    def close(self) -> None:
        """End all connections and threads."""
