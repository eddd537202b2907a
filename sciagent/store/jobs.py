"""Jobs: a rung to be run on a candidate. Made, found, and changed while no worker holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
<<<<<<< HEAD
from typing import Any
=======
from datetime import datetime, timedelta
from typing import Any, NamedTuple
>>>>>>> e47bbf6 (A decision takes less of a driver: rows of the audit at once, folders of attempts, payloads and hashes only where asked for)

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import JobState
from sciagent.errors import LedgerError
from sciagent.store import reservations
from sciagent.store import tables as t
from sciagent.store.bulk import CHUNK, among, execute_many, take_ids
from sciagent.store.clock import db_now

PREFERRED = 1e6  # priority of what a person promoted: before all that a rule chose
MAX_KILLS = 2  # a candidate that kills two workers is quarantined


def create(
    connection: Connection,
    *,
    campaign_id: int,
    rung_id: int,
    candidate_id: int,
    replicate: int,
    evidence_key: str,
    priority: float,
) -> int:
    """One job, as `create_many` makes it."""
    one = NewJob(campaign_id, rung_id, candidate_id, replicate, evidence_key, priority)
    return create_many(connection, [one])[0]


@dataclass(frozen=True)
class NewJob:
    """A rung to be run on a candidate."""

    campaign_id: int
    rung_id: int
    candidate_id: int
    replicate: int
    evidence_key: str
    priority: float

    @property
    def place(self) -> tuple[int, ...]:
        """What there is one of."""
        return self.campaign_id, self.rung_id, self.candidate_id, self.replicate


def create_many(connection: Connection, new: Sequence[NewJob]) -> list[int]:
    """Queued jobs, ids in order; one that was cancelled before is queued again. Raises LedgerError if one of them
    stands already. Jobs of a campaign are made under the lock of its row."""
    there = present(connection, new)
    if standing := [one for one in new if one.place in there and there[one.place][1] != JobState.CANCELLED]:
        raise LedgerError(f"rung {standing[0].rung_id} has a job on candidate {standing[0].candidate_id} already")
    j, now = t.job.c, db_now(connection)
    again = [
        {"of": there[one.place][0], "state": JobState.QUEUED, "priority": one.priority, "outcome": None,
         "queue": None, "cancel_requested": False, "updated_at": now} for one in new if one.place in there
    ]  # fmt: skip
    execute_many(connection, sa.update(t.job).where(j.id == sa.bindparam("of")), again)
    fresh = [one for one in new if one.place not in there]
    ids = insert(connection, fresh, {"state": JobState.QUEUED, "attempts": 0, "fence": 0, "created_at": now})
    made = dict(zip((one.place for one in fresh), ids, strict=True))
    return [made[one.place] if one.place in made else there[one.place][0] for one in new]


def insert(connection: Connection, new: Sequence[NewJob], alike: Mapping[str, Any]) -> list[int]:
    """Rows for jobs that are not in the ledger yet; returns their ids. alike: columns that all of them share."""
    same = {**alike, "updated_at": alike["created_at"], "kills": 0, "cancel_requested": False}
    ids = take_ids(connection, t.job, len(new)) if new else []
    execute_many(connection, t.job, [{"id": id_, **vars(one)} for id_, one in zip(ids, new, strict=True)], same)
    return ids


def present(connection: Connection, new: Sequence[NewJob]) -> dict[tuple[int, ...], tuple[int, JobState]]:
    """(id, state) of those that are in the ledger, by their place in it."""
    j, found = t.job.c, dict[tuple[int, ...], tuple[int, JobState]]()
    of = dict[tuple[int, int], list[int]]()
    for one in new:
        of.setdefault((one.campaign_id, one.rung_id), []).append(one.candidate_id)
    for (campaign_id, rung_id), ids in of.items():
        for start in range(0, len(ids), CHUNK):
            some = among(connection, j.candidate_id, ids[start : start + CHUNK])
            query = sa.select(j.id, j.state, j.candidate_id, j.replicate).where(
                j.campaign_id == campaign_id, j.rung_id == rung_id, some
            )
            for id_, state, candidate_id, replicate in connection.execute(query).all():
                found[campaign_id, rung_id, candidate_id, replicate] = int(id_), JobState(state)
    return found


def of_candidate(connection: Connection, campaign_id: int, candidate_id: int, rung_ids: Sequence[int]) -> list[Any]:
    """The candidate's jobs at these rungs: (id, rung id, state, outcome)."""
    j = t.job.c
    query = sa.select(j.id, j.rung_id, j.state, j.outcome).where(
        j.campaign_id == campaign_id, j.rung_id.in_(rung_ids), j.candidate_id == candidate_id
    )
    return list(connection.execute(query))


def gave_up(connection: Connection, campaign_id: int, rung_id: int, candidate_id: int) -> bool:
    """Whether the rung was tried on the candidate and will not be tried again by itself."""
    states = {state for _, _, state, _ in of_candidate(connection, campaign_id, candidate_id, [rung_id])}
    return bool(states & {JobState.FAILED, JobState.QUARANTINED})


def kills_of(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """How many workers each job has killed."""
    query = sa.select(t.job.c.id, t.job.c.kills).where(among(connection, t.job.c.id, job_ids))
    return {int(id_): int(kills) for id_, kills in connection.execute(query).all()}


def to_be_cancelled(connection: Connection, job_ids: Sequence[int]) -> set[int]:
    """Those of these jobs that a person wants to be ended."""
    j = t.job.c
    query = sa.select(j.id).where(among(connection, j.id, job_ids), j.cancel_requested)
    return {int(one) for one in connection.execute(query).scalars()}


def cancel_queued(connection: Connection, job_id: int) -> bool:
    """Cancel a job that no worker has taken yet, and give its reservation back; False if one has."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.state == JobState.QUEUED)
        .values(state=JobState.CANCELLED, updated_at=db_now(connection))
    )
    if changed.rowcount == 1:
        reservations.release(connection, job_id)
    return changed.rowcount == 1


def retry(connection: Connection, job_id: int, priority: float | None = None) -> None:
    """A job that gave up is tried again, because a person asked for it; what it killed before counts no more.
    priority: None leaves it its own."""
    j = t.job.c
    connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.state.in_([JobState.FAILED, JobState.QUARANTINED, JobState.CANCELLED]))
        .values(
            state=JobState.QUEUED,
            priority=j.priority if priority is None else priority,
            outcome=None,
            kills=0,
            losses=0,
            queue=None,
            cancel_requested=False,
            updated_at=db_now(connection),
        )
    )


def requeue(connection: Connection, campaign_id: int, rung_id: int, outcomes: Sequence[str]) -> list[int]:
    """Failed jobs of a rung that ended in one of these outcomes wait for a worker again; returns their candidates."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(
            j.campaign_id == campaign_id,
            j.rung_id == rung_id,
            j.state == JobState.FAILED,
            j.outcome.in_(outcomes),
        )
        .values(state=JobState.QUEUED, outcome=None, queue=None, updated_at=db_now(connection))
        .returning(j.candidate_id)
    )
    return [int(i) for i in changed.scalars()]


def prefer(connection: Connection, job_id: int, priority: float) -> None:
    """A queued job goes to the front."""
    j = t.job.c
    connection.execute(sa.update(t.job).where(j.id == job_id, j.state == JobState.QUEUED).values(priority=priority))


<<<<<<< HEAD
=======
def gave_up(connection: Connection, campaign_id: int, rung_id: int, candidate_id: int) -> bool:
    """Whether the rung was tried on the candidate and will not be tried again by itself."""
    states = {state for _, _, state, _ in of_candidate(connection, campaign_id, candidate_id, [rung_id])}
    return bool(states & {JobState.FAILED, JobState.QUARANTINED})


def claim(connection: Connection, job_id: int, owner: str, lease_seconds: float = LEASE_SECONDS) -> Claim | None:
    """Take a queued job, or one whose lease ran out; None if somebody else has it or it is over."""
    return claim_many(connection, [job_id], owner, lease_seconds=lease_seconds).get(job_id)


def claim_many(
    connection: Connection,
    job_ids: Sequence[int],
    owner: str,
    *,
    state: AttemptState = AttemptState.RUNNING,
    lease_seconds: float = LEASE_SECONDS,
) -> dict[int, Claim]:
    """{job id: claim} of those that could be taken. state: `running`, or `claimed` for what will wait in a pool."""
    now = db_now(connection)
    j, taken = t.job.c, list[Any]()
    free = sa.or_(j.state == JobState.QUEUED, sa.and_(j.state.in_(_LIVE), j.lease_until < now))
    for start in range(0, len(job_ids), CHUNK):
        taken += connection.execute(
            sa.update(t.job)
            .where(among(connection, j.id, job_ids[start : start + CHUNK]), free, sa.not_(j.cancel_requested))
            .values(
                state=JobState.RUNNING, lease_owner=owner, lease_until=now + timedelta(seconds=lease_seconds),
                fence=j.fence + 1, attempts=j.attempts + 1, updated_at=now,
            )
            .returning(j.id, j.fence, j.campaign_id, j.rung_id)
        ).all()  # fmt: skip
    return _attempt(connection, [tuple(one) for one in taken], owner, state, now)


def _attempt(
    connection: Connection, taken: Sequence[tuple[int, ...]], owner: str, state: AttemptState, now: datetime
) -> dict[int, Claim]:  # fmt: skip
    """A live attempt of each job. taken: (job id, fence, campaign id, rung id)."""
    alike = {
        "owner": owner, "state": state, "n_candidates": 1, "cost": {}, "started_at": now, "heartbeat_at": now
    }  # fmt: skip
    ids = take_ids(connection, t.attempt, len(taken)) if taken else []
    rows = [
        {"id": id_, "campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence}
        for id_, (job_id, fence, campaign_id, rung_id) in zip(ids, taken, strict=True)
    ]
    execute_many(connection, t.attempt, rows, alike)
    return {job_id: Claim(job_id, id_, fence) for id_, (job_id, fence, *_) in zip(ids, taken, strict=True)}


def begun(connection: Connection, claims: Sequence[Claim]) -> None:
    """A worker has taken up jobs that were claimed ahead."""
    now = db_now(connection)
    connection.execute(
        sa.update(t.attempt)
        .where(t.attempt.c.id.in_([one.attempt_id for one in claims]), t.attempt.c.state == AttemptState.CLAIMED)
        .values(state=AttemptState.RUNNING, started_at=now, heartbeat_at=now)
    )


def give_back(connection: Connection, claims: Sequence[Claim]) -> set[int]:
    """Jobs that were claimed ahead and no worker has taken up are queued again, as if nothing had been; returns the ids
    of those that are cancelled instead, because a person asked for it."""
    end_attempts(connection, [AttemptEnd(one.attempt_id, AttemptState.CANCELLED, {}, 0.0) for one in claims])
    return {one.job_id for one in claims if take_back(connection, one.job_id, one.fence)}


def begin_attempt(
    connection: Connection, owner: str, *, campaign_id: int | None, rung_id: int | None, job_id: int | None = None,
    fence: int = 0, n_candidates: int = 1,
) -> int:  # fmt: skip
    now = db_now(connection)
    values: dict[str, Any] = {
        "campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence, "owner": owner,
        "state": AttemptState.RUNNING, "n_candidates": n_candidates, "cost": {}, "started_at": now, "heartbeat_at": now,
    }  # fmt: skip
    return int(connection.execute(sa.insert(t.attempt).values(values).returning(t.attempt.c.id)).scalar_one())


def end_attempt(
    connection: Connection,
    attempt_id: int,
    state: AttemptState,
    *,
    cost: Mapping[str, float],
    wall_seconds: float | None,
    outcome: str | None = None,
    reason: str | None = None,
    detail: str = "",
) -> None:
    """One attempt, as `end_attempts` ends it."""
    end_attempts(connection, [AttemptEnd(attempt_id, state, cost, wall_seconds, outcome, reason, detail)])


@dataclass(frozen=True)
class AttemptEnd:
    """What became of an attempt. wall_seconds: None where nobody knows."""

    attempt_id: int
    state: AttemptState
    cost: Mapping[str, float]
    wall_seconds: float | None
    outcome: str | None = None
    reason: str | None = None
    detail: str = ""


def end_attempts(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    """Raises ValueError for an end that the state of the attempt does not allow."""
    a = t.attempt.c
    query = sa.select(a.id, a.state).where(among(connection, a.id, [one.attempt_id for one in ends]))
    states = {str(state): state for state in AttemptState}
    old = {int(id_): states[state] for id_, state in connection.execute(query).all()}
    for before, after in {(old[one.attempt_id], one.state) for one in ends}:
        check_transition(ATTEMPT_TRANSITIONS, before, after)
    now = db_now(connection)
    rows = [
        {
            "of": one.attempt_id, "state": one.state, "cost": dict(one.cost), "wall_seconds": one.wall_seconds,
            "outcome": one.outcome, "reason": one.reason, "detail": one.detail[:4000],
        }
        for one in ends
    ]  # fmt: skip
    execute_many(connection, _END, rows, {"ended_at": now})


def heartbeat(connection: Connection, claims: Sequence[Claim], lease_seconds: float = LEASE_SECONDS) -> list[Claim]:
    """Extend the leases; returns the claims that were lost or whose job is to be cancelled."""
    now = db_now(connection)
    j = t.job.c
    lost = []
    for one in claims:
        changed = connection.execute(
            sa.update(t.job)
            .where(j.id == one.job_id, j.fence == one.fence, j.state.in_(_LIVE), sa.not_(j.cancel_requested))
            .values(lease_until=now + timedelta(seconds=lease_seconds))
        )
        if changed.rowcount == 1:
            connection.execute(sa.update(t.attempt).where(t.attempt.c.id == one.attempt_id).values(heartbeat_at=now))
        else:
            lost.append(one)
    return lost


def finish(connection: Connection, one: Claim, state: JobState, outcome: str, *, kills: int = 0) -> bool:
    """End the job under its fence; False if another attempt has taken over (the caller's result is stale)."""
    return one.job_id in finish_many(connection, [JobEnd(one, state, outcome, kills)])


class JobEnd(NamedTuple):
    """What became of a job under a claim. kills: how many workers this attempt has killed, 0 or 1."""

    claim: Claim
    state: JobState
    outcome: str
    kills: int = 0


def finish_many(connection: Connection, ends: Sequence[JobEnd]) -> set[int]:
    """End jobs under their fences; returns the ids of those that were still the caller's."""
    j = t.job.c
    query = sa.select(j.id, j.fence).where(
        among(connection, j.id, [one.claim.job_id for one in ends]), j.state.in_(_LIVE)
    )
    live = {int(id_): fence for id_, fence in connection.execute(query.with_for_update()).all()}
    mine = [one for one in ends if live.get(one.claim.job_id) == one.claim.fence]
    now = db_now(connection)
    alike: dict[tuple[JobState, str, int], list[int]] = {}
    for one in mine:
        alike.setdefault((one.state, one.outcome, one.kills), []).append(one.claim.job_id)
    for (state, outcome, kills), ids in alike.items():
        values = {"state": state, "outcome": outcome, "kills": j.kills + kills, "updated_at": now}
        nobody = {"lease_owner": None, "lease_until": None, "external": None, "cancel_requested": False}
        changed = sa.update(t.job).values(**values, **nobody)
        for start in range(0, len(ids), CHUNK):
            connection.execute(changed.where(among(connection, j.id, ids[start : start + CHUNK])))
    release_reservations(connection, [one.claim.job_id for one in mine if one.state is not JobState.QUEUED])
    return {one.claim.job_id for one in mine}


def to_be_cancelled(connection: Connection, job_ids: Sequence[int]) -> set[int]:
    """Those of these jobs that a person wants to be ended."""
    j = t.job.c
    query = sa.select(j.id).where(among(connection, j.id, job_ids), j.cancel_requested)
    return {int(one) for one in connection.execute(query).scalars()}


def kills_of(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """How many workers each job has killed."""
    query = sa.select(t.job.c.id, t.job.c.kills).where(among(connection, t.job.c.id, job_ids))
    return {int(id_): int(kills) for id_, kills in connection.execute(query).all()}


def orphans(connection: Connection, campaign_id: int, owner: str) -> list[Any]:
    """Live attempts of the campaign that belong to other drivers than `owner`; who asks holds the driver lease:
    (id, job id, fence, rung id, state, started at, last heartbeat)."""
    a = t.attempt.c
    query = (
        sa.select(a.id, a.job_id, a.fence, a.rung_id, a.state, a.started_at, a.heartbeat_at)
        .select_from(t.attempt.outerjoin(t.job, t.job.c.id == a.job_id))
        .where(
            a.campaign_id == campaign_id, a.state.in_([AttemptState.CLAIMED, AttemptState.RUNNING]), a.owner != owner,
            t.job.c.queue.is_(None),  # what workers hold is theirs for as long as their leases run
        )
    )  # fmt: skip
    return list(connection.execute(query))


def take_back(connection: Connection, job_id: int, fence: int) -> bool:
    """The job of an attempt whose driver died waits for a worker again; True if it is cancelled instead, because a
    person asked for it."""
    j = t.job.c
    state = sa.case((j.cancel_requested, JobState.CANCELLED), else_=JobState.QUEUED)
    changed = connection.execute(
        sa.update(t.job)
        .where(j.id == job_id, j.fence == fence, j.state == JobState.RUNNING)
        .values(
            state=state, cancel_requested=False, lease_owner=None, lease_until=None, updated_at=db_now(connection)
        )
        .returning(j.state)
    ).scalar_one_or_none()  # fmt: skip
    if changed == JobState.CANCELLED:
        release_reservation(connection, job_id)
    return changed == JobState.CANCELLED


>>>>>>> e47bbf6 (A decision takes less of a driver: rows of the audit at once, folders of attempts, payloads and hashes only where asked for)
def queued(connection: Connection, campaign_id: int) -> list[Any]:
    """Jobs that were decided and wait for their driver, not for workers elsewhere: (job id, candidate id, rung id,
    replicate, priority), most urgent first."""
    j = t.job.c
    query = (
        sa.select(j.id, j.candidate_id, j.rung_id, j.replicate, j.priority)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.queue.is_(None))
        .order_by(j.priority.desc(), j.id)
        .limit(1000)
    )
    return list(connection.execute(query))


def any_preferred(connection: Connection, campaign_id: int) -> bool:
    """Whether a job that a person asked for waits for a worker."""
    j = t.job.c
    query = sa.select(j.id).where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.priority >= PREFERRED)
    return connection.execute(query.limit(1)).first() is not None


def any_queued(connection: Connection, rung_id: int) -> bool:
    """Whether a job of this rung was decided and waits for a worker."""
    j = t.job.c
    query = sa.select(j.id).where(j.rung_id == rung_id, j.state == JobState.QUEUED).limit(1)
    return connection.execute(query).first() is not None


def any_offered(connection: Connection, queue: str) -> bool:
    """Whether a job waits in this queue for anybody who works on it."""
    j = t.job.c
    query = sa.select(j.id).where(j.queue == queue, j.state == JobState.QUEUED).limit(1)
    return connection.execute(query).first() is not None
<<<<<<< HEAD
=======


def requeue(connection: Connection, campaign_id: int, rung_id: int, outcomes: Sequence[str]) -> list[int]:
    """Failed jobs of a rung that ended in one of these outcomes wait for a worker again; returns their candidates."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(
            j.campaign_id == campaign_id,
            j.rung_id == rung_id,
            j.state == JobState.FAILED,
            j.outcome.in_(outcomes),
        )
        .values(state=JobState.QUEUED, outcome=None, queue=None, updated_at=db_now(connection))
        .returning(j.candidate_id)
    )
    return [int(i) for i in changed.scalars()]


def _by_resource(amounts: Mapping[str, float], **columns: Any) -> list[dict[str, Any]]:
    """A row for each resource."""
    return [columns | {"resource": resource, "amount": amount} for resource, amount in amounts.items()]


def reserve(connection: Connection, campaign_id: int, job_id: int, amounts: Mapping[str, float]) -> None:
    reserve_many(connection, campaign_id, {job_id: amounts})


def reserve_many(connection: Connection, campaign_id: int, by_job: Mapping[int, Mapping[str, float]]) -> None:
    """Hold what each job is expected to cost at most, until it ends."""
    rows = [row for job_id, amounts in by_job.items() for row in _by_resource(amounts, job_id=job_id)]
    execute_many(connection, t.reservation, rows, {"campaign_id": campaign_id, "at": db_now(connection)})


def release_reservation(connection: Connection, job_id: int) -> None:
    release_reservations(connection, [job_id])


def release_reservations(connection: Connection, job_ids: Sequence[int]) -> None:
    r = t.reservation.c
    if job_ids:
        connection.execute(
            sa.update(t.reservation)
            .where(among(connection, r.job_id, job_ids), r.released_at.is_(None))
            .values(released_at=db_now(connection))
        )


def reserved(connection: Connection, campaign_id: int) -> dict[str, float]:
    r = t.reservation.c
    query = sa.select(r.resource, sa.func.sum(r.amount)).where(r.campaign_id == campaign_id, r.released_at.is_(None))
    return {k: float(v) for k, v in connection.execute(query.group_by(r.resource))}


def held(connection: Connection, campaign_id: int) -> dict[int, dict[str, float]]:
    """What is reserved for each job: {job id: {resource: amount}}."""
    r = t.reservation.c
    query = sa.select(r.job_id, r.resource, r.amount).where(r.campaign_id == campaign_id, r.released_at.is_(None))
    found: dict[int, dict[str, float]] = {}
    for job_id, resource, amount in connection.execute(query):
        found.setdefault(job_id, {})[resource] = found.get(job_id, {}).get(resource, 0.0) + float(amount)
    return found


class Bill(NamedTuple):
    """What an attempt cost."""

    campaign_id: int
    rung_id: int | None
    attempt_id: int | None
    cost: Mapping[str, float]


def book(
    connection: Connection, campaign_id: int, rung_id: int | None, attempt_id: int | None, cost: Mapping[str, float]
) -> None:  # fmt: skip
    """Book what an attempt cost; lost attempts are booked like others."""
    book_many(connection, [Bill(campaign_id, rung_id, attempt_id, cost)])


def book_many(connection: Connection, bills: Sequence[Bill]) -> None:
    rows = [
        row
        for one in bills
        for row in _by_resource(
            one.cost, campaign_id=one.campaign_id, rung_id=one.rung_id, attempt_id=one.attempt_id
        )
        if row["amount"]
    ]  # fmt: skip
    execute_many(connection, t.spend, rows, {"at": db_now(connection)})


class CostSeen(NamedTuple):
    """What a verification cost against what its verifier declared."""

    verifier: str
    version: str
    settings_hash: str
    candidate_id: int
    attempt_id: int
    declared: Mapping[str, float]
    actual: Mapping[str, float]


def observe_costs(connection: Connection, seen: Sequence[CostSeen]) -> None:
    rows = [
        {
            "verifier": one.verifier, "verifier_version": one.version, "settings_hash": one.settings_hash,
            "candidate_id": one.candidate_id, "attempt_id": one.attempt_id, "resource": resource, "amount": amount,
            "declared": one.declared.get(resource, 0.0),
        }
        for one in seen
        for resource, amount in one.actual.items()
    ]  # fmt: skip
    execute_many(connection, t.cost_observation, rows, {"at": db_now(connection)})


def cost_ratios(
    connection: Connection, verifier: str, version: str, settings_hash: str, last: int = 200
) -> list[float]:
    """Observed over declared core-seconds of the last verifications with these settings."""
    c = t.cost_observation.c
    query = (
        sa.select(c.amount, c.declared)
        .where(
            c.verifier == verifier, c.verifier_version == version, c.settings_hash == settings_hash,
            c.resource == "core_seconds",
        )
        .order_by(c.id.desc())
        .limit(last)
    )  # fmt: skip
    return [amount / declared for amount, declared in connection.execute(query) if declared > 0]
>>>>>>> e47bbf6 (A decision takes less of a driver: rows of the audit at once, folders of attempts, payloads and hashes only where asked for)
