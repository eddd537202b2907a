"""What people and machines watch: the terminal, Prometheus, the log."""

from __future__ import annotations

import io
import json
import logging
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import sqlalchemy as sa
from rich.console import Console

from sciagent.cli.output_logging_and_given_structures import JsonLines, TextLines
from sciagent.cli.top import display
from sciagent.domain.states_and_needs import ReportedProgress
from sciagent.report.campaigns_at_work import CachedQueries, read_snapshot
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import leases
from tests.support.busy import busy
from tests.support.campaigns import environment
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.elsewhere import until
from tests.support.prometheus import scraped

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@ON_SQLITE
def test_an_empty_ledger_is_said_to_be_empty(ledger: Ledger, typed: Typed) -> None:  # noqa: F811
    text = typed.told("top", "--once")
    assert "no campaign runs" in text and "no worker is alive" in text and "nothing failed lately" in text
    assert typed.data("top")["campaigns"] == []


@ON_SQLITE
def test_the_live_view_refreshes_and_ends_at_q(ledger: Ledger, tmp_path: Path) -> None:
    busy(ledger)
    command = [sys.executable, "-m", "sciagent", "top", "-i", "0.2", "--ledger", ledger.url.render_as_string(False)]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(TERM="xterm", COLUMNS="120", LINES="40")
    )
    os.close(theirs)
    try:
        seen = read_until(ours, lambda text: text.count("sciagent top") >= 3)
        assert "uv-absorbers" in seen
        os.write(ours, b"q")
        read_until(ours, lambda text: process.poll() is not None, 10)
        assert process.wait(timeout=10) == 0
    finally:
        process.kill()
        os.close(ours)


def read_until(terminal: int, enough, seconds: float = 60.0) -> str:
    found, end = "", time.monotonic() + seconds
    while not enough(found):
        assert time.monotonic() < end, found
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                found += os.read(terminal, 65536).decode(errors="replace")
            except OSError:  # the other side has closed it
                break
    return found


@ON_SQLITE
def test_the_command_serves_until_it_is_told_to_end(ledger: Ledger, tmp_path: Path, typed: Typed) -> None:  # noqa: F811
    url = ledger.url.render_as_string(False)
    command = [sys.executable, "-m", "sciagent", "top", "--listen", "127.0.0.1:0", "--ledger", url]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment())
    try:
        said = until(lambda: re.search(r"http://\S+", (tmp_path / "log").read_text()))
        assert scraped(said[0])["sciagent_ledger_up"] == {(): 1}
        taken = said[0].split("/")[2]
        assert f"cannot listen at {taken}" in typed.refused("top", "--listen", taken)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
    finally:
        process.kill()
    assert "give a host and a port" in typed.refused("top", "--listen", "9464")


def test_a_line_of_the_log_says_what_it_is_about() -> None:
    about = {"event": "ended", "campaign": "dyes", "job": 7, "fence": 2, "worker": "w/0"}
    record = logging.LogRecord("sciagent.x", logging.WARNING, "x.py", 1, "job %d: lost", (7,), None)
    record.about = about
    line = json.loads(JsonLines().format(record))
    assert line.items() >= {**about, "level": "warning", "message": "job 7: lost", "logger": "sciagent.x"}.items()
    assert list(line)[:4] == ["time", "level", "event", "message"] and line["time"].endswith("+00:00")
    text = TextLines().format(record)
    assert re.fullmatch(r"\d\d:\d\d:\d\d warning: job 7: lost  \[campaign=dyes job=7 fence=2 worker=w/0\]", text)
    record.about, record.msg, record.args = None, "broken\nline \x1b[31m", ()
    assert json.loads(JsonLines().format(record))["message"] == "broken\nline \x1b[31m"


def drawn(ledger: Ledger, width: int, height: int | None = None) -> str:
    with ledger.read() as connection:
        found = read_snapshot(connection, CachedQueries())
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(display(found, width, height))
    return console.export_text()


def test_one_look_shows_campaigns_queues_workers_and_failures(ledger: Ledger) -> None:
    busy(ledger)
    text = drawn(ledger, 140)
    assert re.search(r"redox-anolytes +running +0 +19 +2 +5 +1 +1 +21% core_seconds", text)
    assert re.search(r"high_fidelity +4 +\d s +0 +nobody serves it", text)
    assert re.search(r"node08:5120:77aa01 +\d+ +uv-absorbers +r1 +\d s +\d s +2 +draining +C+", text)
    assert "3 of 4 slots busy, 1 job in drivers" in text
    assert re.search(r"timeout: worker_died +node07:41877:9f01ac/", text)


@ON_SQLITE
def test_a_look_tells_how_far_a_job_is(ledger: Ledger) -> None:
    busy(ledger)
    assert "progress" not in drawn(ledger, 160)
    running = t.attempt.c.state == "running"
    with ledger.begin() as connection:
        id_ = connection.execute(sa.select(t.attempt.c.id).where(running).limit(1)).scalar_one()
        leases.report_progress(connection, {id_: ReportedProgress(1.0, 4.0, "chunk 2", 600.0)})
    assert "25 %, 10 min left: chunk 2" in drawn(ledger, 160)


@ON_SQLITE
def test_a_look_counts_candidates_and_compounds(ledger: Ledger) -> None:
    busy(ledger)
    with ledger.begin() as connection:
        first_two = sa.select(t.candidate.c.id).order_by(t.candidate.c.id).limit(2)
        ids = connection.execute(first_two).scalars().all()
        connection.execute(sa.update(t.candidate).where(t.candidate.c.id.in_(ids)).values(inchikey="X"))
        are_hits = t.campaign_candidate.c.candidate_id.in_(ids)
        connection.execute(sa.update(t.campaign_candidate).where(are_hits).values(is_hit=True))
    assert re.search(r"redox-anolytes +running +2, 1 distinct +19 ", drawn(ledger, 140))


@ON_SQLITE
@pytest.mark.parametrize(("width", "height"), [(80, 24), (60, 24), (140, 50), (200, 16)])
def test_a_look_fits_the_terminal(ledger: Ledger, width: int, height: int) -> None:
    busy(ledger, n=40, names=[f"campaign-number-{i}-of-a-long-name" for i in range(9)])
    lines = drawn(ledger, width, height).splitlines()
    assert max(map(len, lines)) <= width and len(lines) <= max(height, 24)
    assert any("nobody serves it" in line for line in lines)
