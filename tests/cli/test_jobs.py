"""What people see of jobs and workers, and what they decide about them, as it is typed."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import AttemptState, JobState, ReportedProgress, Standing
from sciagent.store.campaign_state import campaigns, candidate_standings
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, leases, reservations_and_bookings
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import Claim, JobEnd
from tests.support import rows
from tests.support.commands import Typed, typed  # noqa: F401
from tests.support.elsewhere import counts, molecules
from tests.support.waiting_jobs import claimed, six_jobs  # noqa: F401

ON_SQLITE = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


def ended(ledger: Ledger, one: Claim, state: JobState, reason: Reason, kills: int = 0) -> None:
    with ledger.begin() as connection:
        end = AttemptEnd(one.attempt_id, AttemptState.FAILED, Cost(), 1.0, Outcome.CRASHED, reason, "so it was")
        attempts.end_many(connection, [end])
        rows.finish_many(connection, [JobEnd(one, state, Outcome.CRASHED, kills)])


def test_jobs_are_listed_in_pages_and_counted(ledger: Ledger, six_jobs: Built, typed: Typed) -> None:  # noqa: F811
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


def test_a_job_tells_how_far_it_is(ledger: Ledger, six_jobs: Built, typed: Typed) -> None:  # noqa: F811
    """Until it ends; `jobs`, `status`, `workers` and the JSON of each say the same."""
    one = claimed(ledger)
    progress = ReportedProgress(30.0, 40.0, "replica 2 of 3", remaining_seconds=600.0)
    with ledger.begin() as connection:
        leases.report_progress(connection, {one.attempt_id: progress})
    words = "75 %, 10 min left: replica 2 of 3"
    assert progress.words == words
    for command in (("jobs",), ("workers",), ("status", "elsewhere")):
        assert words in typed.told(*command), command
    first, *others = typed.data("jobs")["jobs"]
    assert (first["progress"]["done"], first["progress"]["of"]) == (30.0, 40.0)
    assert [job["progress"] for job in others] == [None] * 5
    [told] = typed.data("status", "elsewhere")["progress"]
    assert (told["job"], told["rung"]) == (one.job_id, "remote")
    assert told["remaining_seconds"] == pytest.approx(600.0, abs=30)
    assert told["reported_at"] >= told["started_at"]
    ended(ledger, one, JobState.FAILED, Reason.EXCEPTION)
    with ledger.begin() as connection:
        leases.report_progress(connection, {one.attempt_id: ReportedProgress(31.0, 40.0)})  # too late
    assert "progress" not in typed.data("status", "elsewhere")
    assert typed.data("jobs", "--state", "failed")["jobs"][0]["progress"]["done"] == 30.0
    assert "crashed: exception" in typed.told("jobs") and words not in typed.told("jobs")


def test_jobs_are_cancelled_held_and_tried_again(ledger: Ledger, six_jobs: Built, typed: Typed) -> None:  # noqa: F811
    one = claimed(ledger)
    text = typed.told("cancel", "5", str(one.job_id), "--reason", "wrong charge", "--who", "ann")
    assert "job 5 (remote, " in text and "cancelled; nobody had begun it" in text and "its worker is told" in text
    assert "to let it go on: sciagent hold " in text
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
        connection.execute(sa.update(t.campaign_candidate).values(position=six_jobs.paid[0].rules.position))
    text = typed.told("retry", "4", "3")
    assert "job 4 (remote, " in text and "is tried again" in text and "it is queued, not over" in text
    assert "1 to be tried again, 1 left as they are" in text
    assert counts(ledger, t.campaign_candidate.c.standing) == {"held": 1, "pending": 5}
    assert typed.data("jobs", "--state", "queued")["jobs"][0]["id"] == 4  # at the front, for it was named


@ON_SQLITE
def test_what_gave_up_in_a_campaign_is_tried_again(ledger: Ledger, six_jobs: Built, typed: Typed) -> None:  # noqa: F811
    for state, reason in ((JobState.FAILED, Reason.WORKER_DIED), (JobState.QUARANTINED, Reason.SIGNAL)):
        ended(ledger, claimed(ledger), state, reason)
    with ledger.begin() as connection:
        of = [one.candidate_id for one in connection.execute(sa.select(t.job.c.candidate_id).where(t.job.c.id > 4))]
        fallen = {"standing": Standing.DROPPED, "verdict": "error", "reason": "signal", "detail": ""}
        candidate_standings.update_alike(connection, six_jobs.row.id, of, **fallen)
    typed.told("veto", molecules(6)[4], "--reason", "no")
    text = typed.told("retry", "--campaign", "elsewhere")
    assert "its candidate is vetoed by" in text and "1 to be tried again, 1 left as they are" in text
    found = typed.data("retry", "--campaign", "elsewhere", "--state", "cancelled")
    assert found == {"queued": 0, "left": 0, "jobs": [], "candidates": []}
    told = typed.told("retry", "--campaign", "elsewhere", "--state", "failed", "--state", "dropped")
    assert "nothing to try again in campaign elsewhere: it has no job that is failed, and no candidate" in told
    with ledger.read() as connection:
        row = connection.execute(sa.select(t.job).where(t.job.c.id == 6)).mappings().one()
        assert (row["state"], row["priority"], row["queue"], row["kills"]) == ("queued", 5.0, None, 0)
        assert reservations_and_bookings.reserved(connection, six_jobs.row.id) == {
            "core_seconds": 8.0
        }  # made when a driver takes it up
    assert 'unknown state "done"' in typed.refused("retry", "--campaign", "elsewhere", "--state", "done")
    assert "--state goes with --campaign" in typed.refused("retry", "5", "--state", "failed")
    told = typed.refused("retry", "elsewhere")
    assert 'named by their numbers, not "elsewhere"' in told and "sciagent retry --campaign NAME" in told


@ON_SQLITE
def test_candidates_that_an_error_dropped_at_a_fast_rung_are_computed_again(
    ledger: Ledger,
    six_jobs: Built,  # noqa: F811
    typed: Typed,  # noqa: F811
) -> None:
    fast = six_jobs.fast[-1]
    with ledger.begin() as connection:
        ids = [one.candidate_id for one in connection.execute(sa.select(t.job.c.candidate_id).order_by(t.job.c.id))]
        lost = {"standing": Standing.DROPPED, "verdict": "error", "reason": "worker_died", "detail": "it died"}
        candidate_standings.update_alike(
            connection, six_jobs.row.id, ids[:2], position=fast.rules.position, depth=-1, **lost
        )
    found = typed.data("retry", "--campaign", "elsewhere", "--state", "dropped", "--who", "ann")
    assert [(one["rung"], one["standing"], one["reason"]) for one in found["candidates"]] == [
        (fast.spec.rung, "open", None)
    ] * 2
    assert counts(ledger, t.campaign_candidate.c.standing) == {"open": 2, "pending": 4}
    with ledger.begin() as connection:
        candidate_standings.update_alike(
            connection, six_jobs.row.id, ids[:1], position=fast.rules.position, depth=-1, **lost
        )
        campaigns.take_driver(connection, six_jobs.row.id, campaigns.new_owner())
    told = typed.refused("retry", "--campaign", "elsewhere", "--state", "dropped")
    assert "stop it first: sciagent stop elsewhere" in told
    with ledger.begin() as connection:
        connection.execute(sa.update(t.campaign).values(driver=None, driver_until=None))
    told = typed.told("retry", "--campaign", "elsewhere")
    assert "1 candidate that an error had dropped was computed again: 1 open" in told
