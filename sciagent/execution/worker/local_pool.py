"""The local pool: one warm worker process a slot, fed from the driver's process. A job of several cores takes as many
slots."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from sciagent.execution.worker.claimed_jobs import ClaimedJob
from sciagent.execution.worker.completing import lost_with_host
from sciagent.verification.sandbox.host import HostResult, Request, Worker

SWITCH_SECONDS = 0.0005  # how long a worker's thread may wait for the driver's to let the interpreter go

Jobs = tuple[ClaimedJob, ...]
"""Jobs of one call."""


class Completed(NamedTuple):
    """Jobs that have come back."""

    jobs: Jobs
    results: list[HostResult]
    slots: int
    """Slots that they took."""


class LocalPool:
    """`slots` jobs of one core at once. Jobs that are submitted while no slot is free wait here, where `recall` finds
    them. bell: is set whenever a job has finished."""

    def __init__(self, slots: int, scratch_root: Path, preload: Sequence[str], bell: threading.Event) -> None:
        self.slots = slots
        self.completed: queue.SimpleQueue[Completed] = queue.SimpleQueue()
        self.running = 0
        """Calls that have not come back, waiting ones included."""
        self._bell = bell
        self._inbox: queue.Queue[tuple[Jobs, Request] | None] = queue.Queue()
        self._taken = 0  # slots of running and waiting calls
        self._begun: dict[int, Jobs] = {}  # by thread
        self._hand = threading.Lock()  # while it is held, no thread finishes its call
        sys.setswitchinterval(SWITCH_SECONDS)
        self._make_worker = partial(Worker, scratch_root, preload=preload)
        self._workers: dict[int, Worker] = {}  # by thread
        self._threads: list[threading.Thread] = []

    @property
    def free(self) -> int:
        return max(0, self.slots - self._taken)

    @property
    def waiting_room(self) -> int:
        """How many more may wait beside the workers: one for each; 0 while there are more workers than slots, or while
        a job takes several, since an idle worker would begin at once."""
        room = min(self.slots, 2 * self.slots - self.running)
        return max(0, room) if len(self._threads) <= self.slots and self._taken == self.running else 0

    def resize(self, slots: int) -> None:
        """Change the number of slots; what runs is left to finish."""
        self.slots = slots

    def submit(self, jobs: Jobs, request: Request) -> None:
        """Run the request of these jobs when a worker is free. Returns at once."""
        self._count(request.limits.threads, 1)
        if len(self._threads) < min(self.running, self.slots):  # processes are started when there is work for them
            self._threads.append(threading.Thread(target=self._serve, name=f"slot-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        self._inbox.put((jobs, request))

    def recall(self, wanted: Callable[[Jobs], bool] = lambda jobs: True) -> list[Jobs]:
        """Take back the wanted calls that no worker has begun."""
        recalled, kept = list[Jobs](), list[tuple[Jobs, Request]]()
        with contextlib.suppress(queue.Empty):
            while (item := self._inbox.get_nowait()) is not None:
                if wanted(item[0]):
                    recalled.append(item[0])
                    self._count(item[1].limits.threads, -1)
                else:
                    kept.append(item)
        for item in kept:
            self._inbox.put(item)
        return recalled

    def kill(self, wanted: Callable[[Jobs], bool] = lambda jobs: True) -> list[Jobs]:
        """Kill the wanted calls that run; their jobs come back as lost. A call that a worker is just beginning may go
        on: ask again."""
        with self._hand:
            running = [(thread, jobs) for thread, jobs in self._begun.items() if wanted(jobs)]
            for thread, _ in running:
                if thread in self._workers:
                    self._workers[thread].cancel()
        return [jobs for _, jobs in running]

    def next_completed(self) -> Completed | None:
        """One finished call, or None while there is none. Called by the driver's thread only."""
        try:
            done = self.completed.get_nowait()
        except queue.Empty:
            return None
        self._count(done.slots, -1)
        return done

    def _count(self, slots: int, change: int) -> None:
        self.running, self._taken = self.running + change, self._taken + change * slots

    def close(self) -> None:
        """End the workers and whatever they run; waiting calls are dropped."""
        self.recall()
        for _ in self._threads:
            self._inbox.put(None)
        self.kill()
        for thread in self._threads:
            thread.join(timeout=10)
        for worker in self._workers.values():
            worker.close()

    def _serve(self) -> None:
        worker: Worker | None = None
        thread = threading.get_ident()
        while (item := self._inbox.get()) is not None:
            jobs, request = item
            self._begun[thread] = jobs
            try:
                worker = worker or self._workers.setdefault(thread, self._make_worker())
                results = worker.run(request)
            except Exception as error:  # noqa: BLE001 - the driver must hear of it, whatever it is
                results = [lost_with_host(job, f"{type(error).__name__}: {error}") for job in jobs]
            with self._hand:
                del self._begun[thread]
            self.completed.put(Completed(jobs, results, request.limits.threads))
            self._bell.set()
