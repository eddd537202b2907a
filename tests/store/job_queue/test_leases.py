"""Jobs under leases: claimed once, finished once, whoever comes late writes nothing."""

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.errors import LedgerError
from sciagent.execution.worker.end_attempts import give_back, reap_driver, reap_expired
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, jobs, leases, reservations_and_bookings
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.leases import Claim, JobEnd
from sciagent.store.views import campaign_counts_and_remarks
from tests.support import rows


def claim(ledger: Ledger, job_id: int, owner: str = "a", seconds: float = 60.0) -> Claim | None:
    with ledger.begin() as connection:
        return leases.claim(connection, job_id, owner, seconds)


def finish(ledger: Ledger, one: Claim, state: JobState = JobState.DONE, **more: int) -> bool:
    with ledger.begin() as connection:
        return bool(rows.finish_many(connection, [JobEnd(one, state, "ok", **more)]))


def stored(ledger: Ledger, job_id: int) -> dict:
    with ledger.read() as connection:
        return dict(connection.execute(sa.select(t.job).where(t.job.c.id == job_id)).mappings().one())


def test_a_job_from_its_queue_to_its_end(ledger: Ledger, row: CampaignRow) -> None:
    (job_id,) = rows.queued_jobs(ledger, row)
    one = claim(ledger, job_id)
    assert one is not None and one.fence == 1
    assert claim(ledger, job_id, "b") is None
    with ledger.begin() as connection:
        leases.heartbeat(connection, [one])
        assert leases.jobs_to_stop(connection, [one]) == {}
        assert jobs.queued(connection, row.id) == []
    assert finish(ledger, one)
    assert not finish(ledger, one), "a result counts once"
    assert claim(ledger, job_id, "b") is None
    assert (stored(ledger, job_id)["state"], stored(ledger, job_id)["lease_owner"]) == (JobState.DONE, None)


def test_a_zombie_writes_nothing(ledger: Ledger, row: CampaignRow) -> None:
    """Its lease ran out, another took the job; whichever ends first, only the holder of the fence counts."""
    (job_id,) = rows.queued_jobs(ledger, row)
    zombie = claim(ledger, job_id, "a", seconds=-1)
    holder = claim(ledger, job_id, "b")
    assert zombie is not None and holder is not None and holder.fence == zombie.fence + 1
    assert not finish(ledger, zombie)
    with ledger.begin() as connection:
        assert leases.jobs_to_stop(connection, [zombie, holder]) == {job_id: False}
    assert finish(ledger, holder)
    assert stored(ledger, job_id)["attempts"] == 2


def test_a_job_to_be_cancelled_is_no_longer_its_workers(ledger: Ledger, row: CampaignRow) -> None:
    running, waiting = rows.queued_jobs(ledger, row, 2)
    one = claim(ledger, running)
    with ledger.begin() as connection:
        connection.execute(sa.update(t.job).values(cancel_requested=True))
        assert one is not None and leases.jobs_to_stop(connection, [one]) == {running: True}
    assert claim(ledger, waiting) is None
    assert finish(ledger, one), "it ended before the word reached it: the result is kept"


def test_a_job_goes_back_to_the_queue_with_its_reservation(ledger: Ledger, row: CampaignRow) -> None:
    (job_id,) = rows.queued_jobs(ledger, row)
    with ledger.begin() as connection:
        reservations_and_bookings.reserve_many(connection, row.id, {job_id: {"core_seconds": 30.0, "money": 2.0}})
        reservations_and_bookings.reserve_many(connection, row.id, {job_id: {}})
        assert reservations_and_bookings.reserved(connection, row.id) == {"core_seconds": 30.0, "money": 2.0}
    one = claim(ledger, job_id)
    assert one is not None and finish(ledger, one, JobState.QUEUED, kills=1)
    with ledger.begin() as connection:
        assert connection.execute(sa.select(t.job.c.kills)).scalar_one() == 1
        assert reservations_and_bookings.reserved(connection, row.id) == {"core_seconds": 30.0, "money": 2.0}
    one = claim(ledger, job_id)
    assert one is not None and finish(ledger, one, JobState.QUARANTINED, kills=1)
    with ledger.begin() as connection:
        assert reservations_and_bookings.reserved(connection, row.id) == {}
        assert connection.execute(sa.select(t.job.c.kills)).scalar_one() == 2


def test_a_job_is_offered_again_however_many_drivers_die_over_it(ledger: Ledger, row: CampaignRow) -> None:
    (job_id,) = rows.queued_jobs(ledger, row)
    claims = [claim(ledger, job_id, f"w{i}", seconds=-1) for i in range(30)]
    assert [c.fence for c in claims if c] == list(range(1, 31))
    assert stored(ledger, job_id)["kills"] == 0


@pytest.mark.parametrize("backend", [pytest.param("sqlite", marks=pytest.mark.long), "postgresql"], indirect=True)
def test_eight_workers_share_sixty_jobs(ledger: Ledger, ledger_url: str, row: CampaignRow) -> None:
    """Each is claimed once and finished once, on connections of their own, every worker trying every job."""
    made = rows.queued_jobs(ledger, row, 60)
    start = threading.Barrier(8)

    def work(number: int) -> list[int]:
        own, done = Ledger(ledger_url), []
        start.wait()
        for i in range(len(made)):
            job_id = made[(i + number * 3) % len(made)]
            with own.begin() as connection:
                one = leases.claim(connection, job_id, f"w{number}")
                if one is not None and rows.finish_many(connection, [JobEnd(one, JobState.DONE, "ok")]):
                    done.append(job_id)
        own.close()
        return done

    with ThreadPoolExecutor(8) as pool:
        done = Counter(job_id for found in pool.map(work, range(8)) for job_id in found)
    assert set(done) == set(made) and set(done.values()) == {1}
    with ledger.read() as connection:
        fences = connection.execute(sa.select(t.job.c.fence, t.job.c.attempts).distinct()).all()
        assert [tuple(f) for f in fences] == [(1, 1)]
        assert campaign_counts_and_remarks.count(connection, t.attempt) == len(made)


def test_of_many_who_take_over_an_expired_lease_one_gets_it(ledger: Ledger, ledger_url: str, row: CampaignRow) -> None:
    made = rows.queued_jobs(ledger, row, 20)
    zombies = [claim(ledger, job_id, "dead", seconds=-1) for job_id in made]
    start = threading.Barrier(4)

    def work(number: int) -> list[Claim]:
        own = Ledger(ledger_url)
        start.wait()
        found = [claim(own, job_id, f"w{number}") for job_id in made]
        own.close()
        return [one for one in found if one is not None]

    with ThreadPoolExecutor(4) as pool:
        taken = [one for found in pool.map(work, range(4)) for one in found]
    assert sorted(one.job_id for one in taken) == made and {one.fence for one in taken} == {2}
    assert not any(finish(ledger, z) for z in zombies if z)
    assert all(finish(ledger, one) for one in taken)


def test_attempts_of_dead_drivers_are_orphans(ledger: Ledger, row: CampaignRow) -> None:
    (job_id,) = rows.queued_jobs(ledger, row)
    one = claim(ledger, job_id, "dead")
    assert one is not None
    with ledger.begin() as connection:
        mine = attempts.begin(connection, "me", campaign_id=row.id, rung_id=None, n_candidates=40)
        attempts.begin(connection, "dead", campaign_id=None, rung_id=None)  # `verify`: no campaign's orphan
        assert [live.claim for live in leases.orphans(connection, row.id, "me")] == [one]
        attempts.end_many(connection, [AttemptEnd(one.attempt_id, AttemptState.LOST, {"core_seconds": 3}, 3.0)])
        assert leases.orphans(connection, row.id, "me") == []
        attempts.end_many(connection, [AttemptEnd(one.attempt_id, AttemptState.STALE, {}, 4.0)])
        attempts.end_many(connection, [AttemptEnd(mine, AttemptState.DONE, {}, 1.0, detail="a\0b")])
        with pytest.raises(ValueError, match="done → lost"):
            attempts.end_many(connection, [AttemptEnd(mine, AttemptState.LOST, {}, None)])


@pytest.mark.parametrize("owner", ["driver", "worker"])
def test_jobs_of_a_call_that_died_with_its_driver_or_worker_share_its_time(
    ledger: Ledger, row: CampaignRow, owner: str
) -> None:
    """Four of five jobs ran in one call for 86 s; the other ran beside them in another call."""
    with ledger.begin() as connection:
        rung_id, j, a = campaigns.rungs(connection, row.id)[1].id, t.job.c, t.attempt.c
        new = [jobs.NewJob(row.id, rung_id, id_, 0, f"{id_:064d}", 1.0) for id_ in rows.entered(connection, row, 5)]
        if owner == "driver":
            claims = leases.start_many(connection, new, owner, calls=[0, 0, 1, 0, 0])
            alone = claims[2]
        else:
            ids = jobs.create_many(
                connection, [replace(job, offer=jobs.Offer("simulation", None, None)) for job in new]
            )
            alone, *_ = [*leases.claim_many(connection, ids[2:3], owner, together=True).values()]
            leases.claim_many(connection, [*ids[:2], *ids[3:]], owner, together=True)
        begun = connection.scalar(sa.select(sa.func.min(a.started_at))) - timedelta(seconds=86)
        connection.execute(sa.update(t.attempt).values(started_at=begun, heartbeat_at=begun + timedelta(seconds=86)))
        connection.execute(sa.update(t.job).where(j.queue.is_not(None)).values(lease_until=begun))
        lost = reap_driver(connection, row.id, "next") if owner == "driver" else reap_expired(connection)
        assert len(lost) == 5
        costs = {id_: cost["core_seconds"] for id_, cost in connection.execute(sa.select(a.id, a.cost))}
        booked = dict(connection.execute(sa.select(t.spend.c.attempt_id, t.spend.c.amount)).all())
    assert costs == booked == {id_: 86.0 if id_ == alone.attempt_id else 86.0 / 4 for id_ in costs}


def test_who_gave_a_job_back_has_no_claim_on_it(ledger: Ledger, row: CampaignRow) -> None:
    first, second = rows.queued_jobs(ledger, row, 2)
    with ledger.begin() as connection:
        claims = leases.claim_many(connection, [first, second], "one")
        assert leases.claim_many(connection, [first], "other") == {}
        give_back(connection, [claims[first]])
        assert [job_id for job_id, *_ in jobs.queued(connection, row.id)] == [first]
        ended = rows.finish_many(connection, [leases.JobEnd(claims[k], JobState.DONE, "ok") for k in (first, second)])
        assert ended == {second}
    again = claim(ledger, first)
    assert again is not None and again.fence == claims[first].fence + 1


def test_jobs_are_claimed_as_they_are_made(ledger: Ledger, row: CampaignRow) -> None:
    """One of them was cancelled before, after an attempt: it goes on under its next fence."""
    with ledger.begin() as connection:
        ids = rows.entered(connection, row, 4)
        rung_id = campaigns.rungs(connection, row.id)[0].id
        new = [jobs.NewJob(row.id, rung_id, i, 0, f"{i:064d}", 1.0) for i in ids]
        [old] = jobs.create_many(connection, new[:1])
        give_back(connection, [leases.claim_many(connection, [old], "a")[old]])
        assert jobs.cancel_queued(connection, [old]) == [old]
        second, first, third = leases.start_many(connection, [new[1], new[0], new[2]], "me")
        assert (first.job_id, first.fence, second.fence, third.fence) == (old, 2, 1, 1)
        live = {attempt.claim for attempt in leases.orphans(connection, row.id, "others")}
        assert live == {first, second, third}
        assert leases.claim_many(connection, [first.job_id, second.job_id, third.job_id], "other") == {}
        with pytest.raises(LedgerError, match="already"):
            leases.start_many(connection, [new[3], new[1]], "me")
    with ledger.begin() as connection:
        ended = rows.finish_many(
            connection, [leases.JobEnd(one, JobState.DONE, "ok") for one in (first, second, third)]
        )
    assert ended == {first.job_id, second.job_id, third.job_id}
    found = [stored(ledger, one.job_id) for one in (first, second, third)]
    assert [(one["candidate_id"], one["attempts"]) for one in found] == list(zip(ids[:3], (2, 1, 1), strict=True))


def test_jobs_that_end_differently_end_at_once(ledger: Ledger, row: CampaignRow) -> None:
    one, two, three = rows.queued_jobs(ledger, row, 3)
    with ledger.begin() as connection:
        claims = leases.claim_many(connection, [one, two, three], "a")
        ends = [
            leases.JobEnd(claims[one], JobState.DONE, "ok"),
            leases.JobEnd(claims[two], JobState.QUEUED, "crashed", kills=1),
            leases.JobEnd(claims[three], JobState.QUARANTINED, "crashed", kills=1),
        ]
        assert rows.finish_many(connection, ends) == {one, two, three}
    found = [stored(ledger, id_) for id_ in (one, two, three)]
    assert [(f["state"], f["outcome"], f["kills"], f["lease_owner"]) for f in found] == [
        (JobState.DONE, "ok", 0, None),
        (JobState.QUEUED, "crashed", 1, None),
        (JobState.QUARANTINED, "crashed", 1, None),
    ]
