"""The local pool: one warm worker process a slot, fed from the driver's process."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from sciagent.verification.host import HostResult, Request, Worker

T = TypeVar("T")


@dataclass(frozen=True)
class Completed(Generic[T]):
    """`results` is empty only if the pool itself failed; then `fault` says how."""

    token: T
    results: list[HostResult]
    fault: str = ""


class LocalPool(Generic[T]):
    """`slots` jobs at once. submit() never blocks: call it only while `free` > 0."""

    def __init__(self, slots: int, scratch_root: Path, preload: Sequence[str] = ()) -> None:
        if slots < 1:
            raise ValueError(f"{slots} workers; at least 1")
        self.slots = slots
        self.completed: queue.Queue[Completed[T]] = queue.Queue()
        self._inbox: queue.Queue[tuple[T, Request] | None] = queue.Queue()
        self._running = 0
        self._make_worker = partial(Worker, scratch_root, preload=preload)
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []

    @property
    def free(self) -> int:
        return self.slots - self._running

    @property
    def running(self) -> int:
        return self._running

    def submit(self, token: T, request: Request) -> None:
        self._running += 1
        if self._running > len(self._threads):  # processes are started when there is work for them
            self._threads.append(threading.Thread(target=self._serve, name=f"slot-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        self._inbox.put((token, request))

    def next_completed(self, timeout: float) -> Completed[T] | None:
        """One finished job, or None after `timeout` seconds. Called by the driver's thread only."""
        try:
            done = self.completed.get(timeout=timeout) if timeout > 0 else self.completed.get_nowait()
        except queue.Empty:
            return None
        self._running -= 1
        return done

    def cancel(self) -> None:
        """Kill what runs; the jobs come back as lost."""
        for worker in list(self._workers):
            worker.cancel()

    def close(self) -> None:
        """End the workers and whatever they run."""
        for _ in self._threads:
            self._inbox.put(None)
        if self._running:
            self.cancel()
        for thread in self._threads:
            thread.join(timeout=10)
        for worker in self._workers:
            worker.close()

    def _serve(self) -> None:
        worker: Worker | None = None
        while (item := self._inbox.get()) is not None:
            token, request = item
            try:
                if worker is None:
                    worker = self._make_worker()
                    self._workers.append(worker)
                self.completed.put(Completed(token, worker.run(request)))
            except Exception as error:  # noqa: BLE001 - the driver must hear of it, whatever it is
                self.completed.put(Completed(token, [], f"{type(error).__name__}: {error}"))
