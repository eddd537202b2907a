"""Runs the tool calls of many episodes side by side, and their candidates on fast and inline rungs in one batch.

In its middle a tool call proposes candidates, and it needs the results of rungs to go on. So each episode's calls run
in a greenlet, which pauses at each of these rungs. When all episodes have paused or ended, each rung runs once for all
of them. Nothing depends on the order: the greenlets take turns in one thread, and no episode sees another.

Inline rungs take longer than fast ones, so several processes share their batches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from greenlet import getcurrent, greenlet

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry, Runs, answer_at_once
from sciagent.verification.sandbox.host import HostResult, Request, Worker

T = TypeVar("T")


class FastRungs:
    """The fast and inline rungs of a step of many episodes."""

    def __init__(self, built: Built, worker: Runs) -> None:
        self._built = built
        self._worker = worker
        self.seconds = 0.0
        """Elapsed time in which rungs were answering."""

    def run_all(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Runs tasks side by side, and returns their results in order. An error of a task is raised here."""
        results: dict[int, T] = {}

        def keep(place: int, task: Callable[[], T]) -> None:
            results[place] = task()

        running = [greenlet(keep) for _ in tasks]
        # for each paused task, the rung for which it waits and the entries on which the rung is to answer
        wanted = [each.switch(place, tasks[place]) for place, each in enumerate(running)]
        while any(not each.dead for each in running):
            waiting = [place for place, each in enumerate(running) if not each.dead]
            for rung in self._built.fast:
                asked: list[BenchEntry] = []
                for place in waiting:
                    wanted_rung, entries = wanted[place]
                    if wanted_rung is rung:
                        asked.extend(entries)
                if asked:
                    self._answer(rung, asked)
            for place in waiting:
                wanted[place] = running[place].switch()
        return [results[place] for place in range(len(tasks))]

    def answer(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        """Lets the rung answer on the entries. Within a task it waits until all other tasks wait or have ended."""
        hub = getcurrent().parent  # the greenlet of `run_all`; None outside of a task
        if hub is None:
            self._answer(rung, entries)
        else:
            hub.switch((rung, entries))

    def _answer(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        begun = time.monotonic()
        answer_at_once(self._built, self._worker, rung, entries)
        self.seconds += time.monotonic() - begun


class WorkerTeam:
    """The worker of a driver, for the rungs that answer at once, and further workers for inline rungs.

    One thread may use it.
    The results do not depend on the number of processes.
    """

    def __init__(self, first: Worker, built: Built, cores: int) -> None:
        """first: the driver's worker, which stays open at the end. cores: number of cores that inline rungs may use."""
        self._first = first
        self._built = built
        self._cores = cores
        self._inline = {rung.verifier.name for rung in built.fast if rung.spec.inline}
        self._others: list[Worker] = []  # started when a batch needs them
        self._undo = ExitStack()

    def __enter__(self) -> WorkerTeam:
        return self

    def __exit__(self, *error: object) -> None:
        self._undo.close()

    def run(self, request: Request) -> list[HostResult]:
        """Returns one result for each candidate, in order, as `Worker.run` does."""
        n = min(self._cores // request.limits.threads, len(request.candidates))
        if n < 2 or request.verifier not in self._inline:
            return self._first.run(request)
        while len(self._others) < n - 1:
            started = Worker(self._built.scratch(), preload=sorted(self._inline))
            self._others.append(self._undo.enter_context(started))
        # worker i gets the candidates i, i + n, i + 2 n, …
        parts = [request.candidates[place::n] for place in range(n)]
        workers = [self._first, *self._others]
        with ThreadPoolExecutor(n, thread_name_prefix="inline") as threads:
            running = [
                threads.submit(worker.run, replace(request, candidates=part))
                for worker, part in zip(workers, parts, strict=False)  # an earlier request may have started more
            ]
            shares = [each.result() for each in running]
        return [shares[place % n][place // n] for place in range(len(request.candidates))]
