"""Jobs that any worker may take: offered under the name of a queue, claimed most urgent first, taken back when their
lease runs out. Every write goes by the fence of the claim, and all times are the database's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.cost import Cost
from sciagent.domain.needs import CORES
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.states import AttemptState, JobState, Standing
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, execute_many
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import attempts, jobs, leases, reservations, resource_matching, spend
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.job_queue.jobs import Offer
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.worker_resources import Has

MAX_LOSSES = 5  # a job that vanishes so often with its worker, for whatever reason, is quarantined
SHORT_SECONDS = 0.02  # a job this short shares a process, and a transaction, with others of its rung
MAX_GROUP = 32


_OFFER = sa.update(t.job).where(t.job.c.id == sa.bindparam("of"), t.job.c.state == JobState.QUEUED)
_TAKE_BACK = sa.update(t.job).where(t.job.c.id == sa.bindparam("of"))


def offer_many(connection: Connection, offers: Mapping[int, Offer]) -> None:
    """From now on workers of the queue may take these queued jobs."""
    rows = [{"of": job_id, "external": None, **jobs.offered(one)} for job_id, one in offers.items()]
    execute_many(connection, _OFFER, rows)


def restate_needs(connection: Connection, by_rung: Mapping[int, str | None]) -> None:
    """What jobs of these rungs need, has changed since they were offered."""
    j = t.job.c
    for rung_id, needs in by_rung.items():
        changed = j.needs.is_not(None) if needs is None else sa.func.coalesce(j.needs, "") != needs
        waiting = (j.rung_id == rung_id, j.state == JobState.QUEUED, j.queue.is_not(None), changed)
        connection.execute(sa.update(t.job).where(*waiting).values(needs=needs))


def withdraw(connection: Connection, campaign_id: int) -> list[int]:
    """No worker shall start what it has not taken yet; returns these jobs, which stay queued for a driver."""
    j = t.job.c
    changed = connection.execute(
        sa.update(t.job)
        .where(j.campaign_id == campaign_id, j.state == JobState.QUEUED, j.queue.is_not(None))
        .values(queue=None, external=None, updated_at=db_now(connection))
        .returning(j.id)
    )
    return [int(one) for one in changed.scalars()]


@dataclass(frozen=True)
class _Questions:
    """waiting: jobs that may be taken, most urgent first. urgent: the same, locked, of those that may fit; first: of
    each queue the first."""

    waiting: sa.Select[Any]
    urgent: sa.Select[Any]
    first: tuple[sa.Select[Any], ...]

    def shorter(self, seconds: float) -> _Questions:
        """Of jobs that are expected to take no longer; one of which nobody knows it is left to others."""
        short = t.job.c.seconds <= seconds
        first = tuple(one.where(short) for one in self.first)
        return _Questions(self.waiting.where(short), self.urgent.where(short), first)


@lru_cache(maxsize=64)
def _questions(queues: tuple[str, ...], memory_mb: int | None, skip: tuple[int, ...], bare: bool) -> _Questions:
    """Of a worker, who asks them again and again: putting them together takes as long as asking. bare: it never said
    what it has."""
    j = t.job.c
    open_ = [j.state == JobState.QUEUED, j.external.is_(None), sa.not_(j.cancel_requested)]
    if skip:
        open_.append(j.rung_id.not_in(skip))
    columns = (j.id, j.queue, j.rung_id, j.seconds, j.priority, j.needs, j.memory_mb)
    waiting = (
        sa.select(*columns, resource_matching.some_are_needy(queues)).where(*open_).order_by(j.priority.desc(), j.id)
    )
    urgent = waiting.where(resource_matching.may_fit(bare, memory_mb)).with_for_update(skip_locked=True)
    return _Questions(waiting, urgent, tuple(urgent.where(j.queue == queue).limit(1) for queue in queues))


def claim_next(
    connection: Connection,
    queues: Sequence[str],
    owner: str,
    memory_mb: int | None = None,
    skip: Sequence[int] = (),
    lease_seconds: float = leases.LEASE_SECONDS,
    has: Has | None = None,
    seconds: float | None = None,
) -> list[Claim]:
    """The most urgent job of these queues, or it and others as short of the same rung; empty where there is none.

    memory_mb: what a job on one core may ask for at most. seconds: what it may be expected to take at most. skip: rungs
    that the worker cannot run. has: what the worker has, with whose name that of the owner begins; None: cores, as many
    as it has slots. On PostgreSQL a row that somebody else is about to take is passed over.
    """
    j, asked = t.job.c, _questions(tuple(queues), memory_mb, tuple(skip), has is None)
    if seconds is not None:
        asked = asked.shorter(seconds)
    found = [one for first in asked.first for one in connection.execute(first).all()]
    if not found:
        return []
    first, holds = max(found, key=lambda one: one.priority), None
    if has is not None and (first.needy or has.cores < has.slots):
        picked = resource_matching.pick(connection, asked.waiting, queues, owner.rpartition("/")[0], has, memory_mb)
        if picked is None:
            return []
        first, holds = picked.row, picked.holds
    some = [first.id]
    if _is_short(first.seconds):
        alike = asked.urgent.where(j.queue == first.queue, j.id != first.id).limit(MAX_GROUP - 1)
        some += [one.id for one in connection.execute(alike).all() if _goes_with(one, first)]
    claims = leases.claim_many(connection, some, owner, lease_seconds=lease_seconds)
    if holds is not None and first.id in claims:  # of a group the first holds it for all: they run one after the other
        claims[first.id] = resource_matching.hold(connection, claims[first.id], holds)
    return [claims[job_id] for job_id in some if job_id in claims]


def _goes_with(one: Any, first: Any) -> bool:
    return one.rung_id == first.rung_id and one.needs == first.needs and _is_short(one.seconds)


def _is_short(seconds: float | None) -> bool:
    return seconds is not None and seconds < SHORT_SECONDS


def rungs_of(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """{rung id: campaign id} of these jobs."""
    j = t.job.c
    query = sa.select(j.rung_id, j.campaign_id).where(among(connection, j.id, job_ids)).distinct()
    return {int(rung_id): int(campaign_id) for rung_id, campaign_id in connection.execute(query).all()}


def not_mine(connection: Connection, claims: Sequence[Claim]) -> dict[int, bool]:
    """Of the jobs under these claims those that are lost, or to be cancelled: {job id: whether it is to be cancelled}.
    Nothing is written."""
    j = t.job.c
    query = sa.select(j.id, j.fence, j.state, j.cancel_requested).where(
        among(connection, j.id, [one.job_id for one in claims])
    )
    found = {int(id_): (fence, state, cancel) for id_, fence, state, cancel in connection.execute(query).all()}
    lost = dict[int, bool]()
    for one in claims:
        fence, state, cancel = found.get(one.job_id, (-1, "", False))
        if fence != one.fence or state != JobState.RUNNING:
            lost[one.job_id] = False
        elif cancel:
            lost[one.job_id] = True
    return lost


@dataclass(frozen=True)
class Reaped:
    """A job that was taken back from a worker. state: what it is now."""

    job_id: int
    campaign_id: int
    state: JobState
    queue: str


def reap_expired(connection: Connection, limit: int = 100) -> list[Reaped]:
    """Take back jobs whose lease has run out: their worker is gone, cut off or stalled. Any process may call it."""
    j = t.job.c
    query = sa.select(t.job).where(
        j.state == JobState.RUNNING, j.lease_until < db_now(connection), j.queue.is_not(None)
    )
    query = query.order_by(j.lease_until).limit(limit).with_for_update(skip_locked=True)
    return _take_back(connection, list(connection.execute(query).all()), is_kill=False)


def slot_died(connection: Connection, owner: str) -> list[Reaped]:
    """A process that ran jobs under this owner has died and its supervisor has not: whatever it ran has killed it."""
    a, j = t.attempt.c, t.job.c
    query = (
        sa.select(t.job)
        .join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence))
        .where(a.owner == owner, a.state == AttemptState.RUNNING, j.state == JobState.RUNNING)
        .with_for_update(of=t.job)
    )
    return _take_back(connection, list(connection.execute(query).all()), is_kill=True)


def _take_back(connection: Connection, found: Sequence[Any], is_kill: bool) -> list[Reaped]:
    """Their attempts are lost, and booked to the last heartbeat; the jobs wait again, or have been lost too often."""
    if not found:
        return []
    a, fences = t.attempt.c, {one.id: one.fence for one in found}
    query = sa.select(a.id, a.job_id, a.fence, a.started_at, a.heartbeat_at, a.holds).where(
        among(connection, a.job_id, list(fences)), a.state.in_([AttemptState.CLAIMED, AttemptState.RUNNING])
    )
    live = [one for one in connection.execute(query).all() if one.fence == fences[one.job_id]]
    walls = {one.id: max(0.0, (one.heartbeat_at - one.started_at).total_seconds()) for one in live}
    costs = {one.id: Cost(core_seconds=walls[one.id] * (one.holds or {}).get(CORES, 1)) for one in live}
    reason = Reason.WORKER_DIED if is_kill else Reason.LEASE_EXPIRED
    detail = "the process that ran it died" if is_kill else "its worker was not heard of for as long as a lease"
    attempts.end_many(
        connection,
        [
            AttemptEnd(one.id, AttemptState.LOST, costs[one.id], walls[one.id], Outcome.LOST, reason, detail)
            for one in live
        ],
    )
    by_id = {one.id: one for one in found}
    spend.book_many(
        connection,
        [spend.Bill(by_id[one.job_id].campaign_id, by_id[one.job_id].rung_id, one.id, costs[one.id]) for one in live],
    )
    reaped, rows, now = [], [], db_now(connection)
    for one in found:
        kills, losses = one.kills + is_kill, one.losses + (not is_kill)
        gives_up = kills >= jobs.MAX_KILLS or losses >= MAX_LOSSES
        state = JobState.QUARANTINED if gives_up else JobState.QUEUED
        if one.cancel_requested:
            state = JobState.CANCELLED
        reaped.append(Reaped(one.id, one.campaign_id, state, one.queue))
        over = state is not JobState.QUEUED
        rows.append({"of": one.id, "state": state, "kills": kills, "losses": losses, "lease_owner": None,
                     "lease_until": None, "external": None, "outcome": Outcome.LOST if over else None,
                     "cancel_requested": False, "updated_at": now})  # fmt: skip
    execute_many(connection, _TAKE_BACK, rows)
    reservations.release_many(connection, [one.job_id for one in reaped if one.state is not JobState.QUEUED])
    return reaped


def call_back(connection: Connection, campaign_id: int) -> int:
    """Workers shall have nothing of the campaign any more: what they run is to be run again later, and counts for
    nothing; they end it when they look next. The attempts are booked up to now. Returns how many ran."""
    a, j, now = t.attempt.c, t.job.c, db_now(connection)
    withdraw(connection, campaign_id)
    mine = sa.select(t.job).where(j.campaign_id == campaign_id, j.state == JobState.RUNNING, j.queue.is_not(None))
    found = {one.id: one for one in connection.execute(mine.order_by(j.id).with_for_update()).all()}
    query = sa.select(a.id, a.job_id, a.fence, a.started_at, a.heartbeat_at).where(
        among(connection, a.job_id, list(found)), a.state.in_([AttemptState.CLAIMED, AttemptState.RUNNING])
    )
    ends, booked = [], []
    for one in connection.execute(query).all() if found else []:
        job = found[one.job_id]
        if one.fence == job.fence:
            until = now if job.lease_until > now else one.heartbeat_at
            cost = Cost(core_seconds=max(0.0, (until - one.started_at).total_seconds()))
            ends.append(AttemptEnd(one.id, AttemptState.CANCELLED, cost, cost.get("core_seconds"), Outcome.LOST,
                                   Reason.WORKER_DIED, "called back by who stopped the campaign"))  # fmt: skip
            booked.append(spend.Bill(campaign_id, job.rung_id, one.id, cost))
    attempts.end_many(connection, ends)
    spend.book_many(connection, booked)
    for one in found.values():
        leases.take_back(connection, one.id, one.fence)
    withdraw(connection, campaign_id)
    return len(found)


def request_cancel(connection: Connection, job_ids: Sequence[int]) -> tuple[list[int], list[int]]:
    """Cancel jobs: (those that no worker had taken, and that are over now; those that run, whose workers are told)."""
    j, now = t.job.c, db_now(connection)
    mine = among(connection, j.id, job_ids)
    waiting = (
        connection.execute(
            sa.update(t.job)
            .where(mine, j.state == JobState.QUEUED)
            .values(state=JobState.CANCELLED, updated_at=now)
            .returning(j.id)
        )
        .scalars()
        .all()
    )
    reservations.release_many(connection, [int(one) for one in waiting])
    running = (
        connection.execute(
            sa.update(t.job)
            .where(mine, j.state == JobState.RUNNING)
            .values(cancel_requested=True, updated_at=now)
            .returning(j.id)
        )
        .scalars()
        .all()
    )
    return [int(one) for one in waiting], [int(one) for one in running]


@dataclass(frozen=True)
class Out:
    """A job that a driver has offered and not settled yet. seen: the last of its attempts whose cost is known."""

    job_id: int
    candidate_id: int
    rung_id: int
    seen: int = 0


def outstanding(connection: Connection, campaign_id: int) -> list[Out]:
    """Jobs of the campaign whose candidates wait for them, in whatever state they are, but for those of its driver."""
    cc, j, r = t.campaign_candidate.c, t.job.c, t.rung.c
    ended = sa.select(sa.func.max(t.attempt.c.id)).where(t.attempt.c.job_id == j.id, t.attempt.c.ended_at.is_not(None))
    query = (
        sa.select(j.id, j.candidate_id, j.rung_id, sa.func.coalesce(ended.scalar_subquery(), 0))
        .select_from(
            t.campaign_candidate.join(t.rung, sa.and_(r.campaign_id == cc.campaign_id, r.position == cc.position)).join(
                t.job, sa.and_(j.campaign_id == cc.campaign_id, j.rung_id == r.id, j.candidate_id == cc.candidate_id)
            )
        )
        .where(cc.campaign_id == campaign_id, cc.standing == Standing.PENDING, j.queue.is_not(None))
    )
    return [Out(*map(int, row)) for row in connection.execute(query).all()]


def last_attempts(connection: Connection, job_ids: Sequence[int]) -> dict[int, int]:
    """Of each job that was tried the last attempt that has ended."""
    a = t.attempt.c
    query = sa.select(a.job_id, sa.func.max(a.id)).where(among(connection, a.job_id, job_ids), a.ended_at.is_not(None))
    query = query.group_by(a.job_id)
    return {int(job_id): int(id_) for job_id, id_ in connection.execute(query).all()} if job_ids else {}


@dataclass(frozen=True)
class Ended:
    """What became of a job that was out. cost, wall_seconds: of the attempts that nobody had counted yet, and of the
    last; outcome, reason, detail: of the last."""

    job_id: int
    state: JobState
    cost: Cost
    wall_seconds: float | None
    outcome: Outcome | None
    reason: Reason | None
    detail: str
    kills: int
    losses: int


def ended(connection: Connection, out: Mapping[int, Out]) -> list[Ended]:
    """Those of these jobs that neither wait nor run."""
    j, a = t.job.c, t.attempt.c
    query = sa.select(j.id, j.state, j.outcome, j.kills, j.losses).where(
        among(connection, j.id, list(out)), j.state.not_in([JobState.QUEUED, JobState.RUNNING, JobState.WAITING])
    )
    over = connection.execute(query).all()
    if not over:
        return []
    tries = (
        sa.select(a.id, a.job_id, a.cost, a.wall_seconds, a.outcome, a.reason, a.detail)
        .where(among(connection, a.job_id, [one.id for one in over]))
        .order_by(a.id)
    )
    by_job = dict[int, list[Any]]()
    for each in connection.execute(tries).all():
        if each.id > out[each.job_id].seen:
            by_job.setdefault(each.job_id, []).append(each)
    found = []
    for one in over:
        mine = by_job.get(one.id, [])
        cost = sum((Cost(each.cost) for each in mine), Cost())
        last = mine[-1] if mine else None
        why = Reason(last.reason) if last is not None and last.reason else None
        outcome = Outcome(one.outcome) if one.outcome else None
        wall, detail = (last.wall_seconds, last.detail or "") if last is not None else (None, "")
        state = JobState(one.state)
        found.append(Ended(one.id, state, cost, wall, outcome, why, detail, one.kills, one.losses))
    return found
