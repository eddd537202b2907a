"""The dispatcher: starts a driver process for each submitted campaign, and takes back jobs of dead workers."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from sciagent.campaign.file.allow_list import AllowList
from sciagent.campaign.file.campaign_spec import check_registered
from sciagent.domain.states_and_needs import MAX_LOSSES
from sciagent.errors import LEDGER_AWAY_CODE, CampaignError, LedgerAwayError, UsageError
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.execution.worker.presence_and_leases import Presence
from sciagent.execution.worker.worker_slot import retry_while_away
from sciagent.inputs.yaml_validation import NAME
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from sciagent.verification.sandbox.process_trees import die_with

log = logging.getLogger(__name__)
LOOK_SECONDS = 2.0
ENDS = (0, 3, 5, 130)  # exit codes of a driver whose campaign ended: with a hit, without, by its model, by a person
MAX_FAILURES = MAX_LOSSES + 1  # most failures of a driver; a job that kills its driver is quarantined before
MAX_WARNING = 200  # characters of an error in a warning
MAX_REFUSAL = 1500  # characters of the reason why a campaign is not started
SOUND_SECONDS = 600.0  # after a driver has run for this time, earlier failures are forgotten
PAUSE_SECONDS = 5.0  # pause after a driver's first failure; it doubles with each further failure
STOP_SECONDS = 60.0  # time that drivers have to end before they are killed


@dataclass
class _Child:
    """A submitted campaign and the process that drives it."""

    name: str
    process: subprocess.Popen[bytes] | None = None
    """The running driver; None if none runs."""
    failures: int = 0
    """Number of failures of its drivers so far; a driver that ran for `SOUND_SECONDS` begins anew."""
    started_at: float = 0.0
    """Time on the monotonic clock at which the last driver was started."""
    not_before: float = 0.0
    """Time on the monotonic clock before which no driver is started."""
    checked: tuple[datetime, AllowList | None] | None = None
    """Time of the campaign's last change, and the list, as they were at the last check. The list is None if it could
    not be read. None: the campaign was not checked yet."""
    refusal: str | None = None
    """The reason why the campaign may not be started; None if it may."""


class Host:
    """The process that keeps one driver running for each submitted campaign.

    executor: notifies workers. command: returns the command that drives the named campaign. reports: folder of reports.
    allowed: reads what campaigns may name beyond their files, and raises UsageError if it cannot; None: anything.
    """

    def __init__(
        self,
        ledger: Ledger,
        new: NewWorker,
        executor: Executor,
        command: Callable[[str], list[str]],
        reports: Path,
        allowed: Callable[[], AllowList] | None = None,
    ) -> None:
        self._ledger = ledger
        self._presence = Presence(new)
        self._executor = executor
        self._command = command
        self._reports = reports
        self._allowed = allowed
        self._children: dict[int, _Child] = {}
        self._stop = threading.Event()

    def request_stop(self) -> None:
        self._stop.set()

    def serve(self) -> None:
        """Drives campaigns until `request_stop` is called; waits while the database is unreachable. Raises
        CampaignError if no job can reach a worker until a person corrects something."""
        retry_while_away(lambda: self._presence.step(self._ledger), self._stop)
        self._executor.wake({})  # starts the executor's watch over its cluster
        try:
            while not self._stop.is_set():
                try:
                    self._step()
                except LedgerAwayError as error:
                    first_line = str(error).split("\n", 1)[0]
                    log.warning("the ledger is away: %s", first_line[:MAX_WARNING])
                self._stop.wait(LOOK_SECONDS)
        finally:
            self._leave()
            self._executor.close()

    def _step(self) -> None:
        """Collects ended drivers and starts the drivers that are due. Raises CampaignError as `serve` does."""
        now = time.monotonic()
        self._collect_ended(now)
        with self._ledger.read() as connection:
            waiting = campaigns.hosted_without_driver(connection)
        for campaign_id, name in waiting:
            child = self._children.setdefault(campaign_id, _Child(name))
            if child.process is None and now >= child.not_before and self._may_start(campaign_id, child):
                self._start(child)
        self._presence.step(self._ledger)
        fault = self._executor.fault
        if fault is not None:
            raise CampaignError(f"{fault}. Nothing is lost: campaigns go on when a dispatcher is started again")

    def _may_start(self, campaign_id: int, child: _Child) -> bool:
        """Returns whether the campaign names only what the list allows. Otherwise the ledger says why not.

        A campaign is checked again after it or the list has changed. The driver checks it anew. The rows are not
        trusted: whoever writes into the ledger chooses their names and their texts.
        """
        is_name = re.fullmatch(NAME, child.name) is not None
        if is_name and self._allowed is None:
            return True
        with self._ledger.read() as connection:
            file = campaigns.stored_file(connection, campaign_id)
        refusal: str | None = None
        allowed: AllowList | None = None
        try:
            if not is_name or self._allowed is None:  # a name is an argument of the driver and a part of a path
                raise UsageError(f"{child.name!a} is no name of a campaign")
            allowed = self._allowed()
            if child.checked == (file.updated_at, allowed):
                return child.refusal is None
            check_registered(file.source, child.name, Path(file.base), allowed)
        except UsageError as error:
            lines = "; ".join(line.strip() for line in str(error).splitlines())
            refusal = f"no driver is started: {lines}"[:MAX_REFUSAL]
        if refusal is not None and refusal != child.refusal:
            _log(logging.WARNING, child, refusal, "driver_refused")
            with self._ledger.begin() as connection:
                campaigns.log_event(connection, campaign_id, campaigns.DISPATCHER_REFUSED, {"why": refusal})
        child.checked = (file.updated_at, allowed)
        child.refusal = refusal
        return refusal is None

    def _start(self, child: _Child) -> None:
        report = self._reports / f"{child.name}.report.html"
        child.process = subprocess.Popen(
            [*self._command(child.name), "--report", str(report)],
            env=self._ledger.environment(),
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )
        child.started_at = time.monotonic()
        _log(logging.INFO, child, f"driven by process {child.process.pid}", "driver_started", pid=child.process.pid)

    def _collect_ended(self, now: float) -> None:
        """Records drivers that have ended. After `MAX_FAILURES` failures the campaign is no longer restarted."""
        for campaign_id, child in list(self._children.items()):
            code = None if child.process is None else child.process.poll()
            if code is None:  # waits to be started, or runs
                continue
            child.process = None
            if code in ENDS:
                _log(logging.INFO, child, f"its driver ended with code {code}", "driver_ended", code=code)
                del self._children[campaign_id]
                continue
            if code == LEDGER_AWAY_CODE:  # no fault of the campaign
                child.not_before = now + PAUSE_SECONDS
                _log(logging.WARNING, child, "its driver lost the ledger and is started again", "driver_lost_ledger")
                continue
            if now - child.started_at >= SOUND_SECONDS:
                child.failures = 0
            child.failures += 1
            child.not_before = now + PAUSE_SECONDS * 2 ** (child.failures - 1)
            text = f"its driver failed with code {code}, time {child.failures}"
            _log(logging.ERROR, child, text, "driver_failed", code=code)
            if child.failures >= MAX_FAILURES:
                with self._ledger.begin() as connection:
                    campaigns.set_hosted(connection, campaign_id, hosted=False)
                    payload = {"code": code, "failures": child.failures}
                    campaigns.log_event(connection, campaign_id, "dispatcher_gave_up", payload)
                del self._children[campaign_id]

    def _leave(self) -> None:
        """Ends the drivers by a signal, repeated once after half of `STOP_SECONDS`; remote jobs go on. A driver that
        still runs is killed; the ledger keeps its last commit."""
        alive = [child.process for child in self._children.values() if child.process is not None]
        began = time.monotonic()
        for share_of_time in (0.5, 1.0):
            deadline = began + share_of_time * STOP_SECONDS
            for process in alive:
                process.terminate()
            for process in alive:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=max(0.1, deadline - time.monotonic()))
        for process in alive:
            process.kill()  # no effect on a process that has ended
        self._presence.leave(self._ledger)


def _log(level: int, child: _Child, text: str, event: str, **fields: int) -> None:
    about = {"event": event, "campaign": child.name, **fields}
    log.log(level, "campaign %s: %s", child.name, text, extra={"about": about})
