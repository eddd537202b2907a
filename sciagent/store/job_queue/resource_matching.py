"""Which job a slot may take where some jobs need more than a core: what is free at its worker and in the ledger now,
and whose turn it is.

A job that does not fit is passed by those that do. One that has waited for `PATIENCE_SECONDS` keeps a place: of the
workers that could hold it one takes nothing less urgent that needs what it lacks, and a licence that it lacks goes to
nobody less urgent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import product
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.needs import CORES, GPU, read
from sciagent.domain.states import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import licences, workers
from sciagent.store.job_queue.leases import Claim
from sciagent.store.job_queue.worker_resources import Has, has_of, lacking
from sciagent.store.job_queue.workers import WorkerRow

PATIENCE_SECONDS = 600.0  # a job that has waited so long is not passed any more by what needs the same
MOST_PATIENT = 100  # of these, the most urgent, are looked at
PULLING = ("ledger", "celery")  # executors whose workers claim by themselves


def some_are_needy(queues: Sequence[str]) -> Any:
    """Whether any job that waits in these queues, or runs, needs more than a core: a column for the question who is
    next, so that it costs no further one where there is none."""
    j = t.job.alias().c
    there = sa.exists().where(
        j.needs.is_not(None), j.state.in_([JobState.QUEUED, JobState.RUNNING]), j.queue.in_(queues)
    )
    return there.label("needy")


def may_fit(bare: bool, memory_mb: int | None) -> Any:
    """What can be said of a job by itself. bare: for a worker that never said what it has. memory_mb: of what needs one
    core; at what needs more `pick` looks."""
    j = t.job.c
    small = sa.true() if memory_mb is None else sa.or_(j.memory_mb.is_(None), j.memory_mb <= memory_mb)
    return sa.and_(j.needs.is_(None), small) if bare else sa.or_(j.needs.is_not(None), small)


@dataclass(frozen=True)
class Pick:
    """row: of the job. holds: what its attempt will hold; None: a core."""

    row: Any
    holds: Mapping[str, Any] | None


@dataclass
class _Free:
    """own: of the worker, shared: licences. gpus: which are free."""

    own: dict[str, int]
    shared: dict[str, int]
    gpus: list[int]

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
    """The job that a slot of this worker shall take now, locked; None where none fits. Until the transaction ends
    nobody else counts what is free there. open_: jobs that could be taken, most urgent first. memory_mb: for each core,
    if the worker has no more cores than slots; else for each job. turns: campaigns in the order in which they are
    served."""
    there = [None, *kinds(connection, queues)]
    free = _free(connection, worker, has, [read(one) for one in there])
    if free.own[CORES] < 1:
        return None
    heads = list[Any]()
    for kind in there:
        first = open_.where(*_of_kind(kind, has, memory_mb)).limit(1)
        for queue, campaign_id in product(queues, turns):
            mine = first.where(t.job.c.queue == queue, t.job.c.campaign_id == campaign_id)
            heads += connection.execute(mine).all()
    heads.sort(key=lambda row: (turns.index(row.campaign_id), -row.priority, row.id))
    fits = [one for one in heads if not free.lacks(read(one.needs))]
    kept = _kept(connection, open_, queues, worker, free) if len(fits) < len(heads) else []
    for one in fits:
        alike = open_.where(*_of_kind(one.needs, has, memory_mb))
        alike = alike.where(t.job.c.queue == one.queue, t.job.c.campaign_id == one.campaign_id)
        row = connection.execute(alike.limit(1).with_for_update(skip_locked=True)).first()
        if row is not None and not any(patient.keeps_from(row) for patient in kept):
            return Pick(row, None if row.needs is None else free.holds(read(row.needs)))
    return None


def hold(connection: Connection, claim: Claim, holds: Mapping[str, Any]) -> Claim:
    """From now on, until the attempt ends, this is in use; the claim with the GPUs that are its own."""
    connection.execute(sa.update(t.attempt).where(t.attempt.c.id == claim.attempt_id).values(holds=dict(holds)))
    return replace(claim, gpus=tuple(holds.get(GPU, ())))


def kinds(connection: Connection, queues: Sequence[str]) -> list[str]:
    """What the jobs that wait in these queues need, where it is more than a core."""
    j = t.job.c
    query = sa.select(j.needs).where(j.needs.is_not(None), j.state == JobState.QUEUED, j.queue.in_(queues)).distinct()
    return [str(one) for one in connection.execute(query).scalars()]


def _of_kind(kind: str | None, has: Has, memory_mb: int | None) -> list[Any]:
    j = t.job.c
    found: list[Any] = [j.needs.is_(None) if kind is None else j.needs == kind]
    if memory_mb is not None:
        found.append(sa.or_(j.memory_mb.is_(None), j.memory_mb <= memory_mb * has.shares(read(kind))))
    return found


def _free(connection: Connection, worker: str, has: Has, wanted: Sequence[Mapping[str, int]]) -> _Free:
    """Under a lock on the worker's row, and on those of the licences that any job wants. In SQLite whoever writes is
    alone anyway."""
    connection.execute(sa.select(t.worker.c.id).where(t.worker.c.name == worker).with_for_update()).first()
    shared = licences.locked(connection, sorted({name for one in wanted for name in one} - {CORES, GPU}))
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
    """Owners of the slots of this worker that run anything."""
    j = t.job.c
    mine = j.lease_owner.startswith(f"{worker}/", autoescape=True)
    live = (j.state == JobState.RUNNING, j.lease_until.is_not(None))
    found = connection.execute(sa.select(j.lease_owner).where(*live, mine)).scalars()
    return {str(one) for one in found if str(one).rpartition("/")[0] == worker}


@dataclass(frozen=True)
class _Patient:
    """A job that has waited long. lacks: what nobody less urgent may take from it here."""

    priority: float
    id: int
    lacks: frozenset[str]

    def keeps_from(self, one: Any) -> bool:
        comes_after = (-one.priority, one.id) > (-self.priority, self.id)
        return comes_after and bool(self.lacks & read(one.needs).keys())


def _kept(
    connection: Connection, open_: sa.Select[Any], queues: Sequence[str], worker: str, free: _Free
) -> list[_Patient]:
    """Those for which something is kept here. The most urgent of them is that of the worker that has been there
    longest among those that could hold it, the next is that of another, and so on: so they do not all stand idle for
    one job."""
    j = t.job.c
    before = db_now(connection) - timedelta(seconds=PATIENCE_SECONDS)
    long = open_.where(j.needs.is_not(None), j.queue.in_(queues), j.updated_at < before)
    found = connection.execute(long.limit(MOST_PATIENT)).all()
    if not found:
        return []
    total = licences.totals(connection)
    pulling = [one for one in workers.alive(connection) if _pulls(one, queues)]
    chosen, kept = set[str](), list[_Patient]()
    for one in found:
        needs = read(one.needs)
        able = [w.name for w in pulling if has_of(w).could_hold(needs, total, one.memory_mb)]
        if not able:  # else it would keep a licence for ever
            continue
        mine = next((name for name in able if name not in chosen), None)
        if mine is not None:
            chosen.add(mine)
        lacks = free.lacks(needs)
        if names := {name for name in lacks if mine == worker or free.shared.get(name, needs[name]) < needs[name]}:
            kept.append(_Patient(one.priority, one.id, frozenset(names)))
    return kept


def _pulls(one: WorkerRow, queues: Sequence[str]) -> bool:
    return one.executor in PULLING and not one.draining and bool({*one.queues} & {*queues})
