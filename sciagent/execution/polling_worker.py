"""A worker without a broker, whose slots poll the ledger for jobs."""

from __future__ import annotations

import logging
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from sciagent.errors import LedgerAwayError, LedgerReplacedError, SchemaVersionError
from sciagent.execution.worker.presence_and_leases import LeaseRenewer, Presence
from sciagent.execution.worker.worker_slot import Runner, retry_while_away
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import NewWorker

log = logging.getLogger(__name__)
IDLE_SECONDS = (0.05, 1.0)  # pause between polls of an idle slot: shortest and longest
JOIN_SECONDS = 10.0  # longest wait for the thread that renews the worker's row


class PollingWorker:
    """A worker that polls the ledger until it is stopped, idle for `idle_exit` seconds, or has run `max_jobs` jobs."""

    def __init__(
        self,
        ledger: Ledger,
        new: NewWorker,
        scratch: Path,
        *,
        idle_exit: float | None = None,
        max_jobs: int | None = None,
    ) -> None:
        self._ledger = ledger
        self._new = new
        self._scratch = scratch
        self._idle_exit = idle_exit
        self._jobs_left = max_jobs  # None: no limit
        self._stop = threading.Event()
        self._presence = Presence(new)
        self._runners: list[Runner] = []
        self._lock = threading.Lock()
        self.ran = 0
        """Number of jobs that the worker has run."""
        self._last_work = time.monotonic()

    def serve(self) -> int:
        """Run jobs until the worker ends; returns their number. Raises SchemaVersionError for another schema,
        LedgerReplacedError if the file of the ledger is gone."""
        new = self._new
        ledger = self._ledger
        retry_while_away(lambda: self._presence.step(ledger), self._stop)
        presence = threading.Thread(target=self._presence.serve, args=(ledger, self._stop), daemon=True)
        presence.start()
        with closing(LeaseRenewer(ledger)) as renewer, ThreadPoolExecutor(new.slots, "slot") as threads:
            self._runners = [
                Runner(ledger, f"{new.name}/{i}", new.queues, self._scratch, registered=new, renewer=renewer)
                for i in range(new.slots)
            ]
            for _ in threads.map(self._work, self._runners):
                pass  # waits for the slots to end; the error of a slot is raised here
        self._stop.set()
        presence.join(timeout=JOIN_SECONDS)
        fault = self._presence.fault
        if fault is not None:
            raise fault
        return self.ran

    def request_stop(self) -> None:
        """Take no more jobs; running jobs may finish."""
        self._stop.set()

    def abort(self) -> None:
        """End running jobs at once; they return to the queue for other workers."""
        self._stop.set()
        for runner in self._runners:
            runner.stop()

    def _work(self, runner: Runner) -> None:
        pause = IDLE_SECONDS[0]
        try:
            while not self._stop.is_set() and self._may_take():
                n_jobs = self._run(runner)
                with self._lock:
                    self.ran += n_jobs
                    if self._jobs_left is not None:
                        self._jobs_left -= n_jobs
                if n_jobs:
                    self._last_work = time.monotonic()
                    pause = IDLE_SECONDS[0]
                else:
                    self._stop.wait(pause * random.uniform(0.8, 1.2))
                    pause = min(1.5 * pause, IDLE_SECONDS[1])
        finally:
            runner.close()

    def _run(self, runner: Runner) -> int:
        """Run the next jobs and return their number. A fault does not end the slot; its jobs' leases expire."""
        try:
            return 0 if self._presence.draining else runner.run_next()
        except LedgerAwayError:
            return 0  # the worker was stopped while the ledger was away
        except (SchemaVersionError, LedgerReplacedError) as error:  # waiting does not help
            self._presence.fault = error
            self._stop.set()
            return 0
        except Exception:  # a fault of one job must not end the worker
            log.exception("a slot of %s failed, and goes on", self._new.name)
            return 0

    def _may_take(self) -> bool:
        """Whether the worker may take another job, by its limits of jobs and of idle time."""
        idle_seconds = time.monotonic() - self._last_work
        has_run_all = self._jobs_left is not None and self._jobs_left <= 0
        is_idle_too_long = self._idle_exit is not None and idle_seconds >= self._idle_exit
        return not has_run_all and not is_idle_too_long
