"""What a worker says of itself in the ledger, and what it looks after there while it lives."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

from sciagent.errors import LedgerAwayError, SchemaVersionError
from sciagent.execution.worker.completing import Reaped, reap_expired
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers
from sciagent.store.job_queue.leases import LEASE_SECONDS
from sciagent.store.job_queue.workers import SEEN_SECONDS, NewWorker

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0  # until a word from the ledger is heard
REAP_SECONDS = min(5.0, LEASE_SECONDS / 4)


class Presence:
    """Keeps the worker's row fresh, hears that it is to be drained, and takes back what dead workers held.

    draining: whether it shall take nothing new. on_drain: called when that has changed. on_reap: called after each look
    for what dead workers held, with what was taken back.
    """

    def __init__(
        self,
        new: NewWorker,
        on_drain: Callable[[bool], None] | None = None,
        on_reap: Callable[[Ledger, Sequence[Reaped]], None] | None = None,
    ) -> None:
        self.draining = False
        self.fault: SchemaVersionError | None = None
        """Why `serve` has ended by itself: the ledger has another schema, and no waiting mends that."""
        self._new, self._on_drain, self._on_reap = new, on_drain, on_reap
        self._registered = False
        self._told = self._reaped = -SEEN_SECONDS

    def serve(self, open_ledger: Callable[[], Ledger], stop: threading.Event) -> None:
        """Step until `stop` is set. A ledger that is away, or cannot be opened yet, is waited for."""
        ledger: Ledger | None = None
        while not stop.wait(0 if ledger is None else LOOK_SECONDS):
            try:
                if ledger is None:
                    ledger = open_ledger()
                self.step(ledger)
            except SchemaVersionError as error:
                self.fault = error
                stop.set()
                return
            except Exception as error:  # noqa: BLE001  a fault of the ledger passes; the worker goes on
                log.warning("the ledger is away: %s", str(error).split("\n", 1)[0][:200])
                stop.wait(LOOK_SECONDS)
        if ledger is not None:
            self.leave(ledger)

    def step(self, ledger: Ledger) -> None:
        """What is due."""
        now = time.monotonic()
        if now - self._told > SEEN_SECONDS / 5:
            self._tell(ledger)
            self._told = now
        if now - self._reaped > REAP_SECONDS * random.uniform(0.8, 1.2):
            found = reap(ledger)
            if self._on_reap is not None:
                self._on_reap(ledger, found)
            self._reaped = now

    def leave(self, ledger: Ledger) -> None:
        """Say that it has ended, if the ledger hears."""
        try:
            with ledger.begin() as connection:
                workers.stopped(connection, self._new.name)
        except LedgerAwayError:
            log.warning("the ledger was not told that %s has ended", self._new.name)

    def _tell(self, ledger: Ledger) -> None:
        with ledger.begin() as connection:
            if not self._registered:
                workers.register(connection, self._new)
            draining = workers.seen(connection, self._new.name)
        self._registered = True
        if draining != self.draining:
            self.draining = draining
            if self._on_drain is not None:
                self._on_drain(draining)


def reap(ledger: Ledger) -> list[Reaped]:
    """Take back what workers that are gone have left."""
    with ledger.begin() as connection:
        found = reap_expired(connection)
    for one in found:
        about = {"event": "lost", "campaign_id": one.campaign_id, "job": one.job_id, "state": str(one.state)}
        log.warning("job %d was lost with its worker; it is %s", one.job_id, one.state, extra={"about": about})
    return found
