"""Jobs that workers elsewhere run: to the end once, whoever dies, hangs, is cut off or is told to stop meanwhile."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
import urllib.request
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.domain.campaigns.directives import Verb
from sciagent.domain.jobs.states import AttemptState, JobState
from sciagent.errors import SchemaVersionError
from sciagent.execution.station import Station
from sciagent.execution.worker.checkpoints import scratch_of
from sciagent.execution.worker.registration import reap
from sciagent.execution.worker.runner import Runner
from sciagent.store.campaign_state import directives
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import jobs, workers
from sciagent.store.job_queue.workers import NewWorker
from sciagent.store.views import queries
from tests.support.elsewhere import (
    again,
    counts,
    driven,
    driver,
    molecules,
    processes,
    running,
    until,
    whole,
    worker,
    working,
    written,
)
from tests.support.plugins import misbehaving  # noqa: F401

pytestmark = pytest.mark.usefixtures("misbehaving")


def test_a_campaign_runs_on_workers_that_find_its_jobs_in_the_ledger(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(70))
    with working(ledger, tmp_path):
        assert driven(built) == "finished"
    whole(ledger, 70)
    with ledger.read() as connection:
        spent = queries.spent(connection, built.row.id)["core_seconds"]
        found = connection.execute(sa.select(t.attempt.c.owner, t.attempt.c.cost, t.attempt.c.job_id)).all()
        assert spent == pytest.approx(sum(cost.get("core_seconds", 0.0) for _, cost, _ in found))
        assert {owner.split("/")[0] for owner, _, job_id in found if job_id} == {"here"}
        assert workers.alive(connection) == []
        n_seen = connection.execute(sa.select(sa.func.count()).select_from(t.cost_observation)).scalar_one()
        assert n_seen == 70


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_candidate_that_cannot_be_made_is_lost_alone_and_blocks_nobody(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(3))
    j, runner = t.job.c, Runner(ledger, "here/0", ["simulation"], tmp_path / "work")
    with ledger.begin() as connection:
        workers.register(connection, NewWorker("here", "host", os.getpid(), "ledger", ("simulation",), 3))
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, j.state).get("queued", 0) == 3)
        with ledger.begin() as connection:
            urgent = connection.execute(sa.select(j.id, j.candidate_id).order_by(j.priority.desc(), j.id)).first()
            spoilt = sa.update(t.candidate).where(t.candidate.c.id == urgent.candidate_id)
            connection.execute(spoilt.values(standardiser="of another day", payload={}))
        assert [runner.run_next() for _ in range(3)] == [0, 1, 1]
        assert counts(ledger, j.state) == {"done": 2, "running": 1}
        with ledger.begin() as connection:
            until_ = connection.execute(sa.select(j.lease_until).where(j.id == urgent.id)).scalar_one()
            past = until_ - timedelta(hours=1)
            connection.execute(sa.update(t.job).where(j.id == urgent.id).values(lease_until=past))
        assert [(lost.job_id, lost.state) for lost in reap(ledger)] == [(urgent.id, JobState.QUEUED)]
        one.abort()
        until(one.step)
    runner.close()
    assert counts(ledger, j.losses) == {"0": 2, "1": 1}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_driver_that_comes_back_takes_in_what_was_done_meanwhile(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(6), settings="{seconds: 0.2, declared: 5}")
    with driver(built) as first:
        until(lambda: first.step() or counts(ledger, t.job.c.state).get("queued", 0) >= 1)
        first.abort()
        while first.step() is None:
            pass
    assert counts(ledger, t.job.c.queue, t.job.c.queue.is_not(None)) == {}  # nothing more is to be started
    with working(ledger, tmp_path):
        with driver(again(ledger)) as second:
            until(lambda: second.step() or counts(ledger, t.job.c.state).get("running", 0) >= 1)
            # killed: nobody says goodbye
            second._heart._stop.set()
            second.intake.source.close()
            second._worker.close()
            second._pool.close()
            with ledger.begin() as connection:
                connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))
            until(lambda: counts(ledger, t.job.c.state).get("done", 0) >= 1)
            second._heart.lost.set()
        assert driven(again(ledger)) == "finished"
    whole(ledger, 6)
    with ledger.read() as connection:
        assert connection.execute(sa.select(sa.func.max(t.job.c.attempts))).scalar_one() == 1


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_job_that_kills_whoever_forks_it_is_quarantined_after_two(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(5)
    built = written(ledger, tmp_path, smiles, settings=f"{{kill_at: {smiles[2]}, declared: 5}}")
    with working(ledger, tmp_path):
        assert driven(built) == "finished"
    assert counts(ledger, t.job.c.state) == {"done": 4, "quarantined": 1}
    with ledger.read() as connection:
        bad = connection.execute(sa.select(t.job).where(t.job.c.state == "quarantined")).mappings().one()
        assert (bad["kills"], bad["attempts"]) == (2, 2)
        place = connection.execute(sa.select(t.campaign_candidate).where(t.campaign_candidate.c.standing == "dropped"))
        (row,) = place.mappings().all()
        assert (row["verdict"], row["reason"]) == ("error", "kills_workers")


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_hanging_job_is_ended_at_its_limit_with_its_children(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(2)
    built = written(
        ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}", limits="{wall_seconds: 2}"
    )
    with working(ledger, tmp_path):
        assert driven(built) == "finished"
    assert counts(ledger, t.job.c.state) == {"done": 1, "failed": 1}
    assert counts(ledger, t.attempt.c.outcome, t.attempt.c.state == "failed") == {"timeout": 1}
    assert [p for p in processes("import time; time.sleep(1000)")] == []


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_cancelling_what_runs_takes_less_than_three_seconds_and_leaves_nothing(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(1)
    built = written(ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}")
    with working(ledger, tmp_path), driver(built) as one:
        until(lambda: one.step() or processes("import time; time.sleep(1000)"))
        (job_id,) = running(ledger)
        began = time.monotonic()
        with ledger.begin() as connection:
            assert jobs.request_cancel(connection, [job_id]) == ([], [job_id])
        until(lambda: counts(ledger, t.job.c.state) == {"cancelled": 1} and not processes("time.sleep(1000)"), 10)
        took = time.monotonic() - began
        one.abort()
        while one.step() is None:
            pass
    assert took < 3.0
    with ledger.read() as connection:
        attempt = connection.execute(sa.select(t.attempt).where(t.attempt.c.job_id == job_id)).mappings().one()
        assert attempt["state"] == AttemptState.CANCELLED and attempt["cost"]["core_seconds"] > 0


def test_who_stops_a_campaign_now_ends_what_runs_elsewhere_and_it_waits(ledger: Ledger, tmp_path: Path) -> None:
    smiles = molecules(4)
    built = written(ledger, tmp_path, smiles, settings=f"{{hang_at: {smiles[0]}, declared: 5}}")
    with working(ledger, tmp_path, slots=1), driver(built) as one:
        until(lambda: one.step() or processes("import time; time.sleep(1000)"))
        with ledger.begin() as connection:
            directives.write(connection, built.row.id, Verb.STOP, "ann", "", payload={"now": True})
        began = time.monotonic()
        until(lambda: one.step() is not None)
        until(lambda: not processes("import time; time.sleep(1000)"), 10)
        took = time.monotonic() - began
    assert took < 3.0
    states = counts(ledger, t.job.c.state)
    assert states.pop("queued") >= 1 and not states.keys() - {"done"}
    assert counts(ledger, t.job.c.queue, t.job.c.state == "queued") == {"None": counts(ledger, t.job.c.state)["queued"]}
    with ledger.read() as connection:
        query = sa.select(t.attempt.c.state, t.attempt.c.cost, t.job.c.kills, t.job.c.losses)
        query = query.join(t.job, t.job.c.id == t.attempt.c.job_id).where(t.job.c.state == "queued")
        (attempt,) = connection.execute(query).all()
        spent = queries.spent(connection, built.row.id)["core_seconds"]
    assert (attempt.state, attempt.kills, attempt.losses) == ("cancelled", 0, 0)
    assert attempt.cost["core_seconds"] > 0 and spent >= attempt.cost["core_seconds"]


def test_what_comes_back_too_late_is_refused_and_counted(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{seconds: 1.5, declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        slow = Runner(ledger, "slow/0", ("simulation",), tmp_path / "slow")
        quick = Runner(ledger, "quick/0", ("simulation",), tmp_path / "quick")
        thread = threading.Thread(target=slow.run_next)
        thread.start()
        (job_id,) = until(lambda: running(ledger))
        until(lambda: slow._keeper._held)[0].claims.clear()  # cut off: it hears nothing, and nobody hears of it
        with ledger.begin() as connection:
            connection.execute(sa.update(t.job).values(lease_until=t.job.c.created_at))
        assert [found.state for found in reap(ledger)] == [JobState.QUEUED]
        assert quick.run_next() == 1
        thread.join(timeout=30)
        slow.close()
        quick.close()
        while one.step() is None:
            pass
    whole(ledger, 1)
    assert counts(ledger, t.attempt.c.state, t.attempt.c.job_id == job_id) == {"done": 1, "stale": 1}
    assert counts(ledger, t.attempt.c.owner, t.attempt.c.state == "stale") == {"slow/0": 1}


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_another_worker_goes_on_from_the_checkpoint_and_pays_less(ledger: Ledger, tmp_path: Path) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{steps: 8, seconds: 0.4, declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        killed = worker(ledger, tmp_path)
        done = scratch_of(ledger.artifacts) / "checkpoints"
        until(lambda: [p for p in done.glob("*/fence-1/done") if int(p.read_text() or 0) >= 4])
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        with ledger.begin() as connection:  # what a lease of a minute would do
            connection.execute(sa.update(t.job).values(lease_until=t.job.c.created_at))
        with working(ledger, tmp_path):
            reap(ledger)
            while one.step() is None:
                pass
    whole(ledger, 1)
    paid = sa.and_(t.attempt.c.state == "done", t.attempt.c.job_id.is_not(None))
    with ledger.read() as connection:
        said = connection.execute(
            sa.select(t.evidence.c.diagnostics).where(t.evidence.c.verifier == "bad.remote")
        ).scalar_one()
        cost = connection.execute(sa.select(t.attempt.c.cost).where(paid)).scalar_one()
    assert said["began_at"] >= 4
    assert cost["core_seconds"] < 8 * 0.4
    assert list(done.glob("*")) == []


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_worker_that_lacks_the_verifier_leaves_the_job_to_others(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = written(ledger, tmp_path, molecules(1), settings="{declared: 5}")
    with driver(built) as one:
        until(lambda: one.step() or counts(ledger, t.job.c.state) == {"queued": 1})
        poor = Runner(ledger, "poor/0", ("simulation",), tmp_path / "poor")
        with ledger.begin() as connection:
            connection.execute(sa.update(t.rung).values(verifier_version="2"))
        assert poor.run_next() == 0 and poor.run_next() == 0
        poor.close()
        with ledger.begin() as connection:
            connection.execute(sa.update(t.rung).values(verifier_version="1"))
        with working(ledger, tmp_path):
            while one.step() is None:
                pass
    whole(ledger, 1)
    with ledger.read() as connection:
        event = connection.execute(sa.select(t.event.c.payload).where(t.event.c.kind == "worker_cannot")).scalar_one()
    assert "version 1 here" in event["why"] and event["worker"] == "poor/0"


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
            (row,) = workers.alive(connection)
            (held,) = workers.running(connection)
        assert (row.name, row.slots, row.queues) == ("bench-7", 1, ("simulation",))
        assert (held.owner, held.campaign, held.rung) == ("bench-7/0", "elsewhere", "remote")
        address = re.search(r"http://\S+", (tmp_path / "worker.log").read_text())
        with urllib.request.urlopen(address[0], timeout=10) as answer:
            assert re.search(r'sciagent_worker_memory_bytes\{worker="bench-7"\} [\d.e+]{6,}', answer.read().decode())
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        until(lambda: one.step() or counts(ledger, t.job.c.state).get("done") == 1)
        with ledger.begin() as connection:
            assert workers.alive(connection) == []
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
    station = Station(ledger, new, tmp_path / "scratch")
    changed = threading.Timer(0.5, change_schema, (ledger,))
    changed.start()
    with pytest.raises(SchemaVersionError, match="sciagent db upgrade"):
        station.serve()
    changed.join()


def change_schema(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        connection.execute(sa.text("ALTER TABLE job RENAME COLUMN losses TO vanished"))
        connection.execute(sa.text("ALTER TABLE job RENAME COLUMN seconds TO expected"))
