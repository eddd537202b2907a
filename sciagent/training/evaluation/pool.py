"""Runs campaigns of an evaluation in several processes, each of which keeps its model loaded."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sciagent.domain.answers.evaluation import EvaluatedCampaign
from sciagent.store.database.ledger import Ledger
from sciagent.training.evaluation.campaign_runs import CampaignRuns
from sciagent.training.evaluation.planning import PlannedCampaign
from sciagent.training.evaluation.worker import answer, line_of

Answer = Mapping[str, Any]
PAUSE = 1.0  # seconds after a campaign was found with another process


class Pool:
    """Workers that run campaigns. `stop` may be called from any thread.

    One worker is this process; more of them are processes of their own, since only then each counts its own core time.
    A campaign that another evaluation runs is asked for again at the end, so that evaluations on one ledger share them.
    """

    def __init__(self, ledger: Ledger, workers: int) -> None:
        self._ledger, self._workers = ledger, workers
        self._runs = CampaignRuns(ledger)
        self._processes: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()

    def run(self, campaigns: Sequence[PlannedCampaign]) -> Iterator[tuple[PlannedCampaign, EvaluatedCampaign | str]]:
        """Yields each campaign with its figures, or with why it has none, as they come. Those that were stopped are
        left out."""
        n = min(self._workers, len(campaigns))
        done = self._here(campaigns) if n < 2 else self._elsewhere(campaigns, n)
        for planned, found in done:
            if "figures" in found:
                yield planned, EvaluatedCampaign.model_validate(found["figures"])
            elif "fault" in found:
                yield planned, str(found["fault"])

    def stop(self, now: bool = False) -> None:
        """Stops the campaigns that run, and begins no more. now: jobs that run are ended, too."""
        self._stopped.set()
        self._runs.stop(now)
        with self._lock:
            for process in self._processes:
                if process.stdin is not None and not process.stdin.closed:
                    process.stdin.close()

    def _here(self, campaigns: Sequence[PlannedCampaign]) -> Iterator[tuple[PlannedCampaign, Answer]]:
        left = deque(campaigns)
        try:
            while left:
                planned = left.popleft()
                found = answer(self._runs, planned)
                if "held" in found and not self._stopped.wait(PAUSE):
                    left.append(planned)
                else:
                    yield planned, found
        finally:
            self._runs.close()

    def _elsewhere(self, campaigns: Sequence[PlannedCampaign], n: int) -> Iterator[tuple[PlannedCampaign, Answer]]:
        left: queue.SimpleQueue[PlannedCampaign] = queue.SimpleQueue()
        done: queue.SimpleQueue[tuple[PlannedCampaign, Answer] | None] = queue.SimpleQueue()
        for planned in campaigns:
            left.put(planned)
        threads = [threading.Thread(target=self._serve, args=(left, done.put), daemon=True) for _ in range(n)]
        for thread in threads:
            thread.start()
        running = n
        while running:
            found = done.get()
            if found is None:
                running -= 1
            else:
                yield found

    def _serve(
        self, left: queue.SimpleQueue[PlannedCampaign], put: Callable[[tuple[PlannedCampaign, Answer] | None], None]
    ) -> None:
        """Hands campaigns to one process after another, until none is left. A process that dies is replaced."""
        process: subprocess.Popen[str] | None = None
        try:
            while not self._stopped.is_set():
                planned = left.get_nowait()
                process = process or self._started()
                found = _ask(process, planned)
                if found is None:
                    status = process.wait()
                    found = {} if self._stopped.is_set() else {"fault": f"its process ended with status {status}"}
                    self._ended(process)
                    process = None
                if "held" in found and not self._stopped.wait(PAUSE):
                    left.put(planned)
                else:
                    put((planned, found))
        except queue.Empty:
            pass
        finally:
            if process is not None:
                self._ended(process)
            put(None)

    def _started(self) -> subprocess.Popen[str]:
        """Starts a worker. It has a session of its own, so that Ctrl-C reaches only this process, which stops it."""
        command = [sys.executable, "-m", "sciagent.training.evaluation.worker"]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        process = subprocess.Popen(command, **pipes)
        told = {"url": self._ledger.url.render_as_string(hide_password=False)}
        _tell(process, json.dumps(told | {"artifacts": str(self._ledger.artifacts.root)}))
        with self._lock:
            self._processes.add(process)
        return process

    def _ended(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._processes.discard(process)
            if process.stdin is not None and not process.stdin.closed:
                process.stdin.close()
        process.wait()


def _ask(process: subprocess.Popen[str], planned: PlannedCampaign) -> Answer | None:
    """Returns the answer of a worker; None if it has ended."""
    try:
        _tell(process, line_of(planned))
    except (OSError, ValueError):  # its stdin was closed
        return None
    assert process.stdout is not None
    line = process.stdout.readline()
    return json.loads(line) if line else None


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()
