"""The dispatcher: drives submitted campaigns, each in a process of its own, and takes back jobs of dead workers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sciagent.domain.jobs.job_rules import MAX_LOSSES
from sciagent.errors import CampaignError, LedgerAwayError
from sciagent.execution.executor import Executor
from sciagent.execution.worker.registration import Presence
from sciagent.execution.worker.runner import patiently
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers import NewWorker
from sciagent.verification.sandbox.processes import die_with

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0
ENDS = (0, 3, 130)  # exit codes of a campaign that ended: with a hit, without one, stopped by a person
MAX_FAILURES = MAX_LOSSES + 1  # in a row; a job that takes its driver down is quarantined before
PAUSE_SECONDS = 5.0  # after the first failure; twice as long after each further one
STOP_SECONDS = 60.0  # for drivers to leave


@dataclass
class _Child:
    name: str
    process: subprocess.Popen[bytes] | None = None
    failures: int = 0
    not_before: float = 0.0


class Host:
    """`serve` returns when `request_stop` was called, and raises CampaignError when no job reaches a worker until a
    person corrects something; the campaigns go on when a dispatcher is started again.

    executor: how workers are notified. command: the command that drives a campaign. reports: the folder of reports.
    """

    def __init__(
        self, ledger: Ledger, new: NewWorker, executor: Executor, command: Callable[[str], list[str]], reports: Path
    ) -> None:
        self._ledger, self._presence, self._executor = ledger, Presence(new), executor
        self._command, self._reports = command, reports
        self._children: dict[int, _Child] = {}
        self._stop = threading.Event()

    def request_stop(self) -> None:
        self._stop.set()

    def serve(self) -> None:
        """Drive campaigns until told to stop. A database that is away is waited for."""
        patiently(lambda: self._presence.step(self._ledger), self._stop)
        self._executor.wake({})  # a cluster is followed from now on
        try:
            while not self._stop.is_set():
                try:
                    self._step()
                except LedgerAwayError as error:
                    log.warning("the ledger is away: %s", str(error).split("\n", 1)[0][:200])
                self._stop.wait(LOOK_SECONDS)
        finally:
            self._leave()
            self._executor.close()

    def _step(self) -> None:
        now = time.monotonic()
        self._collect_ended(now)
        with self._ledger.read() as connection:
            waiting = campaigns.hosted(connection)
        for campaign_id, name in waiting:
            child = self._children.setdefault(campaign_id, _Child(name))
            if child.process is None and now >= child.not_before:
                self._start(child)
        self._presence.step(self._ledger)
        if (fault := self._executor.fault) is not None:
            raise CampaignError(f"{fault}. Nothing is lost: campaigns go on when a dispatcher is started again")

    def _start(self, child: _Child) -> None:
        report = self._reports / f"{child.name}.report.html"
        environment = os.environ | {"SCIAGENT_LEDGER": self._ledger.url.render_as_string(hide_password=False)}
        environment.pop("SCIAGENT_LEDGER_FILE", None)  # the other way to say it; both at once are refused
        environment["SCIAGENT_ARTIFACTS"] = str(self._ledger.artifacts.root.resolve())
        child.process = subprocess.Popen(
            [*self._command(child.name), "--report", str(report)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )
        _log(logging.INFO, child, f"driven by process {child.process.pid}", "driver_started", pid=child.process.pid)

    def _collect_ended(self, now: float) -> None:
        """Note drivers that have ended. A campaign whose driver fails again and again is left to a person."""
        for campaign_id, child in list(self._children.items()):
            if child.process is None or (code := child.process.poll()) is None:
                continue
            child.process = None
            if code in ENDS:
                _log(logging.INFO, child, f"its driver ended with code {code}", "driver_ended", code=code)
                del self._children[campaign_id]
                continue
            child.failures += 1
            child.not_before = now + PAUSE_SECONDS * 2 ** (child.failures - 1)
            text = f"its driver failed with code {code}, time {child.failures}"
            _log(logging.ERROR, child, text, "driver_failed", code=code)
            if child.failures >= MAX_FAILURES:
                with self._ledger.begin() as connection:
                    campaigns.host(connection, campaign_id, False)
                    payload = {"code": code, "failures": child.failures}
                    campaigns.log_event(connection, campaign_id, "dispatcher_gave_up", payload)
                del self._children[campaign_id]

    def _leave(self) -> None:
        """Ask the drivers to end, twice if need be: then remote jobs go on without them. A driver that does not end is
        killed, and the ledger stands as at its last commit."""
        alive = [child.process for child in self._children.values() if child.process is not None]
        end = time.monotonic() + STOP_SECONDS
        for share in (0.5, 1.0):
            for process in alive:
                process.terminate()
            for process in alive:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=max(0.1, end - (1 - share) * STOP_SECONDS - time.monotonic()))
        for process in alive:
            process.kill()  # does nothing to those that have ended
        self._presence.leave(self._ledger)


def _log(level: int, child: _Child, text: str, event: str, **fields: int) -> None:
    about = {"event": event, "campaign": child.name, **fields}
    log.log(level, "campaign %s: %s", child.name, text, extra={"about": about})
