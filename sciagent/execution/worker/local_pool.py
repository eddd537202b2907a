"""The local pool: one warm worker process a slot, fed from the driver's process. A job of several cores takes as many
slots."""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from sciagent.verification.sandbox.host import HostResult, Request, Worker

SWITCH_SECONDS = 0.0005  # how long a worker's thread may wait for the driver's to let the interpreter go

T = TypeVar("T")


@dataclass(frozen=True)
class Completed(Generic[T]):
    """`results` is empty only if the pool itself failed; then `fault` says how. slots: that it took."""

    token: T
    results: list[HostResult]
    fault: str = ""
    slots: int = 1


class LocalPool(Generic[T]):
    """`slots` jobs of one core at once. submit() never blocks; what is submitted while none is free waits for a worker
    here, where `recall` finds it; what takes several is submitted when so many are free. bell: set whenever a job has
    finished."""

    def __init__(
        self, slots: int, scratch_root: Path, preload: Sequence[str] = (), bell: threading.Event | None = None
    ) -> None:
        if slots < 1:
            raise ValueError(f"{slots} workers; at least 1")
        self.slots = slots
        self.completed: queue.SimpleQueue[Completed[T]] = queue.SimpleQueue()
        self._bell = bell or threading.Event()
        self._inbox: queue.Queue[tuple[T, Request] | None] = queue.Queue()
        self._running = 0
        self._taken = 0  # slots, by what runs and what waits
        self._begun: dict[int, tuple[T, float]] = {}  # by thread
        self._hand = threading.Lock()  # while it is held, nobody puts down what he has in hand
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
        a job takes several: a worker that has nothing to do would begin at once."""
        room = min(self.slots, 2 * self.slots - self._running)
        return max(0, room) if len(self._threads) <= self.slots and self._taken == self._running else 0

    @property
    def running(self) -> int:
        return self._running

    def resize(self, slots: int) -> None:
        """So many jobs at once from now on; what runs is left to finish."""
        self.slots = max(1, slots)

    def submit(self, token: T, request: Request) -> None:
        self._count(request.limits.threads, 1)
        if len(self._threads) < min(self._running, self.slots):  # processes are started when there is work for them
            self._threads.append(threading.Thread(target=self._serve, name=f"slot-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        self._inbox.put((token, request))

    def recall(self) -> list[T]:
        """Take back what no worker has taken up yet."""
        found = []
        with contextlib.suppress(queue.Empty):
            while (item := self._inbox.get_nowait()) is not None:
                found.append(item[0])
                self._count(item[1].limits.threads, -1)
        return found

    def end(self, wanted: Callable[[T], bool]) -> tuple[list[T], list[T]]:
        """Take back what of these no worker has taken up, and kill what of these runs, which comes back as lost: (the
        former, the latter). What a worker is just taking up may go on: ask again."""
        found, kept = list[T](), list[tuple[T, Request]]()
        with contextlib.suppress(queue.Empty):
            while (item := self._inbox.get_nowait()) is not None:
                if wanted(item[0]):
                    found.append(item[0])
                    self._count(item[1].limits.threads, -1)
                else:
                    kept.append(item)
        for one in kept:
            self._inbox.put(one)
        with self._hand:
            running = [(thread, token) for thread, (token, _) in self._begun.items() if wanted(token)]
            for thread, _ in running:
                if thread in self._workers:
                    self._workers[thread].cancel()
        return found, [token for _, token in running]

    def next_completed(self) -> Completed[T] | None:
        """One finished job, or None while there is none. Called by the driver's thread only."""
        try:
            done = self.completed.get_nowait()
        except queue.Empty:
            return None
        self._count(done.slots, -1)
        return done

    def _count(self, slots: int, change: int) -> None:
        self._running, self._taken = self._running + change, self._taken + change * slots

    def cancel(self) -> None:
        """Kill what runs; the jobs come back as lost."""
        for worker in list(self._workers.values()):
            worker.cancel()

    def close(self) -> None:
        """End the workers and whatever they run; what waits is dropped."""
        self.recall()
        for _ in self._threads:
            self._inbox.put(None)
        if self._running:
            self.cancel()
        for thread in self._threads:
            thread.join(timeout=10)
        for worker in self._workers.values():
            worker.close()

    def _serve(self) -> None:
        worker: Worker | None = None
        while (item := self._inbox.get()) is not None:
            token, request = item
            self._begun[threading.get_ident()] = token, time.monotonic()
            try:
                if worker is None:
                    worker = self._make_worker()
                    self._workers[threading.get_ident()] = worker
                done = Completed(token, worker.run(request), slots=request.limits.threads)
            except Exception as error:  # noqa: BLE001 - the driver must hear of it, whatever it is
                done = Completed(token, [], f"{type(error).__name__}: {error}", request.limits.threads)
            with self._hand:
                del self._begun[threading.get_ident()]
            self.completed.put(done)
            self._bell.set()
