"""Several processes that share the batches of inline rungs, which take longer than fast ones."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from sciagent.campaign.core.build import Built
from sciagent.verification.sandbox.host import HostResult, Request, Worker


class WorkerTeam:
    """A driver's process for the rungs that answer at once, and more of them for inline rungs. One thread may use it.

    The results do not depend on the number of processes.
    """

    def __init__(self, first: Worker, built: Built, cores: int) -> None:
        """first: runs fast rungs, and stays open. cores: that inline rungs may use together."""
        self._first, self._built, self._cores = first, built, cores
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
        parts = [request.candidates[place::n] for place in range(n)]
        workers = [self._first, *self._others]
        with ThreadPoolExecutor(n, thread_name_prefix="inline") as threads:
            running = [
                threads.submit(worker.run, replace(request, candidates=part))
                for worker, part in zip(workers, parts, strict=False)
            ]
            shares = [each.result() for each in running]
        return [shares[place % n][place // n] for place in range(len(request.candidates))]
