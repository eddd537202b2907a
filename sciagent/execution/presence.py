"""What a Celery worker says of itself in the ledger, and what it looks after there while it lives."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

import sqlalchemy as sa

from sciagent.domain.states import JobState
from sciagent.execution.station import REAP_SECONDS, reap
from sciagent.execution.wakeups import Wakeups
from sciagent.store import workers
from sciagent.store.ledger import Ledger
from sciagent.store.workers import SEEN_SECONDS, NewWorker

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # until a word from the ledger is heard


class Presence:
    """A thread that keeps the worker's row fresh, hears that it is to be drained, takes back what dead workers held,
    and sends tokens where jobs wait and none do: a broker may have lost them.

    drain: called with True when the worker shall take nothing new, with False when it may again.
    """

    def __init__(self, ledger_url: str, new: NewWorker, wakeups: Wakeups, drain: Callable[[bool], None]) -> None:
        self._ledger_url, self._new, self._wakeups, self._drain = ledger_url, new, wakeups, drain
        self._draining = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="presence", daemon=True)

    def start(self) -> None:
        """After the pool has forked."""
        self._thread.start()

    def close(self) -> None:
        """Say that it has ended, if the ledger hears."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _serve(self) -> None:
        ledger: Ledger | None = None
        told, looked = -SEEN_SECONDS, -REAP_SECONDS
        while not self._stop.wait(0 if ledger is None else LOOK_SECONDS):
            now = time.monotonic()
            try:
                if ledger is None:
                    ledger = self._open()
                if now - told > SEEN_SECONDS / 5:
                    self._tell(ledger)
                    told = now
                if now - looked > REAP_SECONDS * random.uniform(0.8, 1.2):
                    self._look_after(ledger)
                    looked = now
            except Exception as error:  # noqa: BLE001  a fault of the ledger passes; the worker goes on
                log.warning("the ledger is away: %s", str(error).split("\n", 1)[0][:200])
                self._stop.wait(LOOK_SECONDS)
        if ledger is not None:
            try:
                with ledger.begin() as connection:
                    workers.stopped(connection, self._new.name)
            except sa.exc.DBAPIError:
                log.warning("the ledger was not told that %s has ended", self._new.name)
            ledger.close()

    def _open(self) -> Ledger:
        ledger = Ledger(self._ledger_url)
        try:
            with ledger.begin() as connection:
                workers.register(connection, self._new)
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _tell(self, ledger: Ledger) -> None:
        with ledger.begin() as connection:
            draining = workers.seen(connection, self._new.name)
        if draining != self._draining:
            self._drain(draining)
            self._draining = draining

    def _look_after(self, ledger: Ledger) -> None:
        freed = {one.queue for one in reap(ledger) if one.state is JobState.QUEUED}
        with ledger.read() as connection:
            depths = workers.depths(connection, [*{*self._new.queues, *freed}])
        for name, depth in depths.items():
            if depth and self._wakeups.waiting(name) == 0:
                self._wakeups.wake(name, min(depth, self._new.slots))
