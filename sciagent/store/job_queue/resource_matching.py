"""Which job a slot may take where some jobs need more than a core, given the free resources and the campaigns' turns.

A job that does not fit is passed over for jobs that do. After `PATIENCE_SECONDS` it gets a reservation: a single
eligible worker takes no lower-priority job that competes for the same resources, and the licences it needs are held
back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.needs import CORES, GPU, read
from sciagent.domain.jobs.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import licences, workers
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.worker_resources import Has, has_of, lacking
from sciagent.store.job_queue.workers import WorkerRow

PATIENCE_SECONDS = 600.0  # after this wait a job is no longer passed over for jobs that need the same resources
MOST_PATIENT = 100  # at most so many of these jobs get a reservation, the most urgent first
PULLING = ("ledger", "celery")  # executors whose workers claim by themselves


def some_are_needy(queues: Sequence[str]) -> Any:
    """Whether any queued or running job of these queues needs more than a core.

    A column for the query of the next campaign, so that ledgers without such jobs pay for no further query.
    """
    j = t.job.alias().c
    there = sa.exists().where(
        j.needs.is_not(None), j.state.in_([JobState.QUEUED, JobState.RUNNING]), j.queue.in_(queues)
    )
    return there.label("needy")


def may_fit(bare: bool, memory_mb: int | None) -> Any:
    """SQL condition on a job alone for fitting a worker.

    bare: the worker did not state its resources. memory_mb: limit for jobs of a single core; `pick` checks the others.
    """
    j = t.job.c
    small = sa.true() if memory_mb is None else sa.or_(j.memory_mb.is_(None), j.memory_mb <= memory_mb)
    return sa.and_(j.needs.is_(None), small) if bare else sa.or_(j.needs.is_not(None), small)


@dataclass(frozen=True)
class Pick:
    """A job that a slot may take."""

    row: Any
    """The job's row."""
    holds: Mapping[str, Any] | None
    """What its attempt will hold; None for a single core."""


@dataclass
class _Free:
    """What is free for a worker now."""

    own: dict[str, int]
    """{resource of the worker: how many}."""
    shared: dict[str, int]
    """{licence: how many}."""
    gpus: list[int]
    """Indices of the free GPUs."""

    def lacks(self, needs: Mapping[str, int]) -> dict[str, int]:
        return lacking(needs, self.own, self.shared)

    def holds(self, needs: Mapping[str, int]) -> Mapping[str, Any]:
        return {**needs, **({GPU: self.gpus[: needs[GPU]]} if GPU in needs else {})}


def pick(
    connection: Connection,
    open_: sa.Select[Any],
    queues: Sequence[str],
    worker: str,
    has: Has,
    memory_mb: int | None,
    turns: Sequence[int],
) -> Pick | None:
    """The job that a slot of this worker takes now, locked; None where none fits.

    The worker and the licences stay locked until the transaction ends. open_: claimable jobs, most urgent first.
    memory_mb: per core if the worker has no more cores than slots, else per job. turns: campaign ids in serving order.
    """
    needed = [None, *kinds(connection, queues)]
    free = _free(connection, worker, has, [read(kind) for kind in needed])
    if free.own[CORES] < 1:
        return None
    heads = list[Any]()
    for kind in needed:
        first = open_.where(*_of_kind(kind, has, memory_mb)).limit(1)
        for queue, campaign_id in product(queues, turns):
            mine = first.where(t.job.c.queue == queue, t.job.c.campaign_id == campaign_id)
            heads += connection.execute(mine).all()
    heads.sort(key=lambda row: (turns.index(row.campaign_id), -row.priority, row.id))
    fits = [head for head in heads if not free.lacks(read(head.needs))]
    kept = _kept(connection, open_, queues, worker, free) if len(fits) < len(heads) else []
    for head in fits:
        alike = open_.where(*_of_kind(head.needs, has, memory_mb))
        alike = alike.where(t.job.c.queue == head.queue, t.job.c.campaign_id == head.campaign_id)
        row = connection.execute(alike.limit(1).with_for_update(skip_locked=True)).first()
        if row is not None and not any(patient.keeps_from(row) for patient in kept):
            return Pick(row, None if row.needs is None else free.holds(read(row.needs)))
    return None


def hold(connection: Connection, claim: Claim, holds: Mapping[str, Any]) -> Claim:
    """Mark the resources as in use until the attempt ends. Returns the claim with its GPUs."""
    connection.execute(sa.update(t.attempt).where(t.attempt.c.id == claim.attempt_id).values(holds=dict(holds)))
    return replace(claim, gpus=tuple(holds.get(GPU, ())))


def kinds(connection: Connection, queues: Sequence[str]) -> list[str]:
    """The distinct needs of queued jobs in these queues, where they are more than a core."""
    j = t.job.c
    query = sa.select(j.needs).where(j.needs.is_not(None), j.state == JobState.QUEUED, j.queue.in_(queues)).distinct()
    return [str(needs) for needs in connection.execute(query).scalars()]


def _of_kind(kind: str | None, has: Has, memory_mb: int | None) -> list[Any]:
    j = t.job.c
    conditions: list[Any] = [j.needs.is_(None) if kind is None else j.needs == kind]
    if memory_mb is not None:
        conditions.append(sa.or_(j.memory_mb.is_(None), j.memory_mb <= memory_mb * has.shares(read(kind))))
    return conditions


def _free(connection: Connection, worker: str, has: Has, wanted: Sequence[Mapping[str, int]]) -> _Free:
    """What is free for the worker, with its row and those of the wanted licences locked.

    SQLite needs no row locks: it has a single writer.
    """
    connection.execute(sa.select(t.worker.c.id).where(t.worker.c.name == worker).with_for_update()).first()
    shared = licences.locked(connection, sorted({name for needs in wanted for name in needs} - {CORES, GPU}))
    held = licences.live(connection)
    mine = [(owner, holds) for owner, holds in held if owner.rpartition("/")[0] == worker]
    used, everywhere = licences.in_use(mine), licences.in_use(held)
    busy = _busy(connection, worker) - {owner for owner, _ in mine}
    own = {name: n - used.get(name, 0) for name, n in {CORES: has.cores, **has.resources}.items()}
    own[CORES] -= len(busy)
    taken = {i for _, holds in mine for i in holds.get(GPU, ())}
    gpus = [i for i in range(has.resources.get(GPU, 0)) if i not in taken]
    return _Free(own, {name: n - everywhere.get(name, 0) for name, n in shared.items()}, gpus)


def _busy(connection: Connection, worker: str) -> set[str]:
    """Lease owners of this worker's slots that run a job."""
    j = t.job.c
    mine = j.lease_owner.startswith(f"{worker}/", autoescape=True)
    live = (j.state == JobState.RUNNING, j.lease_until.is_not(None))
    owners = connection.execute(sa.select(j.lease_owner).where(*live, mine)).scalars()
    return {str(owner) for owner in owners if str(owner).rpartition("/")[0] == worker}


@dataclass(frozen=True)
class _Patient:
    """A job that has waited long."""

    priority: float
    id: int
    lacks: frozenset[str]
    """Resources that no less urgent job may take here."""

    def keeps_from(self, job: Any) -> bool:
        comes_after = (-job.priority, job.id) > (-self.priority, self.id)
        return comes_after and bool(self.lacks & read(job.needs).keys())


def _kept(
    connection: Connection, open_: sa.Select[Any], queues: Sequence[str], worker: str, free: _Free
) -> list[_Patient]:
    """Long-waiting jobs for which this worker keeps resources free.

    The most urgent job is assigned to the oldest worker that could hold it, the next to another worker, and so on, so
    that not all workers stand idle for the same job.
    """
    j = t.job.c
    before = db_now(connection) - timedelta(seconds=PATIENCE_SECONDS)
    long = open_.where(j.needs.is_not(None), j.queue.in_(queues), j.updated_at < before)
    waiting = connection.execute(long.limit(MOST_PATIENT)).all()
    if not waiting:
        return []
    total = licences.totals(connection)
    pulling = [w for w in workers.alive(connection) if _pulls(w, queues)]
    chosen, kept = set[str](), list[_Patient]()
    for job in waiting:
        needs = read(job.needs)
        able = [w.name for w in pulling if has_of(w).could_hold(needs, total, job.memory_mb)]
        if not able:  # else it would keep a licence for ever
            continue
        mine = next((name for name in able if name not in chosen), None)
        if mine is not None:
            chosen.add(mine)
        lacks = free.lacks(needs)
        if names := {name for name in lacks if mine == worker or free.shared.get(name, needs[name]) < needs[name]}:
            kept.append(_Patient(job.priority, job.id, frozenset(names)))
    return kept


def _pulls(worker: WorkerRow, queues: Sequence[str]) -> bool:
    return worker.executor in PULLING and not worker.draining and bool({*worker.queues} & {*queues})
