"""A worker that looks into the ledger by itself, in threads of this process and as a command."""

from __future__ import annotations

import json
import re
import signal
import threading
import urllib.request
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.errors import LedgerReplacedError, SchemaVersionError
from sciagent.execution.polling_worker import PollingWorker
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, workers_and_capacity
from sciagent.store.job_queue.workers_and_capacity import NewWorker
from sciagent.store.views import campaign_counts_and_remarks
from tests.support.elsewhere import counts, driven, driver, molecules, running, until, whole, worker, working, written


def test_a_campaign_runs_on_workers_that_find_its_jobs_in_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(30))
    with working(ledger, tmp_path):
        assert driven(built) == "finished"
    whole(ledger, 30)
    with ledger.read() as connection:
        spent = campaign_counts_and_remarks.spent(connection, built.row.id)["core_seconds"]
        found = connection.execute(sa.select(t.attempt.c.owner, t.attempt.c.cost, t.attempt.c.job_id)).all()
        by_script = connection.execute(sa.select(t.spend.c.amount).where(t.spend.c.rung_id.is_(None))).scalars()
        by_jobs = sum(cost.get("core_seconds", 0.0) for _, cost, _ in found)
        assert spent == pytest.approx(by_jobs + sum(by_script))
        assert {owner.split("/")[0] for owner, _, job_id in found if job_id} == {"here"}
        assert workers_and_capacity.alive(connection) == []
        n_seen = connection.execute(sa.select(sa.func.count()).select_from(t.cost_observation)).scalar_one()
        assert n_seen == 30


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_the_worker_of_the_command_line_finishes_what_it_runs_and_says_goodbye(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(3), settings="{seconds: 1, declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("queued"))
        process = worker(
            ledger, tmp_path, "--tier", "simulation", "--name", "bench-7", "--slots", "1", "--metrics-port", "0"
        )
        until(lambda: running(ledger))
        with ledger.read() as connection:
            (row,) = workers_and_capacity.alive(connection)
            (held,) = workers_and_capacity.running_jobs(connection)
        assert (row.name, row.slots, row.queues) == ("bench-7", 1, ("simulation",))
        assert (held.owner, held.campaign, held.rung) == ("bench-7/0", "elsewhere", "remote")
        address = re.search(r"http://\S+", (tmp_path / "worker.log").read_text())
        with urllib.request.urlopen(address[0], timeout=10) as answer:
            assert re.search(r'sciagent_worker_memory_bytes\{worker="bench-7"\} [\d.e+]{6,}', answer.read().decode())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("done") == 1)
        with ledger.begin() as connection:
            assert workers_and_capacity.alive(connection) == []
            assert jobs.queued(connection, built.row.id) == []
        one.abort()
        while one.step() is None:
            pass
    log = (tmp_path / "worker.log").read_text()
    assert "bench-7 ran 1 job" in log
    started, ended = (json.loads(line) for line in log.splitlines() if line.startswith("{"))
    about = {"campaign": "elsewhere", "job": held.job_id, "fence": 1, "worker": "bench-7/0"}
    assert started.items() >= (about | {"event": "started"}).items()
    assert ended.items() >= (about | {"event": "ended", "outcome": "ok"}).items() and ended["seconds"] > 0.9


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_worker_under_which_the_schema_changes_ends_with_an_error(ledger: Ledger, tmp_path: Path) -> None:
    new = NewWorker("old", "host", 1, "ledger", ("simulation",), 1, 8000, None, {})
    station = PollingWorker(ledger, new, tmp_path / "scratch")
    changed = threading.Timer(0.5, change_schema, (ledger,))
    changed.start()
    with pytest.raises(SchemaVersionError, match="sciagent db upgrade"):
        station.serve()
    changed.join()


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_worker_whose_ledger_is_deleted_ends_with_an_error(ledger: Ledger, tmp_path: Path) -> None:
    new = NewWorker("old", "host", 1, "ledger", ("simulation",), 1, 8000, None, {})
    station = PollingWorker(ledger, new, tmp_path / "scratch")
    deleted = threading.Timer(0.5, (tmp_path / "ledger.db").unlink)
    deleted.start()
    with pytest.raises(LedgerReplacedError, match="was deleted or moved"):
        station.serve()
    deleted.join()
    assert list(tmp_path.glob("ledger.db.rescued-*"))


@pytest.mark.long
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_worker_at_work_ends_its_job_and_itself_when_the_ledger_is_deleted(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCIAGENT_LEASE_SECONDS", "4")  # of the worker, so that it renews its leases each second
    built = written(ledger, tmp_path, molecules(1), settings="{seconds: 1000, declared: 5}")
    with pytest.raises(LedgerReplacedError, match="was deleted"), driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("queued"))
        process = worker(ledger, tmp_path, "--tier", "simulation", "--slots", "1")
        until(lambda: running(ledger))
        (tmp_path / "ledger.db").unlink()
        assert process.wait(timeout=60) == 1
        until(one.step)
    assert f"ledger.db.rescued-{process.pid}" in (tmp_path / "worker.log").read_text()


def change_schema(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        connection.execute(sa.text("ALTER TABLE job RENAME COLUMN losses TO vanished"))
        connection.execute(sa.text("ALTER TABLE job RENAME COLUMN seconds TO expected"))
