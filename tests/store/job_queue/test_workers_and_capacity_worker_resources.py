"""Jobs that hold more than a core: taken only where their resources are free, and counted while they run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.domain import states_and_needs
from sciagent.domain.states_and_needs import AttemptState, JobState
from sciagent.execution.worker.end_attempts import reap_expired
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, jobs, offers_claims_and_ended_jobs, workers_and_capacity
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.jobs import NewJob, Offer
from sciagent.store.job_queue.leases import Claim, JobEnd
from sciagent.store.job_queue.workers_and_capacity import Capacity, NewWorker, WorkerRow, capacity
from tests.support import rows

QUEUE = "simulation"


@pytest.fixture
def row(ledger: Ledger) -> CampaignRow:
    with ledger.begin() as connection:
        made = rows.campaign(connection)
        rows.entered(connection, made, 24)
        return made


@pytest.fixture
def offer(ledger: Ledger, row: CampaignRow) -> Iterator[Any]:
    taken = iter(range(1, 25))

    def put(n: int, what: str | None = None, *, priority: float = 0.0, rung: int = 1, **more: Any) -> list[int]:
        """n jobs, the last the most urgent. what: they need."""
        with ledger.begin() as connection:
            rung_id = campaigns.rungs(connection, row.id)[rung].id
            new = [NewJob(row.id, rung_id, next(taken), 0, f"{rung}{i}", priority + i / 100) for i in range(n)]
            made = jobs.create_many(connection, new)
            asked = {"seconds": 50.0, "memory_mb": None} | more
            offers_claims_and_ended_jobs.offer_many(
                connection, {one: Offer(QUEUE, needs=what, **asked) for one in made}
            )
        return made

    yield put


def new(name: str = "w", slots: int = 4, cores: int | None = None, **resources: int) -> NewWorker:
    return NewWorker(name, "host", 1, "ledger", (QUEUE,), slots, 8000, cores, resources)


def works(ledger: Ledger, *several: NewWorker) -> None:
    with ledger.begin() as connection:
        for one in several:
            workers_and_capacity.register(connection, one)


def claim(ledger: Ledger, one: NewWorker, slot: int = 0) -> list[Claim]:
    with ledger.begin() as connection:
        return offers_claims_and_ended_jobs.claim_next(connection, [QUEUE], f"{one.name}/{slot}", worker=one)


def end(ledger: Ledger, *claims: Claim) -> None:
    with ledger.begin() as connection:
        rows.finish_many(connection, [JobEnd(one, JobState.DONE, "ok") for one in claims])
        attempts.end_many(connection, [AttemptEnd(one.attempt_id, AttemptState.DONE, {}, 1.0, "ok") for one in claims])


def holdings(ledger: Ledger) -> dict[int, Any]:
    """{job id: what its attempt holds} of those that run and hold something."""
    a = t.attempt.c
    with ledger.read() as connection:
        found = connection.execute(sa.select(a.job_id, a.holds).where(a.holds.is_not(None), a.ended_at.is_(None)))
        return {int(job_id): holds for job_id, holds in found.all()}


def test_a_job_takes_its_cores_from_the_other_slots(ledger: Ledger, offer: Any) -> None:
    mine = new(slots=4)
    works(ledger, mine)
    [big] = offer(1, "cores=3", priority=5.0)
    small = offer(4)
    [first] = claim(ledger, mine, 0)
    assert first.job_id == big and holdings(ledger) == {big: {"cores": 3}}
    [second] = claim(ledger, mine, 1)
    assert second.job_id == small[-1]
    assert claim(ledger, mine, 2) == [], "four cores are in use"
    end(ledger, first)
    assert holdings(ledger) == {}
    assert [claim(ledger, mine, slot)[0].job_id for slot in (0, 2, 3)] == small[2::-1]
    assert claim(ledger, mine, 0) == []


def test_a_worker_with_fewer_cores_than_slots_runs_no_more_jobs_than_it_has_cores(ledger: Ledger, offer: Any) -> None:
    mine = new(slots=4, cores=2)
    works(ledger, mine)
    offer(3)
    assert [len(claim(ledger, mine, slot)) for slot in range(3)] == [1, 1, 0]


def test_what_does_not_fit_is_passed_by_what_does(ledger: Ledger, offer: Any) -> None:
    mine = new(slots=4)
    works(ledger, mine)
    [big], small = offer(1, "cores=4", priority=5.0), offer(2)
    with ledger.begin() as connection:
        connection.execute(sa.update(t.job).where(t.job.c.id == small[0]).values(priority=9.0))
    [first] = claim(ledger, mine, 0)
    assert first.job_id == small[0]
    [second] = claim(ledger, mine, 1)
    assert second.job_id == small[1], "three cores are free, and the most urgent needs four"
    end(ledger, first, second)
    assert [one.job_id for one in claim(ledger, mine, 2)] == [big]


def test_gpus_are_given_by_number(ledger: Ledger, offer: Any) -> None:
    mine = new(slots=4, gpu=3)
    works(ledger, mine)
    offer(1, "gpu=2", priority=5.0), offer(3, "gpu=1")
    [two], [one] = claim(ledger, mine, 0), claim(ledger, mine, 1)
    assert (two.gpus, one.gpus) == ((0, 1), (2,))
    assert claim(ledger, mine, 2) == []
    end(ledger, two)
    assert [claim(ledger, mine, slot)[0].gpus for slot in (0, 2)] == [(0,), (1,)]


def test_a_worker_without_it_leaves_it_to_others(ledger: Ledger, offer: Any) -> None:
    bare, able = new("bare"), new("able", gpu=1, gaussian=1)
    works(ledger, bare, able)
    [job] = offer(1, "gaussian=1 gpu=1")
    assert claim(ledger, bare) == []
    with ledger.begin() as connection:  # one that never said what it has
        assert offers_claims_and_ended_jobs.claim_next(connection, [QUEUE], "old/0") == []
    assert [one.job_id for one in claim(ledger, able)] == [job]


def test_what_a_dead_worker_held_is_free_when_its_lease_is_reaped(ledger: Ledger, offer: Any) -> None:
    dead, alive = new("dead", gpu=1), new("alive", gpu=1)
    works(ledger, dead, alive)
    [job] = offer(1, "gpu=1")
    with ledger.begin() as connection:
        claims = offers_claims_and_ended_jobs.claim_next(connection, [QUEUE], "dead/0", worker=dead)
    assert claim(ledger, alive) == []
    with ledger.begin() as connection:
        rows.lease_until(connection, claims, -1.0)
        assert [one.claim.job_id for one in reap_expired(connection)] == [job]
    [again] = claim(ledger, alive)
    assert (again.job_id, again.gpus) == (job, (0,))


def test_memory_goes_with_the_cores(ledger: Ledger, offer: Any) -> None:
    mine = new(slots=4)
    works(ledger, mine)
    offer(1, "gpu=1", memory_mb=2500), offer(1, "cores=2", memory_mb=3900, priority=5.0), offer(1, memory_mb=2500)
    assert [holdings(ledger)[one.job_id] for one in claim(ledger, mine)] == [{"cores": 2}]
    assert claim(ledger, mine, 1) == []


def test_jobs_that_are_run_together_share_a_gpu(ledger: Ledger, row: CampaignRow, offer: Any) -> None:
    mine = new(slots=2, gpu=1)
    works(ledger, mine)
    made = offer(5, "gpu=1", seconds=0.001)
    with ledger.begin() as connection:
        campaigns.write_requests(connection, {campaigns.rungs(connection, row.id)[1].id: {"together": 5}})
    group = claim(ledger, mine)
    assert [one.job_id for one in group] == made[::-1]
    assert list(holdings(ledger)) == [made[-1]] and group[0].gpus == (0,)
    end(ledger, *group)
    assert holdings(ledger) == {}


def test_what_is_changed_later_counts_for_jobs_that_wait(ledger: Ledger, row: CampaignRow, offer: Any) -> None:
    mine = new(slots=4)
    works(ledger, mine)
    offer(2, "gpu=1")
    assert claim(ledger, mine) == []
    with ledger.begin() as connection:
        rung_id = campaigns.rungs(connection, row.id)[1].id
        offers_claims_and_ended_jobs.restate_needs(connection, {rung_id: "cores=2"})
    [first] = claim(ledger, mine)
    with ledger.begin() as connection:
        offers_claims_and_ended_jobs.restate_needs(connection, {rung_id: None})
    [second] = claim(ledger, mine, 1)
    assert holdings(ledger) == {first.job_id: {"cores": 2}} and second.job_id not in holdings(ledger)


def test_two_who_ask_at_once_never_both_get_the_last(ledger: Ledger, offer: Any) -> None:
    """Six slots of two workers ask together until nothing is left; never does more run at once than there is room."""
    crowd = [new("one", slots=3, gpu=1, gaussian=1), new("other", slots=3, gpu=1)]
    works(ledger, *crowd)
    for kind, n in (("gpu=1", 6), ("cores=2", 6), ("gaussian=1", 4), (None, 4)):
        offer(n, kind)
    start, seen, most = threading.Barrier(6), list[int](), dict[str, int]()

    def look() -> None:
        a = t.attempt.c
        with ledger.read() as connection:
            found = connection.execute(sa.select(a.owner, a.holds).where(a.ended_at.is_(None))).all()
        used = {"gaussian": sum(holds is not None and "gaussian" in holds for _, holds in found)}
        for one in crowd:
            mine = [holds or {} for owner, holds in found if owner.startswith(one.name)]
            used[f"{one.name} gpus"] = sum(len(holds.get("gpu", ())) for holds in mine)
            used[f"{one.name} cores"] = sum(holds.get("cores", 1) for holds in mine)
        most.update({name: max(n, most.get(name, 0)) for name, n in used.items()})

    def work(one: NewWorker, slot: int) -> None:
        start.wait()
        while len(seen) < 20:
            taken = claim(ledger, one, slot)
            if taken:
                look()
            end(ledger, *taken)
            seen.extend(found.job_id for found in taken)

    threads = [threading.Thread(target=work, args=(one, slot)) for one in crowd for slot in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(seen) == len(set(seen)) == 20
    there = {"gaussian": 1} | {f"{w.name} {what}": n for w in crowd for what, n in (("gpus", 1), ("cores", 3))}
    assert {name: n for name, n in most.items() if n > there[name]} == {}


def test_needs_have_one_form() -> None:
    assert states_and_needs.needs_text({"gpu": 1, "cores": 4}) == "cores=4 gpu=1"
    assert states_and_needs.needs_text({"cores": 1}) is None and states_and_needs.parse_needs(None) == {"cores": 1}
    assert states_and_needs.parse_needs("gaussian=2") == {"cores": 1, "gaussian": 2}
    for wrong in (
        {"GPU": 1},
        {"a b": 1},
        {"a;b": 1},
        {"gpu": 0},
        {"gpu": 65},
        {"memory": 5},
        {"x" * 32: 1},
        {"$(x)": 1},
    ):
        with pytest.raises(ValueError, match=r"name|set by|from 1 to"):
            states_and_needs.check_needs(wrong)


def test_a_job_of_several_cores_may_use_their_shares_of_the_memory() -> None:
    narrow = new(slots=4)
    assert narrow.at_once({"cores": 2}, 4000) == 2 and narrow.at_once({"cores": 1}, 4000) == 0


def row_of(one: NewWorker, **more: Any) -> WorkerRow:
    return WorkerRow(**vars(one), **more)


def test_how_many_could_run_at_once_and_what_is_missing() -> None:
    alive = [
        row_of(new("a", slots=4, gpu=2)),
        row_of(new("b", slots=8, cores=16)),
        row_of(new("c", gpu=9), draining=True),
    ]

    def of(**needs: int) -> tuple[int, str]:
        found = capacity(alive, QUEUE, {"cores": 1} | needs)
        return found.most, found.missing

    assert of() == (12, "") and of(cores=4) == (5, "") and of(gpu=1) == (2, "")
    assert of(gpu=3) == (0, "the most gpu that a worker has are 2")
    assert of(cores=20) == (0, "the most cores that a worker has are 16")
    assert of(cores=8, gpu=1) == (0, "each is there, but not all of it at one worker")
    assert of(gaussian=2) == (0, "no worker has gaussian (sciagent worker --resource gaussian=2)")
    small = capacity(alive, QUEUE, {"cores": 2}, 9000)
    assert small == Capacity(0, "it may use 9000 MB, and the most that a worker has for one is 4000 MB")
    assert capacity(alive, "elsewhere", {"cores": 1, "gpu": 1}) == Capacity(0)
    cluster = row_of(NewWorker("s", "host", 1, "slurm", (QUEUE,), 16))
    assert capacity([*alive, cluster], QUEUE, {"cores": 1, "orca": 1}) == Capacity(16)
