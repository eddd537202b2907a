"""What people see of jobs and workers, and what they decide about them, as it is typed."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.build import Built
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.states import AttemptState, JobState, Standing
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.report.live.metrics import LedgerCollector
from sciagent.store.campaign_state import standings
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, jobs, offers, reservations, workers
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.leases import Claim, JobEnd
from sciagent.store.job_queue.workers import NewWorker
from sciagent.store.results import candidates
from tests.support import rows
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.elsewhere import counts, molecules, written
from tests.support.plugins import misbehaving  # noqa: F401

pytestmark = pytest.mark.usefixtures("misbehaving")
ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


@pytest.fixture
def built(ledger: Ledger, tmp_path: Path, misbehaving: Path) -> Built:  # noqa: F811
    """Six jobs that wait for workers, the later the more urgent."""
    found = written(ledger, tmp_path, molecules(6))
    made = [parse_molecule(one) for one in molecules(6)]
    rung = found.paid[0]
    with ledger.begin() as connection:
        ids = candidates.enter(connection, made)
        places = [{"candidate_id": ids[m.key], "in_seeds": False} for m in made]
        standings.add(connection, found.row.id, places)
        waits = {"standing": Standing.PENDING, "position": rung.rules.position}
        standings.update_alike(connection, found.row.id, list(ids.values()), **waits)
        new = [
            NewJob(found.row.id, rung.id, ids[m.key], 0, rung.verifier.evidence_key(m).hash, float(i))
            for i, m in enumerate(made)
        ]
        made_ids = jobs.create_many(connection, new)
        reservations.reserve_many(connection, found.row.id, {one: {"core_seconds": 2.0} for one in made_ids})
        offers.offer_many(connection, dict.fromkeys(made_ids, Offer("simulation", None, None)))
        workers.register(connection, NewWorker("node7:1:ab", "node7", 1, "ledger", ("simulation",), 2, 8000))
    return found


def claimed(ledger: Ledger, owner: str = "node7:1:ab/0") -> Claim:
    with ledger.begin() as connection:
        (one,) = offers.claim_next(connection, ["simulation"], owner)
    return one


def ended(ledger: Ledger, one: Claim, state: JobState, reason: Reason, kills: int = 0) -> None:
    with ledger.begin() as connection:
        end = AttemptEnd(one.attempt_id, AttemptState.FAILED, Cost(), 1.0, Outcome.CRASHED, reason, "so it was")
        attempts.end_many(connection, [end])
        rows.finish_many(connection, [JobEnd(one, state, Outcome.CRASHED, kills)])


def test_jobs_are_listed_in_pages_and_counted(ledger: Ledger, built: Built, typed: Typed) -> None:  # noqa: F811
    ended(ledger, claimed(ledger), JobState.QUARANTINED, Reason.SIGNAL, kills=2)
    one = claimed(ledger)
    found = typed.data("jobs", "elsewhere", "--limit", "4")
    assert [job["state"] for job in found["jobs"]] == ["running", "queued", "queued", "queued"]
    assert [job["id"] for job in found["jobs"]] == [one.job_id, 4, 3, 2]
    assert found["counts"] == {"running": 1, "queued": 4, "quarantined": 1} and found["next"] == 2
    rest = typed.data("jobs", "elsewhere", "--limit", "4", "--after", "2")
    assert [(job["id"], job["state"]) for job in rest["jobs"]] == [(1, "queued"), (6, "quarantined")]
    assert rest["next"] is None
    (bad,) = typed.data("jobs", "--state", "quarantined")["jobs"]
    assert (bad["outcome"], bad["reason"], bad["kills"], bad["worker"]) == ("crashed", "signal", 2, "node7:1:ab/0")
    text = typed.told("jobs", "--rung", "remote")
    assert "crashed: signal" in text and "1 (2 killed)" in text and "queued at simulation" in text
    assert text.splitlines()[-1] == "1 running, 4 queued, 1 quarantined"
    narrow = typed.told("jobs", width=80).splitlines()
    assert max(map(len, narrow)) <= 80 and "…" not in " ".join(narrow)
    assert 'did you mean "queued"' in typed.refused("jobs", "--state", "queud")
    assert 'did you mean "remote"' in typed.refused("jobs", "--rung", "remot")
    assert "there is no such job" in typed.refused("jobs", "--after", "99")


@ON_SQLITE
def test_workers_say_who_lives_runs_what_and_which_queue_nobody_serves(
    ledger: Ledger,
    built: Built,
    typed: Typed,  # noqa: F811
) -> None:
    one = claimed(ledger)
    with ledger.begin() as connection:
        workers.register(connection, NewWorker("old:2:cd", "old", 2, "celery", ("high_fidelity",), 4))
        workers.stopped(connection, "old:2:cd")
        long_ago = db_now(connection) - timedelta(hours=5)
        connection.execute(sa.update(t.worker).where(t.worker.c.name == "node7:1:ab").values(started_at=long_ago))
        offers.offer_many(connection, {1: Offer("high_fidelity", None, None)})
    text = typed.told("workers")
    assert "node7:1:ab on node7 (ledger): 2 slots, 8 GB for simulation; up 5 h, seen " in text
    assert re.search(rf"node7:1:ab/0: job {one.job_id}, elsewhere remote, \S+, \d s", text)
    assert "old:2:cd" not in text
    assert "queue simulation: 4 wait, the oldest for" in text and "2 slots serve it" in text
    assert "nobody serves queue high_fidelity: sciagent worker --tier high_fidelity" in text
    text = typed.told("workers", "--all")
    assert "old:2:cd on old (celery): 4 slots for high_fidelity" in text and ", stopped" in text
    found = typed.data("workers", "--all")
    assert [(w["name"], w["alive"], len(w["running"])) for w in found["workers"]] == [
        ("node7:1:ab", True, 1),
        ("old:2:cd", False, 0),
    ]
    assert found["queues"][0] | {"oldest": None} == {"queue": "simulation", "depth": 4, "oldest": None, "slots": 2}


@ON_SQLITE
def test_a_worker_is_drained_and_takes_jobs_again(ledger: Ledger, built: Built, typed: Typed) -> None:  # noqa: F811
    claimed(ledger)
    assert "node7:1:ab takes nothing new; it finishes 1 job\n" in typed.told("drain", "node7:1:ab")
    assert ", draining" in typed.told("workers") and "0 slots serve it" in typed.told("workers")
    assert typed.data("drain", "node7:1:ab", "--undo")["draining"] is False
    assert 'unknown worker "node7:1:ac"; did you mean "node7:1:ab"' in typed.refused("drain", "node7:1:ac")


def test_jobs_are_cancelled_held_and_tried_again(ledger: Ledger, built: Built, typed: Typed) -> None:  # noqa: F811
    one = claimed(ledger)
    text = typed.told("cancel", "5", str(one.job_id), "--reason", "wrong charge", "--who", "ann")
    assert "job 5 (remote, " in text and "cancelled; nobody had begun it" in text and "its worker is told" in text
    assert "to let it go on: sciagent release " in text
    assert counts(ledger, t.job.c.state) == {"cancelled": 1, "queued": 4, "running": 1}
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "pending": 5}
    assert "cancelling" in typed.told("jobs", "--state", "running")
    assert typed.call("cancel", "5").exit_code == 1
    assert "there is no job 99 in this ledger; nothing was done" in typed.refused("cancel", "4", "99")
    assert "name jobs by their numbers" in typed.refused("cancel")
    assert "4 queued" in typed.told("jobs")
    with ledger.read() as connection:
        key = connection.execute(
            sa.select(t.candidate.c.key).join(t.job, t.job.c.candidate_id == t.candidate.c.id).where(t.job.c.id == 4)
        ).scalar_one()
    (found,) = typed.data("cancel", "--campaign", "elsewhere", "--candidate", key[:12])
    assert (found["job_id"], found["done"], found["held"]) == (4, "cancelled", True)
    assert "has no job in campaign" in typed.refused("cancel", "--candidate", key[:12])
    with ledger.begin() as connection:  # the fast rungs have passed them, in a campaign that really ran
        connection.execute(sa.update(t.campaign_candidate).values(position=built.paid[0].rules.position))
    text = typed.told("retry", "4", "3")
    assert "job 4 (remote, " in text and "is tried again" in text and "it is queued, not over" in text
    assert "1 to be tried again, 1 left as they are" in text
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "pending": 5}
    assert typed.data("jobs", "--state", "queued")["jobs"][0]["id"] == 4  # at the front, for it was named


@ON_SQLITE
def test_what_gave_up_in_a_campaign_is_tried_again(ledger: Ledger, built: Built, typed: Typed) -> None:  # noqa: F811
    for state, reason in ((JobState.FAILED, Reason.WORKER_DIED), (JobState.QUARANTINED, Reason.SIGNAL)):
        ended(ledger, claimed(ledger), state, reason)
    with ledger.begin() as connection:
        of = [one.candidate_id for one in connection.execute(sa.select(t.job.c.candidate_id).where(t.job.c.id > 4))]
        fallen = {"standing": Standing.DROPPED, "verdict": "error", "reason": "signal", "detail": ""}
        standings.update_alike(connection, built.row.id, of, **fallen)
    typed.told("veto", molecules(6)[4], "--reason", "no")
    text = typed.told("retry", "--campaign", "elsewhere")
    assert "its candidate is vetoed by" in text and "1 to be tried again, 1 left as they are" in text
    found = typed.data("retry", "--campaign", "elsewhere", "--state", "cancelled")
    assert found == {"queued": 0, "left": 0, "jobs": []}
    with ledger.read() as connection:
        row = connection.execute(sa.select(t.job).where(t.job.c.id == 6)).mappings().one()
        assert (row["state"], row["priority"], row["queue"], row["kills"]) == ("queued", 5.0, None, 0)
        assert reservations.reserved(connection, built.row.id) == {
            "core_seconds": 8.0
        }  # made when a driver takes it up
    assert 'unknown state "done"' in typed.refused("retry", "--campaign", "elsewhere", "--state", "done")
    assert "--state goes with --campaign" in typed.refused("retry", "5", "--state", "failed")


@ON_SQLITE
def test_what_workers_have_and_jobs_hold_is_shown(ledger: Ledger, built: Built, typed: Typed) -> None:  # noqa: F811
    able = NewWorker("gpu1:5:ef", "gpu1", 5, "ledger", ("simulation",), 4, None, 8, {"gpu": 2, "gaussian": 4})
    with ledger.begin() as connection:
        workers.register(connection, able)
        offers.restate_needs(connection, {built.paid[0].id: "cores=3 gaussian=1 gpu=1"})
        (one,) = offers.claim_next(connection, ["simulation"], "gpu1:5:ef/0", worker=able)
        offers.restate_needs(connection, {built.paid[0].id: "cores=9"})
    text = typed.told("workers")
    assert text.splitlines()[-1] == (
        "no worker of queue simulation can ever hold a job that needs 9 cores: the most cores that a worker has are 8"
    )
    assert "gpu1:5:ef on gpu1 (ledger): 4 slots, 8 cores, 2 gpu, 4 gaussian for simulation" in text
    assert re.search(rf"job {one.job_id}, .*, holds 3 cores, 1 gaussian, GPU 0, \d s", text)
    found = {each["name"]: each for each in typed.data("workers")["workers"]}
    assert (found["gpu1:5:ef"]["cores"], found["gpu1:5:ef"]["resources"]) == (8, {"gpu": 2, "gaussian": 4})
    assert found["gpu1:5:ef"]["running"][0]["holds"] == {"cores": 3, "gaussian": 1, "gpu": [0]}
    assert "gpu 1 of 2, gaussian 1 of 4" in typed.told("top", "--once")
    used = {m.name: {tuple(s.labels.values()): s.value for s in m.samples} for m in LedgerCollector(ledger).collect()}
    assert used["sciagent_worker_resource_used"]["gpu1:5:ef", "gpu1", "ledger", "cores"] == 3
    assert used["sciagent_worker_resource"]["gpu1:5:ef", "gpu1", "ledger", "gpu"] == 2


@ON_SQLITE
@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("gpu", "NAME=N"),
        ("gpu=two", "NAME=N"),
        ("cores=4", "say --cores 4"),
        ("GPU=1", "is no name"),
        ("gpu=0", "1 to"),
    ],
)
def test_a_worker_says_what_it_has_in_few_words(ledger: Ledger, typed: Typed, said: str, message: str) -> None:  # noqa: F811
    assert message in typed.refused("worker", "--resource", said)
