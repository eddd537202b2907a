"""The local pool: one warm worker process per slot, fed from the driver's process. A job with several cores takes as
many slots."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sciagent.domain.states_and_needs import Hear
from sciagent.execution.worker.end_attempts import lost_with_host
from sciagent.execution.worker.presence_and_leases import LeaseRenewer, RenewedLeases, hearing
from sciagent.execution.worker.read_claimed_jobs import ClaimedJob
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import HostResult, Request, Worker

JOIN_SECONDS = 10.0  # longest wait for each slot's thread to end
SWITCH_SECONDS = 0.0005  # after which a waiting slot's thread gets the interpreter lock

Jobs = tuple[ClaimedJob, ...]
"""Jobs that one call runs together."""


class Completed(NamedTuple):
    """One finished call, with its jobs and results."""

    jobs: Jobs
    results: list[HostResult]
    slots: int
    """Number of slots that the call took."""
    interrupted: bool = False
    """Whether the jobs' process was ended because one of the jobs was cancelled, or its lease was lost."""


@dataclass(eq=False)
class _Call:
    """Jobs that wait for a worker, or that `worker` runs."""

    jobs: Jobs
    request: Request
    worker: Worker | None = None
    held: RenewedLeases = field(init=False)

    def end(self) -> None:
        if self.worker is not None:
            self.worker.cancel()

    @property
    def hear(self) -> Hear:
        """The receiver of the jobs' progress."""
        return hearing(self.jobs, self.held)


class LocalPool:
    """Runs up to `slots` jobs of one core at a time. Further jobs wait here until a slot is free or `recall` takes them
    back. Leases are renewed until a job has finished. bell: set whenever a job has finished."""

    def __init__(
        self, ledger: Ledger, slots: int, scratch_root: Path, preload: Sequence[str], bell: threading.Event
    ) -> None:
        self.slots = slots
        self.completed: queue.SimpleQueue[Completed] = queue.SimpleQueue()
        self.n_calls = 0
        """Number of running and waiting calls."""
        self._bell = bell
        self._renewer = LeaseRenewer(ledger)
        self._inbox: queue.Queue[_Call | None] = queue.Queue()
        self._taken = 0  # slots of running and waiting calls
        sys.setswitchinterval(SWITCH_SECONDS)
        self._make_worker = partial(Worker, scratch_root, preload=preload)
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []

    @property
    def free(self) -> int:
        """Number of slots that no call takes."""
        return max(0, self.slots - self._taken)

    @property
    def waiting_room(self) -> int:
        """Number of further calls that may wait, at most one per slot. 0 while there are more workers than slots, or
        while a job takes several slots, since an idle worker would begin at once."""
        has_spare_workers = len(self._threads) > self.slots
        has_wide_jobs = self._taken != self.n_calls
        if has_spare_workers or has_wide_jobs:
            return 0
        room = min(self.slots, 2 * self.slots - self.n_calls)  # as many calls run as there are slots, and as many wait
        return max(0, room)

    def submit(self, jobs: Jobs, request: Request) -> None:
        """Run the request of these jobs when a worker is free. Returns at once."""
        self._count(request.limits.threads, change=1)
        if len(self._threads) < min(self.n_calls, self.slots):  # processes are started when there is work for them
            thread = threading.Thread(target=self._serve, name=f"slot-{len(self._threads)}", daemon=True)
            self._threads.append(thread)
            thread.start()
        call = _Call(jobs, request)
        call.held = self._renewer.hold([job.claim for job in jobs], call.end)
        self._inbox.put(call)

    def recall(self) -> list[Jobs]:
        """Take back the jobs that no worker has begun."""
        recalled = []
        with contextlib.suppress(queue.Empty):
            while True:
                call = self._inbox.get_nowait()
                if call is None:  # the mark of `close`
                    break
                self._renewer.release(call.held)
                self._count(call.request.limits.threads, change=-1)
                recalled.append(call.jobs)
        return recalled

    def next_completed(self) -> Completed | None:
        """Returns one finished call, or None if there is none. Only the driver's thread may call it."""
        if self.completed.empty():
            return None
        done = self.completed.get()
        self._count(done.slots, change=-1)
        return done

    def _count(self, slots: int, change: int) -> None:
        """Add (change 1) or remove (change -1) a call that takes this number of slots."""
        self.n_calls = self.n_calls + change
        self._taken = self._taken + change * slots

    def kill(self) -> None:
        """Kill running jobs; they are returned as lost."""
        for worker in list(self._workers):
            worker.cancel()

    def close(self) -> None:
        """End the workers and their running jobs; waiting calls are dropped."""
        self.recall()
        for _ in self._threads:
            self._inbox.put(None)
        self.kill()
        for thread in self._threads:
            thread.join(timeout=JOIN_SECONDS)
        for worker in self._workers:
            worker.close()
        self._renewer.close()

    def _serve(self) -> None:
        """Run calls in one worker process until `close` sends None. One thread per slot does this."""
        worker: Worker | None = None
        while (call := self._inbox.get()) is not None:
            try:
                if worker is None:
                    worker = self._make_worker()
                    self._workers.append(worker)
                call.worker = worker
                results = _lost(call, "cancelled") if call.held.gone else worker.run(call.request, call.hear)
            except Exception as error:  # noqa: BLE001 - every error must reach the driver
                results = _lost(call, f"{type(error).__name__}: {error}")
            self._renewer.release(call.held)
            interrupted = bool(call.held.gone)
            self.completed.put(Completed(call.jobs, results, call.request.limits.threads, interrupted))
            self._bell.set()


def _lost(call: _Call, fault: str) -> list[HostResult]:
    return [lost_with_host(job, fault) for job in call.jobs]
