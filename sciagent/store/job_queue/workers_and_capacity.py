"""Registered workers, one row each, renewed while the worker lives, and their resources.

A worker runs the jobs on which it has leases. The second half of the module computes from the resources of workers how
many jobs fit, why no worker can run a job, and which amounts are in use or free.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states_and_needs import CORES, GPU, JobState, ReportedProgress, in_words, parse_needs
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue.attempts import progress_of
from sciagent.store.job_queue.jobs import JOBS_WITH_NAMES
from sciagent.store.job_queue.leases import LEASE_SECONDS

# a worker that does not report for this time counts as dead; a worker reports four times within it
SEEN_SECONDS = 0.75 * LEASE_SECONDS


@dataclass(frozen=True)
class NewWorker:
    """The facts that a worker states about itself when it registers."""

    name: str
    """Unique name; the owners of the worker's leases begin with it."""
    host: str
    pid: int
    executor: str
    queues: tuple[str, ...]
    slots: int
    """Number of jobs at a time."""
    memory_mb: int | None = None
    """Memory for all slots together, in MB; None if not stated."""
    cores: int | None = None
    """Cores for all slots together; None for as many as slots."""
    resources: dict[str, int] = field(default_factory=dict)
    """{name: amount}, including GPUs."""

    @property
    def amounts(self) -> dict[str, int]:
        """{name: amount}, including cores."""
        return {CORES: self.slots if self.cores is None else self.cores, **self.resources}

    def memory_for(self, needs: Mapping[str, int]) -> float:
        """Largest memory of a job with these needs, in MB; infinity if the worker states no memory.

        A job of n cores gets the shares of n slots. Each other job holds a core, too, so n - 1 slots stay empty beside
        it. On a worker with more cores than slots, jobs may fill all other slots, and a job gets a single share.
        """
        if self.memory_mb is None:
            return math.inf
        memory_per_slot = self.memory_mb // self.slots
        n_shares = needs[CORES] if self.amounts[CORES] <= self.slots else 1
        return memory_per_slot * n_shares

    def at_once(self, needs: Mapping[str, int], memory_mb: int | None) -> int:
        """Number of jobs with these needs that the worker can hold if it runs no other job.

        memory_mb: memory limit of each job; None: no limit.
        """
        if self.memory_for(needs) < (memory_mb or 0):
            return 0
        jobs_by_resource = [self.amounts.get(name, 0) // n for name, n in needs.items()]
        return min(self.slots, *jobs_by_resource)


@dataclass(frozen=True)
class WorkerRow(NewWorker):
    """A registered worker as read from the ledger."""

    started_at: datetime | None = None
    seen_at: datetime | None = None
    until: datetime | None = None
    """Time from which the worker counts as dead unless it reports again."""
    draining: bool = False
    """Whether the worker takes no new jobs."""
    stopped_at: datetime | None = None


@dataclass(frozen=True)
class RunningJob:
    """A job that a worker holds."""

    owner: str
    """Owner of its lease."""
    job_id: int
    campaign: str
    rung: str
    candidate: str
    since: datetime
    holds: dict[str, Any] | None = None
    """{resource or licence: amount}, for GPUs their indices; None if the job holds a single core."""
    name: str | None = None
    """A name of the candidate from an input file; None if it has none."""
    progress: ReportedProgress | None = None
    """The last report of progress; None if the job has reported none."""

    @property
    def worker(self) -> str:
        """Name of the worker; for a campaign's own driver the whole owner."""
        return self.owner.rpartition("/")[0] or self.owner


def register(connection: Connection, new: NewWorker) -> None:
    """Register the worker. Registering again after a lost connection renews its row."""
    w = t.worker.c
    now = db_now(connection)
    values = {**vars(new), "queues": list(new.queues), "seen_at": now, "until": now + timedelta(seconds=SEEN_SECONDS)}
    renewed = connection.execute(sa.update(t.worker).where(w.name == new.name).values(**values, stopped_at=None))
    if not renewed.rowcount:
        connection.execute(sa.insert(t.worker).values(**values, started_at=now, draining=False))


def report_alive(connection: Connection, name: str) -> bool:
    """Record that the worker lives. Returns whether it is draining."""
    w = t.worker.c
    now = db_now(connection)
    update = sa.update(t.worker).where(w.name == name).returning(w.draining)
    update = update.values(seen_at=now, until=now + timedelta(seconds=SEEN_SECONDS))
    return bool(connection.execute(update).scalar_one_or_none())


def report_stopped(connection: Connection, name: str) -> None:
    """Record that the worker has stopped."""
    now = db_now(connection)
    connection.execute(sa.update(t.worker).where(t.worker.c.name == name).values(until=now, stopped_at=now))


def drain(connection: Connection, name: str, draining: bool = True) -> bool:
    """Make the worker take no new jobs, or take them again. Returns False if no such worker is registered."""
    changed = connection.execute(sa.update(t.worker).where(t.worker.c.name == name).values(draining=draining))
    return changed.rowcount == 1


def alive(connection: Connection) -> list[WorkerRow]:
    """Workers that do not count as dead, oldest first."""
    return reported_since(connection, db_now(connection))


def reported_since(connection: Connection, moment: datetime) -> list[WorkerRow]:
    """Workers that counted as alive at that moment or later, oldest first."""
    w = t.worker.c
    query = sa.select(*(w[name] for name in WorkerRow.__dataclass_fields__)).where(w.until > moment)
    # `until` orders the workers that started at one moment
    rows = connection.execute(query.order_by(w.until)).mappings()
    workers = []
    for row in rows:
        columns = {**row, "queues": tuple(row["queues"]), "resources": row["resources"] or {}}
        workers.append(WorkerRow(**columns))
    return sorted(workers, key=attrgetter("started_at"))


def slots_of(workers: Sequence[WorkerRow]) -> dict[str, int]:
    """{queue: number of slots of these workers}; draining workers do not count."""
    by_queue = dict[str, int]()
    for worker in workers:
        if worker.draining:
            continue
        for queue in worker.queues:
            by_queue[queue] = by_queue.get(queue, 0) + worker.slots
    return by_queue


def running_jobs(connection: Connection, limit: int = 1000, campaign_id: int | None = None) -> list[RunningJob]:
    """The jobs that workers hold, longest running first. campaign_id: only jobs of this campaign."""
    j = t.job.c
    r = t.rung.c
    c = t.campaign.c
    a = t.attempt.c
    n = t.candidate_name.c
    of_campaign = sa.or_(n.campaign_id.is_(None), n.campaign_id == j.campaign_id)
    own_first = (n.campaign_id.is_(None), n.id)  # names of a file with values count only without others
    first_name = sa.select(n.text).where(n.candidate_id == j.candidate_id, of_campaign).order_by(*own_first).limit(1)
    query = (
        sa.select(j.lease_owner, j.id, c.name, r.name, t.candidate.c.text, a.started_at, a.holds)
        .add_columns(first_name.correlate(t.job).scalar_subquery(), a.progress, a.progress_at)
        .select_from(JOBS_WITH_NAMES.join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence)))
        .where(j.state == JobState.RUNNING, j.lease_until.is_not(None))
        .order_by(a.started_at)
        .limit(limit)
    )
    if campaign_id is not None:
        query = query.where(j.campaign_id == campaign_id)
    now = db_now(connection)
    listed = []
    for *first, progress, reported_at in connection.execute(query).all():
        listed.append(RunningJob(*[*first, progress_of(progress, reported_at, now)]))
    return listed


def queue_depths(connection: Connection, queues: Sequence[str]) -> dict[str, int]:
    """{queue: number of queued jobs}."""
    j = t.job.c
    query = sa.select(j.queue, sa.func.count()).where(j.queue.in_(queues), j.state == JobState.QUEUED).group_by(j.queue)
    return {queue: n for queue, n in connection.execute(query)}


CLUSTER_EXECUTOR = "slurm"  # the executor whose cluster's partitions decide which jobs fit


@dataclass(frozen=True)
class Capacity:
    """The number of jobs of one kind that the workers of a queue can run."""

    most: int
    """Number of jobs at a time if no other job runs."""
    missing: str = ""
    """Why no such job can ever run; empty if one can, or if no worker serves the queue."""


def capacity(
    alive: Sequence[WorkerRow], queue: str, needs: Mapping[str, int], memory_mb: int | None = None
) -> Capacity:
    """The queue's capacity for jobs with these needs. alive: live workers. memory_mb: memory limit of a job."""
    serving = [worker for worker in alive if queue in worker.queues and worker.slots and not worker.draining]
    # whether a job fits a cluster is not known here, so each of its slots counts
    cluster_slots = sum(worker.slots for worker in serving if worker.executor == CLUSTER_EXECUTOR)
    # workers that take jobs from the queue themselves
    pulling = [worker for worker in serving if worker.executor != CLUSTER_EXECUTOR]
    max_jobs = cluster_slots + sum(worker.at_once(needs, memory_mb) for worker in pulling)
    if serving and max_jobs == 0:
        # no cluster serves the queue, since its slots would count; so `pulling` is not empty
        return Capacity(max_jobs, _missing(pulling, needs, memory_mb))
    return Capacity(max_jobs)


def _missing(pulling: Sequence[NewWorker], needs: Mapping[str, int], memory_mb: int | None) -> str:
    """Why none of these workers can ever run a job with these needs, in words."""
    shortages = []
    max_mb = max(worker.memory_for(needs) for worker in pulling)
    if max_mb < (memory_mb or 0):
        shortages.append(f"it may use {memory_mb} MB, and the most that a worker has for one is {max_mb:.0f} MB")
    for name, n in needs.items():
        max_amount = max(worker.amounts.get(name, 0) for worker in pulling)
        if max_amount == 0:
            shortages.append(f"no worker has {name} (sciagent worker --resource {name}={n})")
        elif max_amount < n:
            shortages.append(f"the most {name} that a worker has are {max_amount}")
    return "; ".join(shortages) or "each is there, but not all of it at one worker"


def distinct_needs(
    connection: Connection, queues: Sequence[str], states: Sequence[JobState] = (JobState.QUEUED,)
) -> list[str]:
    """The distinct needs of jobs in these queues, except needs of one core only."""
    j = t.job.c
    query = sa.select(j.needs).where(j.needs.is_not(None), j.state.in_(states), j.queue.in_(queues)).distinct()
    return list(connection.execute(query).scalars())


def impossible_requests(connection: Connection, queue: str) -> list[str]:
    """One message for each resource request in this queue that no live worker can ever satisfy."""
    live_workers = alive(connection)
    messages = []
    for needs_text in distinct_needs(connection, [queue]):
        needs = parse_needs(needs_text)
        capacity_ = capacity(live_workers, queue, needs)
        if capacity_.missing:
            messages.append(impossible_request_text(queue, needs, capacity_))
    return messages


def impossible_request_text(queue: str, needs: Mapping[str, int], capacity_: Capacity) -> str:
    """The message that no worker of the queue can satisfy these needs. capacity_: the queue's capacity for them."""
    return f"no worker of queue {queue} can ever hold a job that needs {in_words(needs)}: {capacity_.missing}"


@dataclass(frozen=True)
class FreeResources:
    """The resources of a worker that its running jobs do not use."""

    amounts: Mapping[str, int]
    """{resource: free amount}, including cores."""
    gpus: Sequence[int]
    """Indices of the free GPUs."""

    def fits(self, needs: Mapping[str, int]) -> bool:
        """Whether a job with these needs can start now."""
        return all(self.amounts.get(name, 0) >= n for name, n in needs.items())

    def holds(self, needs: Mapping[str, int]) -> Mapping[str, Any]:
        """The resources given to a job with these needs: amounts, and for GPUs their indices."""
        if GPU not in needs:
            return dict(needs)
        return {**needs, GPU: list(self.gpus[: needs[GPU]])}


def free_resources(connection: Connection, worker: NewWorker) -> FreeResources:
    """The worker's free resources. Its row stays locked, so that two of its slots cannot claim at the same time."""
    connection.execute(sa.select(t.worker.c.id).where(t.worker.c.name == worker.name).with_for_update())
    j = t.job.c
    a = t.attempt.c
    query = (
        sa.select(j.lease_owner, a.holds)
        .join(t.attempt, sa.and_(a.job_id == j.id, a.fence == j.fence))
        .where(j.state == JobState.RUNNING, j.lease_until.is_not(None))
        .where(j.lease_owner.startswith(f"{worker.name}/", autoescape=True))
    )
    held = list[tuple[str, Mapping[str, Any] | None]]()
    used_gpus = set[int]()
    for owner, holds in connection.execute(query).all():
        # a name may hold a slash: the slots of a worker `a/b` begin with `a/`, as those of a worker `a` do
        worker_name = owner.rpartition("/")[0]
        if worker_name == worker.name:
            held.append((owner, holds))
            used_gpus.update((holds or {}).get(GPU, ()))
    used = amounts_in_use(held)
    amounts = {name: n - used.get(name, 0) for name, n in worker.amounts.items()}
    n_gpus = worker.resources.get(GPU, 0)
    return FreeResources(amounts, [i for i in range(n_gpus) if i not in used_gpus])


@dataclass(frozen=True)
class ResourceUse:
    """The amount of one resource that is in use."""

    name: str
    used: int
    total: int


def amounts_in_use(held: Iterable[tuple[str, Mapping[str, Any] | None]]) -> dict[str, int]:
    """{resource: amount in use}. held: (lease owner, resources held) of each running job.

    An owner is a slot. It may run several jobs in one call, with the same resources, which count once. A slot whose
    jobs state no number of cores holds one.
    """
    by_owner = dict[str, dict[str, Any]]()
    for owner, holds in held:
        by_owner.setdefault(owner, {CORES: 1}).update(holds or {})
    used = dict[str, int]()
    for resources in by_owner.values():
        for name, held_amount in resources.items():
            n = len(held_amount) if isinstance(held_amount, list) else int(held_amount)
            used[name] = used.get(name, 0) + n
    return used


def use_by_worker(alive: Sequence[WorkerRow], running: Sequence[RunningJob]) -> dict[str, list[ResourceUse]]:
    """{worker: use of its cores and other resources}. running: the running jobs of all workers."""
    by_worker = {}
    for worker in alive:
        held = [(job.owner, job.holds) for job in running if job.worker == worker.name]
        used = amounts_in_use(held)
        by_worker[worker.name] = [ResourceUse(name, used.get(name, 0), n) for name, n in worker.amounts.items()]
    return by_worker


def summed_use(by_worker: Mapping[str, Sequence[ResourceUse]]) -> list[ResourceUse]:
    """Use of the resources other than cores, summed over the workers."""
    sums: dict[str, ResourceUse] = {}
    for use in chain.from_iterable(by_worker.values()):
        if use.name != CORES:
            before = sums.get(use.name, ResourceUse(use.name, 0, 0))
            sums[use.name] = ResourceUse(use.name, before.used + use.used, before.total + use.total)
    return list(sums.values())
