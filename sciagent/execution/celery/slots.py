"""The slots of a Celery worker. A thread that takes a token runs the most urgent job, then passes the token on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable

from sciagent.domain.jobs.states import JobState
from sciagent.execution.messaging.wakeups import Wakeups
from sciagent.execution.worker.runner import Runner
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs

log = logging.getLogger(__name__)


class Slots:
    """One runner for each thread that takes tokens, created at its first token.

    name: prefix of the owner of each lease, NAME/PROCESS.THREAD. make: creates a runner from the ledger and the owner.
    """

    def __init__(self, ledger_url: str, wakeups: Wakeups, name: str, make: Callable[[Ledger, str], Runner]) -> None:
        self._ledger_url, self._wakeups, self._name, self._make = ledger_url, wakeups, name, make
        self._ledger: Ledger | None = None
        self._runners: dict[int, Runner] = {}  # by thread
        self._lock = threading.Lock()
        self._finishing, self._stopped = threading.Event(), threading.Event()

    def ledger(self) -> Ledger:
        """The ledger of all slots, opened at the first call. Raises LedgerError."""
        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger(self._ledger_url)
            return self._ledger

    def work(self, queue: str) -> int:
        """Run the next jobs and return their number. A fault is logged; the next token then creates a new runner."""
        thread = threading.get_ident()
        if self._stopped.is_set():
            return 0
        if self._finishing.is_set():  # the token was already on its way; another worker takes it
            self._wakeups.wake(queue)
            return 0
        try:
            ledger = self.ledger()
            runner = self._runners.get(thread)
            if runner is None:
                owner = f"{self._name}/{os.getpid()}.{threading.get_native_id()}"
                runner = self._runners[thread] = self._make(ledger, owner)
            ran = runner.run_next()
            for campaign_id in runner.campaigns if ran else ():
                self._wakeups.tell(campaign_id)
            if ran and self._wakeups.waiting(queue) == 0:
                with ledger.read() as connection:
                    more = jobs.any_in_state(connection, JobState.QUEUED, queues=[queue])
                if more:
                    self._wakeups.wake(queue)
            return ran
        except Exception:  # a fault of one job must not end the worker; the job's lease expires and it is queued again
            log.exception("%s: the slot is made anew", self._name)
            if (broken := self._runners.pop(thread, None)) is not None:
                broken.close()
            return 0

    def finish(self) -> None:
        """Take no more jobs; running jobs may finish."""
        self._finishing.set()

    def stop(self) -> None:
        """End running jobs, which return to the queue, and take no more. A signal handler may call this: the runners
        are stopped in other threads, since the interrupted thread may hold the locks."""
        self._stopped.set()
        for runner in list(self._runners.values()):
            threading.Thread(target=runner.stop, name="stop", daemon=True).start()

    def close(self) -> None:
        while self._runners:
            self._runners.popitem()[1].close()
        if self._ledger is not None:
            self._ledger.close()
