"""Jobs that any worker may take: who gets which, and what becomes of those whose workers are gone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import MAX_LOSSES, AttemptState, JobState
from sciagent.execution.worker.end_attempts import reap_expired
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import (
    attempts,
    cluster_reservations,
    jobs,
    leases,
    offers_claims_and_ended_jobs,
    reservations_and_bookings,
)
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.leases import Claim, JobEnd, LiveAttempt
from sciagent.store.job_queue.offers_claims_and_ended_jobs import OutstandingJob
from sciagent.store.views import campaign_counts_and_remarks
from tests.support import rows

GONE = -1.0  # seconds of a lease that has run out
DAY = 86400.0


def offered(
    ledger: Ledger,
    row: CampaignRow,
    n: int,
    *,
    queue: str = "simulation",
    rung: int = 1,
    seconds: float | None = None,
    memory_mb: int | None = None,
    priority: float = 0.0,
) -> list[int]:
    """n jobs, the later the more urgent, with a reservation of 2 core-seconds each."""
    with ledger.begin() as connection:
        ids = rows.entered(connection, row, n) if rung == 1 else list(range(1, n + 1))
        rung_id = campaigns.rungs(connection, row.id)[rung].id
        new = [NewJob(row.id, rung_id, one, 0, f"{rung}{one}", priority + i) for i, one in enumerate(ids)]
        made = jobs.create_many(connection, new)
        reservations_and_bookings.reserve_many(connection, row.id, {one: {"core_seconds": 2.0} for one in made})
        offers_claims_and_ended_jobs.offer_many(connection, {one: Offer(queue, seconds, memory_mb) for one in made})
    return made


def claim(ledger: Ledger, owner: str = "w/0", lease: float = 60.0, queues: tuple[str, ...] = ("simulation",), **more):
    with ledger.begin() as connection:
        claims = offers_claims_and_ended_jobs.claim_next(connection, queues, owner, **more)
        rows.lease_until(connection, claims, lease)
        return claims


def reap(ledger: Ledger) -> list[LiveAttempt]:
    with ledger.begin() as connection:
        return reap_expired(connection)


def job(ledger: Ledger, job_id: int) -> dict:
    with ledger.read() as connection:
        return dict(connection.execute(sa.select(t.job).where(t.job.c.id == job_id)).mappings().one())


def held(ledger: Ledger, row: CampaignRow) -> float:
    with ledger.read() as connection:
        return reservations_and_bookings.reserved(connection, row.id).get("core_seconds", 0.0)


def test_the_most_urgent_of_all_queues_is_taken_first(ledger: Ledger, row: CampaignRow) -> None:
    low = offered(ledger, row, 2, priority=1.0)
    high = offered(ledger, row, 2, queue="high_fidelity", rung=2, priority=1.5)
    both = ("simulation", "high_fidelity")
    taken = [claim(ledger, queues=both)[0].job_id for _ in range(4)]
    assert taken == [high[1], low[1], high[0], low[0]]
    assert claim(ledger, queues=both) == []


def test_a_worker_takes_nothing_that_it_cannot_hold_or_run_or_that_waits_outside(
    ledger: Ledger, row: CampaignRow
) -> None:
    big, small = offered(ledger, row, 2, memory_mb=2000)
    with ledger.begin() as connection:
        connection.execute(sa.update(t.job).where(t.job.c.id == small).values(memory_mb=100))
    assert [one.job_id for one in claim(ledger, memory_mb=500)] == [small]
    assert claim(ledger, memory_mb=500) == []
    assert claim(ledger, queues=("high_fidelity",)) == []
    assert claim(ledger, skip=[job(ledger, big)["rung_id"]]) == []
    with ledger.begin() as connection:
        connection.execute(sa.update(t.job).where(t.job.c.id == big).values(external="slurm 7_1"))
    assert claim(ledger) == []
    with ledger.begin() as connection:  # whoever has its number may
        assert leases.claim(connection, big, "w/1") is not None


def test_jobs_come_in_groups_where_their_verifier_says_so(ledger: Ledger, row: CampaignRow) -> None:
    made = offered(ledger, row, 10)
    other = offered(ledger, row, 2, rung=2, priority=100.0)
    with ledger.begin() as connection:
        campaigns.write_requests(connection, {campaigns.rungs(connection, row.id)[1].id: {"together": 8}})
    assert [one.job_id for one in claim(ledger)] == [other[1]]
    assert [one.job_id for one in claim(ledger)] == [other[0]]
    first, second = claim(ledger), claim(ledger)
    assert (len(first), len(second)) == (8, 2)
    assert [one.job_id for one in first + second] == made[::-1]


def test_a_job_whose_process_or_worker_died_is_claimed_alone(ledger: Ledger, row: CampaignRow) -> None:
    made = offered(ledger, row, 6)
    with ledger.begin() as connection:
        campaigns.write_requests(connection, {campaigns.rungs(connection, row.id)[1].id: {"together": 8}})
        connection.execute(sa.update(t.job).where(t.job.c.id == made[-1]).values(kills=1))
        connection.execute(sa.update(t.job).where(t.job.c.id == made[2]).values(losses=1))
    assert [one.job_id for one in claim(ledger)] == [made[-1]]
    assert [one.job_id for one in claim(ledger)] == [made[4], made[3], made[1], made[0]]
    assert [one.job_id for one in claim(ledger)] == [made[2]]


def test_a_group_takes_no_longer_than_its_slot_has(ledger: Ledger, row: CampaignRow) -> None:
    made = offered(ledger, row, 4)
    with ledger.begin() as connection:
        campaigns.write_requests(connection, {campaigns.rungs(connection, row.id)[1].id: {"together": 8}})
        connection.execute(sa.update(t.job).values(seconds=10.0))
    assert [one.job_id for one in claim(ledger, seconds=25.0)] == [made[3], made[2]]
    assert [one.job_id for one in claim(ledger)] == [made[1], made[0]]


def test_two_who_ask_at_once_never_get_the_same_job(ledger: Ledger, row: CampaignRow) -> None:
    made = offered(ledger, row, 24)
    barrier, found = threading.Barrier(4), []

    def work(number: int) -> list[int]:
        barrier.wait()
        mine = []
        while taken := claim(ledger, owner=f"w/{number}"):
            mine += [one.job_id for one in taken]
        return mine

    with ThreadPoolExecutor(4) as pool:
        for mine in pool.map(work, range(4)):
            found += mine
    assert sorted(found) == sorted(made)


def test_what_is_withdrawn_waits_for_its_driver(ledger: Ledger, row: CampaignRow) -> None:
    first, second = offered(ledger, row, 2)
    (taken,) = claim(ledger)
    with ledger.begin() as connection:
        assert jobs.queued(connection, row.id) == []
        assert offers_claims_and_ended_jobs.withdraw(connection, row.id) == [first]
        assert [one.id for one in jobs.queued(connection, row.id)] == [first]
    assert claim(ledger) == [] and taken.job_id == second
    assert held(ledger, row) == 4.0


def test_a_lease_that_ran_out_is_lost_and_booked_and_the_job_waits_again(ledger: Ledger, row: CampaignRow) -> None:
    offered(ledger, row, 1)
    (one,) = claim(ledger, lease=GONE)
    with ledger.begin() as connection:
        a = t.attempt.c
        began = connection.execute(sa.select(a.started_at).where(a.id == one.attempt_id)).scalar_one()
        later = began + timedelta(seconds=7)
        connection.execute(sa.update(t.attempt).where(a.id == one.attempt_id).values(heartbeat_at=later))
    (reaped,) = reap(ledger)
    assert (reaped.claim.job_id, reaped.state, reaped.queue) == (one.job_id, JobState.QUEUED, "simulation")
    assert reap(ledger) == []
    with ledger.read() as connection:
        attempt = connection.execute(sa.select(t.attempt)).mappings().one()
        assert (attempt["state"], attempt["reason"]) == (AttemptState.LOST, Reason.LEASE_EXPIRED)
        assert campaign_counts_and_remarks.spent(connection, row.id)["core_seconds"] == pytest.approx(7.0)
    assert job(ledger, one.job_id)["losses"] == 1 and held(ledger, row) == 2.0
    (again,) = claim(ledger)
    assert again.fence == one.fence + 1
    with ledger.begin() as connection:  # the zombie wakes up
        assert not rows.finish_many(connection, [JobEnd(one, JobState.DONE, "ok")])
        assert leases.jobs_to_stop(connection, [one, again]) == {one.job_id: False}


def test_a_task_of_days_for_a_person_is_a_lease_like_any_other(ledger: Ledger, row: CampaignRow) -> None:
    (made,) = offered(ledger, row, 1, queue="world")
    (anna,) = claim(ledger, owner="person/anna", lease=5 * DAY, queues=("world",))
    assert claim(ledger, owner="person/ben", queues=("world",)) == [] and reap(ledger) == []  # no word from her yet
    with ledger.begin() as connection:  # five days later
        j = t.job.c
        until = connection.execute(sa.select(j.lease_until).where(j.id == made)).scalar_one()
        connection.execute(sa.update(t.job).where(j.id == made).values(lease_until=until - timedelta(days=5)))
    (reaped,) = reap(ledger)
    assert (reaped.state, reaped.queue) == (JobState.QUEUED, "world")
    with ledger.read() as connection:
        assert campaign_counts_and_remarks.spent(connection, row.id).get("core_seconds", 0.0) == 0.0  # nobody computed
    (ben,) = claim(ledger, owner="person/ben", lease=5 * DAY, queues=("world",))
    with ledger.begin() as connection:
        assert not rows.finish_many(connection, [JobEnd(anna, JobState.DONE, "ok")])
        assert rows.finish_many(connection, [JobEnd(ben, JobState.DONE, "ok")])


def test_a_live_lease_is_nobody_elses(ledger: Ledger, row: CampaignRow) -> None:
    offered(ledger, row, 1)
    claim(ledger)
    assert reap(ledger) == []


def test_a_job_that_is_lost_five_times_is_quarantined(ledger: Ledger, row: CampaignRow) -> None:
    (made,) = offered(ledger, row, 1)
    for i in range(MAX_LOSSES):
        assert job(ledger, made)["state"] == JobState.QUEUED, i
        claim(ledger, lease=GONE)
        (reaped,) = reap(ledger)
    assert reaped.state is JobState.QUARANTINED
    assert (job(ledger, made)["losses"], job(ledger, made)["kills"]) == (5, 0)
    assert held(ledger, row) == 0.0 and claim(ledger) == []


def test_cancelling_what_waits_and_what_runs(ledger: Ledger, row: CampaignRow) -> None:
    first, second, third = offered(ledger, row, 3)
    (one,) = claim(ledger, lease=GONE)
    with ledger.begin() as connection:
        assert jobs.request_cancel(connection, [first, one.job_id]) == ([first], [one.job_id])
        assert leases.jobs_to_stop(connection, [one]) == {third: True}
    assert job(ledger, first)["state"] == JobState.CANCELLED
    (reaped,) = reap(ledger)  # its worker died before it heard of it
    assert reaped.state is JobState.CANCELLED
    assert held(ledger, row) == 2.0
    assert [taken.job_id for taken in claim(ledger)] == [second]


def test_what_is_out_is_found_again_and_its_end_is_told_once(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        ids = rows.entered(connection, row, 3, standing="pending", position=1)
        rung_id = campaigns.rungs(connection, row.id)[1].id
        made = jobs.create_many(connection, [NewJob(row.id, rung_id, one, 0, f"k{one}", 0.0) for one in ids])
        offers_claims_and_ended_jobs.offer_many(connection, {one: Offer("simulation", 1.0, 100) for one in made})
        found = offers_claims_and_ended_jobs.outstanding(connection, row.id)
    assert sorted(one.job_id for one in found) == sorted(made) and {one.last_counted for one in found} == {0}
    claim(ledger, lease=GONE)
    reap(ledger)
    (one,) = claim(ledger)
    out = {made[0]: OutstandingJob(made[0], ids[0], rung_id), made[1]: OutstandingJob(made[1], ids[1], rung_id)}
    with ledger.begin() as connection:
        assert offers_claims_and_ended_jobs.ended_jobs(connection, out) == []
        rows.finish_many(connection, [JobEnd(one, JobState.FAILED, Outcome.TIMEOUT)])
        end = AttemptEnd(
            one.attempt_id, AttemptState.FAILED, {"core_seconds": 3.0}, 4.0, "timeout", "wall_limit", "4 s"
        )
        attempts.end_many(connection, [end])
        (over,) = offers_claims_and_ended_jobs.ended_jobs(connection, out)
        assert (over.job_id, over.state, over.outcome) == (one.job_id, JobState.FAILED, Outcome.TIMEOUT)
        assert (over.reason, over.wall_seconds, over.losses, over.detail) == (Reason.WALL_LIMIT, 4.0, 1, "4 s")
        assert over.cost["core_seconds"] == pytest.approx(3.0, abs=0.5)  # and what was lost before
        assert {
            one.last_counted > 0
            for one in offers_claims_and_ended_jobs.outstanding(connection, row.id)
            if one.job_id == over.job_id
        } == {True}


def test_a_claim_by_an_older_fence_is_told_that_it_is_lost(ledger: Ledger, row: CampaignRow) -> None:
    offered(ledger, row, 1)
    (one,) = claim(ledger)
    with ledger.read() as connection:
        assert leases.jobs_to_stop(connection, [one]) == {}
        earlier = Claim(one.job_id, one.attempt_id, one.fence - 1)
        assert leases.jobs_to_stop(connection, [earlier]) == {one.job_id: False}
        assert leases.jobs_to_stop(connection, [Claim(999, 1, 1)]) == {999: False}


def test_campaigns_that_share_a_queue_take_turns(ledger: Ledger, row: CampaignRow) -> None:
    """Priorities of two campaigns have different units: 0 to 2 here are no less urgent than 1,000 to 1,002 there."""
    with ledger.begin() as connection:
        other = rows.campaign(connection, "others")
    mine, theirs = offered(ledger, row, 3), offered(ledger, other, 3, priority=1000.0)
    (preferred,) = offered(ledger, other, 1, rung=2, priority=jobs.PREFERRED)
    taken, after = [], 0
    for _ in range(7):
        (one,) = claim(ledger, after=after)
        taken.append(one.job_id)
        with ledger.begin() as connection:
            rows.finish_many(connection, [JobEnd(one, JobState.DONE, "ok")])
        after = int(job(ledger, one.job_id)["campaign_id"])
    assert taken == [preferred, mine[2], theirs[2], mine[1], theirs[1], mine[0], theirs[0]]


def test_a_campaign_of_which_nothing_runs_comes_first(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        other = rows.campaign(connection, "others")
    mine, theirs = offered(ledger, row, 3), offered(ledger, other, 3, priority=1000.0)
    taken = [claim(ledger, owner=f"w/{i}")[0].job_id for i in range(4)]  # slots that have run nothing before
    assert taken == [mine[2], theirs[2], mine[1], theirs[1]]


def test_a_cluster_is_asked_for_the_first_of_each_campaign_before_the_second(ledger: Ledger, row: CampaignRow) -> None:
    with ledger.begin() as connection:
        other = rows.campaign(connection, "others")
        limits = {"settings": {}, "limits": {"wall_seconds": 60.0}}
        for made in (row, other):
            campaigns.write_requests(connection, {r.id: limits for r in campaigns.rungs(connection, made.id)})
    mine, theirs = offered(ledger, row, 3), offered(ledger, other, 3, priority=1000.0)
    with ledger.begin() as connection:
        found = [one.job_id for one in cluster_reservations.waiting_jobs(connection, ["simulation"], 4)]
    assert found == [mine[2], theirs[2], mine[1], theirs[1]]
