"""The dispatcher: drives campaigns that were submitted, each in a process of its own, and heals what others leave."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
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
ENDS = (0, 3, 130)  # exit codes of a campaign that ended: with a hit, without one, told to stop
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
    """`serve` returns when `request_stop` was called, and raises CampaignError when no job gets anywhere until a person
    mends it; the campaigns go on when a dispatcher is started again.

    executor: how workers are told. command: drives a campaign, its name is put after it. reports: where they go.
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
        """Look, heal, wait; until told to stop. A database that is away is waited for."""
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
        self._bury(now)
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
        log.info(
            "campaign %s: driven by process %d",
            child.name,
            child.process.pid,
            extra={"about": {"event": "driver_started", "campaign": child.name, "pid": child.process.pid}},
        )

    def _bury(self, now: float) -> None:
        """What became of the drivers that have ended. One that fails again and again is left to a person."""
        for campaign_id, child in list(self._children.items()):
            if child.process is None or (code := child.process.poll()) is None:
                continue
            child.process = None
            if code in ENDS:
                log.info(
                    "campaign %s: its driver ended with code %d",
                    child.name,
                    code,
                    extra={"about": {"event": "driver_ended", "campaign": child.name, "code": code}},
                )
                del self._children[campaign_id]
                continue
            child.failures += 1
            child.not_before = now + PAUSE_SECONDS * 2 ** (child.failures - 1)
            log.error(
                "campaign %s: its driver failed with code %d, time %d",
                child.name,
                code,
                child.failures,
                extra={"about": {"event": "driver_failed", "campaign": child.name, "code": code}},
            )
            if child.failures >= MAX_FAILURES:
                with self._ledger.begin() as connection:
                    campaigns.host(connection, campaign_id, False)
                    payload = {"code": code, "failures": child.failures}
                    campaigns.log_event(connection, campaign_id, "dispatcher_gave_up", payload)
                del self._children[campaign_id]

    def _leave(self) -> None:
        """Tell the drivers to end; who does not is killed: the ledger stands as at its last commit."""
        alive = [one.process for one in self._children.values() if one.process is not None]
        for process in alive:
            process.terminate()
        end = time.monotonic() + STOP_SECONDS
        for process in alive:
            try:
                process.wait(timeout=max(0.1, (end - time.monotonic()) / 2))
            except subprocess.TimeoutExpired:
                process.terminate()  # the second word: what runs elsewhere goes on without it
                try:
                    process.wait(timeout=max(0.1, end - time.monotonic()))
                except subprocess.TimeoutExpired:
                    process.kill()
        self._presence.leave(self._ledger)
