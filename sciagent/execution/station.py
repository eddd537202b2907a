"""A worker without a broker: slots that look into the ledger by themselves, under one row that says they live."""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from pathlib import Path

from sciagent.execution.keeper import Keeper
from sciagent.execution.runner import Runner, patiently
from sciagent.store import offers, workers
from sciagent.store.engine import AWAY
from sciagent.store.leases import LEASE_SECONDS
from sciagent.store.ledger import Ledger
from sciagent.store.workers import SEEN_SECONDS, NewWorker

log = logging.getLogger(__name__)
IDLE_SECONDS = (0.05, 1.0)  # between looks of a slot that finds nothing, growing
REAP_SECONDS = min(5.0, LEASE_SECONDS / 4)
DRAIN_SECONDS = 2.0  # until a word from the ledger is heard


class Station:
    """`serve` returns when it was told to stop, has nothing to do for `idle_exit` seconds, or has run `max_jobs`."""

    def __init__(
        self, ledger: Ledger, new: NewWorker, scratch: Path, *, idle_exit: float | None = None,
        max_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self._ledger, self._new, self._scratch = ledger, new, scratch
        self._idle_exit, self._left = idle_exit, max_jobs
        self._stop, self._draining = threading.Event(), False
        self._runners: list[Runner] = []
        self._lock = threading.Lock()
        self.ran = 0
        self._last_work = time.monotonic()

    def serve(self) -> int:
        """Work; returns how many jobs were run."""
        new = self._new
        patiently(lambda: self._tell(register=True), self._stop)
        keeper = Keeper(self._ledger)
        each = None if new.memory_mb is None else new.memory_mb // new.slots
        self._runners = [
            Runner(
                self._ledger, f"{new.name}/{i}", new.queues, self._scratch, memory_mb=each, keeper=keeper
            ) for i in range(new.slots)
        ]  # fmt: skip
        threads = [
            threading.Thread(target=self._work, args=(one,), name=f"slot-{i}") for i, one in enumerate(self._runners)
        ]
        for one in threads:
            one.start()
        beats = threading.Thread(target=self._beat, name="beat", daemon=True)
        beats.start()
        for one in threads:
            one.join()
        self._stop.set()
        beats.join(timeout=10)
        keeper.close()
        with contextlib.suppress(*AWAY), self._ledger.begin() as connection:
            workers.stopped(connection, new.name)
        return self.ran

    def request_stop(self) -> None:
        """Take nothing more; what runs may finish."""
        self._stop.set()

    def abort(self) -> None:
        """End what runs: it waits again for others."""
        self._stop.set()
        for one in self._runners:
            one.stop()

    def _tell(self, register: bool = False) -> None:
        with self._ledger.begin() as connection:
            if register:
                workers.register(connection, self._new)
            else:
                self._draining = workers.seen(connection, self._new.name)

    def _beat(self) -> None:
        told = reaped = time.monotonic()
        while not self._stop.wait(DRAIN_SECONDS):
            now = time.monotonic()
            try:
                if now - told > SEEN_SECONDS / 5:
                    self._tell()
                    told = now
                if now - reaped > REAP_SECONDS * random.uniform(0.8, 1.2):
                    reap(self._ledger)
                    reaped = now
            except AWAY as error:
                log.warning("the ledger is away: %s", str(error).split("\n", 1)[0][:200])

    def _work(self, runner: Runner) -> None:
        pause = IDLE_SECONDS[0]
        try:
            while not self._stop.is_set() and self._may_take():
                ran = self._run(runner)
                with self._lock:
                    self.ran += ran
                    self._left = None if self._left is None else self._left - ran
                if ran:
                    self._last_work, pause = time.monotonic(), IDLE_SECONDS[0]
                else:
                    self._stop.wait(pause * random.uniform(0.8, 1.2))
                    pause = min(1.5 * pause, IDLE_SECONDS[1])
        finally:
            runner.close()

    def _run(self, runner: Runner) -> int:
        """Jobs that were run. A slot outlives whatever it meets: what it held is lost with its lease."""
        try:
            return 0 if self._draining else runner.run_next()
        except AWAY:
            return 0  # told to stop while the ledger was away
        except Exception:
            log.exception("a slot of %s met what nobody expected", self._new.name)
            return 0

    def _may_take(self) -> bool:
        idle = time.monotonic() - self._last_work
        spent = self._left is not None and self._left <= 0
        return not spent and (self._idle_exit is None or idle < self._idle_exit)


def reap(ledger: Ledger) -> list[offers.Reaped]:
    """Take back what workers that are gone have left."""
    with ledger.begin() as connection:
        found = offers.reap_expired(connection)
    for one in found:
        about = {"event": "lost", "campaign_id": one.campaign_id, "job": one.job_id, "state": str(one.state)}
        log.warning("job %d was lost with its worker; it is %s", one.job_id, one.state, extra={"about": about})
    return found
