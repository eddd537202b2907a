"""The dispatcher: submitted campaigns go on whoever dies, and stay stopped when a person stopped them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.driving import dispatcher_of_driver_processes
from sciagent.campaign.driving.dispatcher_of_driver_processes import Host
from sciagent.execution.celery_executor_and_choice_by_name import executor_of
from sciagent.execution.executor_wakes_workers import Executor
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import workers_and_capacity
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from tests.support.campaigns import environment, sciagent
from tests.support.elsewhere import counts, molecules, until, whole, working, written

pytestmark = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def dispatcher(ledger: Ledger, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "sciagent", "dispatcher", "--reports", "reports"]
    with (folder / "dispatcher.log").open("ab") as log:
        return subprocess.Popen(
            command, cwd=folder, env=environment(**env(ledger)), stdout=log, stderr=log, start_new_session=True
        )


def env(ledger: Ledger) -> dict[str, str]:
    return {"SCIAGENT_LEDGER": str(ledger.url.database), "SCIAGENT_ARTIFACTS": str(ledger.artifacts.root)}


def submit(ledger: Ledger, folder: Path, campaign: str = "elsewhere") -> dict:
    found = sciagent("run", campaign, "--submit", "--json", cwd=folder, **env(ledger))
    assert isinstance(found, dict)
    return found


def state(ledger: Ledger) -> tuple[str, bool]:
    with ledger.read() as connection:
        return tuple(connection.execute(sa.select(t.campaign.c.state, t.campaign.c.hosted)).one())


def driver_pid(ledger: Ledger) -> int | None:
    with ledger.read() as connection:
        found = campaigns.driver_of(connection, 1)
    return int(found.pid) if found is not None and found.alive else None


@pytest.mark.long
def test_a_submitted_campaign_goes_on_when_its_driver_and_its_dispatcher_are_killed(
    ledger: Ledger, tmp_path: Path
) -> None:
    written(ledger, tmp_path, molecules(8), settings="{seconds: 0.5, declared: 5}")
    assert submit(ledger, tmp_path) == {"campaign": "elsewhere", "dispatchers": 0, "driven": False}
    first = dispatcher(ledger, tmp_path)
    with working(ledger, tmp_path):
        pid = until(lambda: driver_pid(ledger))
        assert submit(ledger, tmp_path) == {"campaign": "elsewhere", "dispatchers": 1, "driven": True}
        until(lambda: counts(ledger, t.job.c.state).get("done", 0) >= 1)
        os.kill(pid, signal.SIGKILL)
        second = until(lambda: (now := driver_pid(ledger)) != pid and now)
        first.kill()
        first.wait()
        until(lambda: driver_pid(ledger) is None, 10)  # it dies with whoever started it
        third = dispatcher(ledger, tmp_path)
        assert until(lambda: driver_pid(ledger)) != second
        found = sciagent("run", "elsewhere", "--submit", "--wait", "--json", cwd=tmp_path, **env(ledger))
        assert (found["state"], found["rungs"][-1]["done"], state(ledger)) == ("finished", 8, ("finished", False))
        third.terminate()
        assert third.wait(timeout=60) == 0
    whole(ledger, 8)
    assert (tmp_path / "reports" / "elsewhere.report.html").exists()
    with ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.max(t.job.c.attempts))).scalar_one() == 1
        # one that was killed is taken for dead when it has not been heard of for a while
        assert {one.pid for one in workers_and_capacity.alive(connection)} <= {first.pid}


@pytest.mark.slow
def test_a_dispatcher_that_is_told_to_stop_goes_on_later_and_a_person_s_stop_lasts(
    ledger: Ledger, tmp_path: Path
) -> None:
    written(ledger, tmp_path, molecules(4), settings="{seconds: 0.2, declared: 5}")
    submit(ledger, tmp_path)
    first = dispatcher(ledger, tmp_path)
    until(lambda: counts(ledger, t.job.c.state).get("queued"))
    first.terminate()
    assert first.wait(timeout=60) == 0
    assert state(ledger) == ("interrupted", True) and driver_pid(ledger) is None
    second = dispatcher(ledger, tmp_path)
    until(lambda: driver_pid(ledger))
    sciagent("stop", "elsewhere", "--now", cwd=tmp_path, **env(ledger))
    until(lambda: state(ledger) == ("interrupted", False))
    assert b"elsewhere" in (tmp_path / "dispatcher.log").read_bytes()
    submit(ledger, tmp_path)
    with working(ledger, tmp_path):
        until(lambda: state(ledger) == ("finished", False))
    second.terminate()
    assert second.wait(timeout=60) == 0
    whole(ledger, 4)


def test_a_campaign_that_waits_for_a_dispatcher_can_be_stopped(ledger: Ledger, tmp_path: Path) -> None:
    written(ledger, tmp_path, molecules(1))
    submit(ledger, tmp_path)
    assert state(ledger) == ("created", True)
    assert sciagent("stop", "elsewhere", "--json", cwd=tmp_path, **env(ledger))["driver"] is None
    assert state(ledger) == ("created", False)
    sciagent("stop", "elsewhere", cwd=tmp_path, expect=2, **env(ledger))


def test_a_name_that_another_program_wrote_into_the_ledger_is_no_option_of_the_driver(
    ledger: Ledger, tmp_path: Path
) -> None:
    row = written(ledger, tmp_path, molecules(1)).row
    with ledger.begin() as connection:
        connection.execute(sa.update(t.campaign).values(name="--allow=/tmp/list", hosted=True))
    started = list[str]()

    def command(name: str) -> list[str]:
        started.append(name)
        return ["true"]

    new = NewWorker("dispatcher", "host", os.getpid(), "dispatcher", ("simulation",), 0)
    executor = executor_of("ledger", ledger, None)
    assert executor is not None
    host = Host(ledger, new, executor, command, tmp_path)
    thread = threading.Thread(target=host.serve)
    thread.start()
    try:

        def trouble() -> str | None:
            with ledger.read() as connection:
                return campaigns.trouble(connection, row.id)

        assert "'--allow=/tmp/list' is no name of a campaign" in until(trouble)
    finally:
        host.request_stop()
        thread.join(timeout=60)
    assert started == []


@pytest.mark.parametrize(("code", "is_given_up"), [(1, True), (75, False)])
def test_a_driver_that_lost_the_ledger_is_started_again_and_one_that_fails_is_given_up(
    code: int, is_given_up: bool, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher_of_driver_processes, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(dispatcher_of_driver_processes, "LOOK_SECONDS", 0.02)
    written(ledger, tmp_path, molecules(1))
    submit(ledger, tmp_path)
    starts = tmp_path / "starts"
    command = ["sh", "-c", f"echo >> {starts}; exit {code}"]
    new = NewWorker("d", "here", os.getpid(), "dispatcher", (), 1)
    host = Host(ledger, new, Executor(), lambda name: command, tmp_path)
    thread = threading.Thread(target=host.serve)
    thread.start()
    most = dispatcher_of_driver_processes.MAX_FAILURES
    until(lambda: starts.exists() and len(starts.read_text().splitlines()) >= most + (0 if is_given_up else 2))
    if is_given_up:
        until(lambda: state(ledger) == ("created", False))
    host.request_stop()
    thread.join()
    assert state(ledger) == ("created", not is_given_up)
