"""Who is told that there is work: workers that look into the ledger need nobody, others are woken by a broker."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol

from sciagent.errors import UsageError


class Executor(Protocol):
    """How a driver reaches workers elsewhere. The jobs themselves are in the ledger; what is said here may be lost."""

    name: str

    def wake(self, jobs_by_queue: Mapping[str, int]) -> None:
        """So many jobs were offered."""

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        """Ring when a job of the campaign has ended, if that can be heard of."""

    def close(self) -> None: ...


class LedgerExecutor:
    """`sciagent worker` looks into the ledger by itself, a few times a second."""

    name = "ledger"

    def wake(self, jobs_by_queue: Mapping[str, int]) -> None:
        return None

    def listen(self, campaign_id: int, bell: threading.Event) -> None:
        return None

    def close(self) -> None:
        return None


def executor_of(name: str) -> Executor | None:
    """None for the local pool. Raises UsageError for a name that is none."""
    if name == "local":
        return None
    if name == "ledger":
        return LedgerExecutor()
    raise UsageError(f'--executor "{name}": one of local, ledger')
