"""What a slot of a worker does with a token: run the most urgent job, then pass the word on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sciagent.domain.jobs.states import JobState
from sciagent.execution.messaging.wakeups import Wakeups
from sciagent.execution.worker.runner import Runner
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs
from sciagent.store.job_queue.worker_resources import Has

log = logging.getLogger(__name__)


class Runs(Protocol):
    """One slot that runs jobs of the ledger: `sciagent.execution.worker.runner.Runner`."""

    campaigns: frozenset[int]

    def run_next(self) -> int:
        """How many jobs it claimed and ran; 0: there was none."""

    def stop(self) -> None:
        """From any thread: end what runs, so that it waits for others, and take nothing more."""

    def close(self) -> None:
        """Leave no process and no folder."""


MakeRunner = Callable[[Ledger, str], Runs]


@dataclass(frozen=True)
class WorkerSite:
    """Where a worker works."""

    ledger_url: str
    broker_url: str
    name: str
    """Begins the owner of each of its leases, NAME/PROCESS.THREAD."""
    queues: tuple[str, ...]
    """Queues whose jobs it takes."""
    scratch: Path
    """Folder on a disk of this machine in which jobs work."""


class Slot:
    """A runner with its ledger, and a way to wake others up."""

    def __init__(self, place: WorkerSite, owner: str, make: MakeRunner) -> None:
        self.owner = owner
        with ExitStack() as opened:
            self.ledger = Ledger(place.ledger_url)
            opened.callback(self.ledger.close)
            self.wakeups = Wakeups(place.broker_url)
            opened.callback(self.wakeups.close)
            self.runner = make(self.ledger, owner)
            opened.pop_all()  # `close` does it

    def work(self, queue: str) -> int:
        ran = self.runner.run_next()
        for campaign_id in self.runner.campaigns if ran else ():
            self.wakeups.tell(campaign_id)
        if ran and self.wakeups.waiting(queue) == 0:
            with self.ledger.read() as connection:
                more = jobs.any_in_state(connection, JobState.QUEUED, queues=[queue])
            if more:
                self.wakeups.wake(queue)
        return ran

    def close(self) -> None:
        self.runner.close()
        self.wakeups.close()
        self.ledger.close()


class Slots:
    """The slots of a worker: one for each thread that takes tokens, made at its first token."""

    def __init__(self, place: WorkerSite, make: MakeRunner) -> None:
        self.place = place
        self._make = make
        self._open: dict[int, Slot] = {}
        self._lock = threading.Lock()
        self._finishing, self._stopped = threading.Event(), threading.Event()

    def work(self, queue: str) -> int:
        """How many jobs ran. A fault of ledger or runner is logged and ends this slot; the next token makes another."""
        thread = threading.get_ident()
        if self._stopped.is_set():
            return 0
        if self._finishing.is_set():  # the token was on its way already
            self._send_on(queue)
            return 0
        try:
            slot = self._open.get(thread) or self._make_slot(thread)
            return slot.work(queue)
        except Exception:
            log.exception("%s: the slot is made anew", self.place.name)
            with self._lock:
                broken = self._open.pop(thread, None)
            if broken is not None:
                broken.close()
            return 0

    def _make_slot(self, thread: int) -> Slot:
        slot = Slot(self.place, f"{self.place.name}/{os.getpid()}.{threading.get_native_id()}", self._make)
        with self._lock:
            self._open[thread] = slot
        return slot

    def _send_on(self, queue: str) -> None:
        """Leave the token to another worker."""
        wakeups = Wakeups(self.place.broker_url)
        wakeups.wake(queue)
        wakeups.close()

    def finish(self) -> None:
        """Take nothing more; what runs may end."""
        self._finishing.set()

    def stop(self) -> None:
        """End what runs, so that it waits for others, and take nothing more. Also from a signal's handler: whoever was
        interrupted may hold the locks that this needs."""
        self._stopped.set()
        for slot in list(self._open.values()):
            threading.Thread(target=slot.runner.stop, name="stop", daemon=True).start()

    def close(self) -> None:
        with self._lock:
            found, self._open = list(self._open.values()), {}
        for slot in found:
            slot.close()


def runner_of(queues: Sequence[str], scratch: Path, memory_mb: int | None, has: Has | None = None) -> MakeRunner:
    """Slots that run jobs for real. memory_mb: what a job may ask for at most. has: what their worker has."""

    def make(ledger: Ledger, owner: str) -> Runs:
        return Runner(ledger, owner, queues, scratch, memory_mb=memory_mb, has=has)

    return make
