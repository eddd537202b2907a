"""How a driver notifies remote workers that jobs were offered, and hears that jobs have ended."""

from __future__ import annotations

import threading
from collections.abc import Mapping


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
