"""Figures of running campaigns: metrics for Prometheus, the snapshot of `sciagent top`, and how long a budget will
last.

Counters are computed from the ledger since the start of each campaign, so they survive a restart of this server.
Campaigns without any change for a week are left out.

The time that is left is a range from measured costs, or nothing.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import psutil
import sqlalchemy as sa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import CampaignCounts, RungCounts
from sciagent.domain.states import JobState
from sciagent.domain.text import duration, range_of
from sciagent.errors import LedgerError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import job_lists, workers
from sciagent.store.job_queue.workers import Running, Used, WorkerRow, summed_use, use_by_worker
from sciagent.store.views import campaign_counts, overview
from sciagent.store.views.overview import Failure, Going, Queue

SHARE = 0.02  # largest share of the time for queries that are slow in a large ledger


class Sparing:
    """A cache that repeats a query only as often as a given share of the time allows."""

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._known: dict[Hashable, tuple[float, Any]] = {}

    def __call__(self, key: Hashable, ask: Callable[[], Any]) -> Any:
        now = time.monotonic()
        if key in self._known and now < self._known[key][0]:
            return self._known[key][1]
        answer = ask()
        took = time.monotonic() - now
        self._known[key] = now + took / self._share, answer
        return answer


@dataclass(frozen=True)
class Watched:
    """A running campaign."""

    name: str
    state: str
    driver: str
    hits: int
    jobs: dict[str, int]
    """{state: number of jobs}."""
    used: tuple[str, float] | None
    """(limit, used share) of the budget limit with the largest used share; None without limits."""
    per_minute: float
    """Recent number of finished jobs per minute."""
    trouble: str | None
    """Reason why its jobs cannot run; None without a problem."""


@dataclass(frozen=True)
class Frame:
    """A snapshot of the ledger."""

    at: datetime
    campaigns: list[Watched]
    queues: list[Queue]
    workers: list[WorkerRow]
    running: list[Running]
    failures: list[Failure]
    resources: list[Used]
    """Use of the resources other than cores, summed over the workers."""

    @property
    def busy(self) -> Counter[str]:
        """{worker or driver: number of jobs it runs}."""
        return Counter(job.worker for job in self.running)


def look(connection: Connection, sparing: Sparing) -> Frame:
    """Returns a snapshot of the ledger; `sparing` limits the slow queries."""
    lately = overview.lately(connection)
    watched = [
        _watched(connection, campaign, lately.per_minute.get(campaign.id, 0.0), sparing)
        for campaign in overview.going(connection)
    ]
    alive = workers.alive(connection)
    running = workers.running(connection, 200)
    resources = summed_use(use_by_worker(alive, running))
    queues = overview.queues(connection)
    return Frame(db_now(connection), watched, queues, alive, running, lately.failures, resources)


def _watched(connection: Connection, campaign: Going, per_minute: float, sparing: Sparing) -> Watched:
    hits = sparing(("hits", campaign.id), lambda: campaign_counts.hits(connection, campaign.id))
    counted = sparing(("jobs", campaign.id), lambda: job_lists.counts(connection, [campaign.id]))
    used = sparing(("used", campaign.id), lambda: _used(connection, campaign))
    driver = campaigns.driver_of(connection, campaign.id)
    who = "nobody" if driver is None else f"{driver.host}:{driver.pid}" if driver.alive else "dead"
    jobs = {str(state): counted.get(state, 0) for state in JobState if counted.get(state)}
    return Watched(
        campaign.name,
        campaign.state,
        who,
        hits,
        jobs,
        used,
        per_minute,
        campaigns.slurm_warning(connection, campaign.id),
    )


def _used(connection: Connection, campaign: Going) -> tuple[str, float] | None:
    """Returns (limit, used share) of the budget limit with the largest used share; None without limits."""
    budget = campaign.spec.get("budget", {})
    spent = campaign_counts.spent(connection, campaign.id)
    spent["wall_minutes"] = campaign.wall_seconds / 60
    shares = {
        name: spent.get(name, 0.0) / limit
        for name, limit in budget.items()
        if isinstance(limit, int | float) and limit > 0 and name != "proposals"
    }
    if by_rung := budget.get("rungs"):
        jobs = campaign_counts.jobs_by_rung(connection, campaign.id)
        for rung in campaigns.all_rungs(connection, campaign.id):
            if limit := by_rung.get(rung.name):
                shares[rung.name] = jobs.get(rung.id, 0) / limit
    return max(shares.items(), key=lambda pair: pair[1]) if shares else None


class LedgerCollector:
    """Metrics of a ledger. Each scrape is a single read transaction; concurrent scrapes wait.

    If the ledger cannot be reached, `sciagent_ledger_up` is 0 and no other figure is given.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._sparing = Sparing()
        self._one_at_a_time = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        begun = time.monotonic()
        up = 1
        metrics = list[Metric]()
        with self._one_at_a_time:
            try:
                with self._ledger.read() as connection:
                    metrics = [*_queues(connection), *_workers(connection)]
                    metrics += self._campaigns(connection)
            except (sa.exc.SQLAlchemyError, LedgerError):
                up = 0
        yield GaugeMetricFamily("sciagent_ledger_up", "Whether the ledger answered.", up)
        took = time.monotonic() - begun
        yield GaugeMetricFamily("sciagent_scrape_duration_seconds", "What asking the ledger took.", took)
        yield from metrics

    def _campaigns(self, connection: Connection) -> list[Metric]:
        state = _gauge("campaign_state", "1 for the state that the campaign is in.", "campaign", "state")
        hits = _gauge("campaign_hits", "Hits so far.", "campaign")
        wall = _counter("campaign_wall_seconds", "Time driven.", "campaign")
        jobs = _gauge("jobs", "Jobs by state.", "campaign", "state")
        attempts = _counter("attempts", "Attempts that ended; lost: with their worker.", "campaign", "rung", "outcome")
        stale = _counter("stale_results", "Results that came too late and were refused.", "campaign", "rung")
        spent = _counter("spent", "What was booked, in the unit of the resource.", "campaign", "rung", "resource")
        for campaign in overview.recent(connection):
            state.add_metric([campaign.name, campaign.state], 1)
            wall.add_metric([campaign.name], campaign.wall_seconds)
            n_hits, by_state, totals = self._sparing(campaign.id, partial(_counted, connection, campaign.id))
            hits.add_metric([campaign.name], n_hits)
            for job_state, n in by_state.items():
                jobs.add_metric([campaign.name, job_state], n)
            for (rung, outcome), n in totals.attempts.items():
                attempts.add_metric([campaign.name, rung, outcome], n)
            for rung, n in totals.stale.items():
                stale.add_metric([campaign.name, rung], n)
            for (rung, resource), amount in totals.spent.items():
                spent.add_metric([campaign.name, rung, resource], amount)
        return [state, hits, wall, jobs, attempts, stale, spent]


def _counted(connection: Connection, campaign_id: int) -> tuple[int, dict[str, int], overview.Totals]:
    counted = job_lists.counts(connection, [campaign_id])
    by_state = {str(state): counted.get(state, 0) for state in job_lists.ORDER}
    return campaign_counts.hits(connection, campaign_id), by_state, overview.totals(connection, campaign_id)


def _queues(connection: Connection) -> list[Metric]:
    depth = _gauge("queue_depth", "Jobs that wait.", "queue")
    oldest = _gauge("queue_oldest_seconds", "For how long the oldest of them has waited; 0 where none does.", "queue")
    slots = _gauge("queue_slots", "Jobs of the queue that could run at once.", "queue")
    now = db_now(connection)
    for queue in overview.queues(connection):
        depth.add_metric([queue.queue], queue.depth)
        oldest.add_metric([queue.queue], _seconds(now, queue.oldest))
        slots.add_metric([queue.queue], queue.slots)
    return [depth, oldest, slots]


def _workers(connection: Connection) -> list[Metric]:
    labels = ("worker", "host", "executor")
    slots = _gauge("worker_slots", "Jobs at once, of each worker that is alive.", *labels)
    running = _gauge("worker_running", "Jobs that it runs.", *labels)
    draining = _gauge("worker_draining", "1 if it takes nothing new.", *labels)
    seen = _gauge("worker_seen_seconds", "Since it was last heard of.", *labels)
    alive = _gauge("workers", "Workers that are alive.", "executor")
    has = _gauge("worker_resource", "What it has: cores, gpu and others.", *labels, "resource")
    used = _gauge("worker_resource_used", "What its jobs hold of that.", *labels, "resource")
    now = db_now(connection)
    all_running = workers.running(connection)
    all_alive = workers.alive(connection)
    busy = Counter(job.worker for job in all_running)
    in_use = workers.use_by_worker(all_alive, all_running)
    for worker in all_alive:
        label_values = [worker.name, worker.host, worker.executor]
        slots.add_metric(label_values, worker.slots)
        running.add_metric(label_values, busy[worker.name])
        draining.add_metric(label_values, int(worker.draining))
        seen.add_metric(label_values, _seconds(now, worker.seen_at))
        for resource in in_use[worker.name]:
            has.add_metric([*label_values, resource.name], resource.total)
            used.add_metric([*label_values, resource.name], resource.used)
    for executor, n in Counter(worker.executor for worker in all_alive).items():
        alive.add_metric([executor], n)
    return [slots, running, draining, seen, has, used, alive]


class WorkerCollector:
    """Metrics of a worker's own process. ran: returns how many jobs it has run so far."""

    def __init__(self, name: str, ran: Callable[[], int]) -> None:
        self._name = name
        self._ran = ran

    def collect(self) -> Iterator[Metric]:
        memory = _gauge("worker_memory_bytes", "Resident, of the process and all it has started.", "worker")
        memory.add_metric([self._name], _resident(psutil.Process()))
        processes = _counter("worker_jobs", "Jobs run.", "worker")
        processes.add_metric([self._name], self._ran())
        yield memory
        yield processes


def _resident(root: psutil.Process) -> int:
    resident = 0
    for process in (root, *root.children(recursive=True)):
        try:
            resident += int(process.memory_info().rss)
        except psutil.Error:  # it has ended meanwhile
            continue
    return resident


def _gauge(name: str, what: str, *labels: str) -> Any:
    return GaugeMetricFamily(f"sciagent_{name}", what, labels=labels)


def _counter(name: str, what: str, *labels: str) -> Any:
    return CounterMetricFamily(f"sciagent_{name}", what, labels=labels)


def _seconds(now: datetime, then: datetime | None) -> float:
    return 0.0 if then is None else max(0.0, (now - then).total_seconds())


LEAST_JOBS = 3  # finished jobs from which a pace can be told
MINUTE = 60.0


def time_left(status: CampaignCounts, workers: int) -> str | None:
    """Returns a text such as `budget left for 4 to 11 min`; None where nothing is known yet.

    workers: jobs at once. A limit lasts at least as long as all workers need if they did nothing else from now on, at
    the mean cost of its jobs so far. It lasts at most as long as at the pace since the start, when cheap rungs came
    first. The campaign ends at the first limit; a goal that is reached ends it sooner.
    """
    ranges = [span for span in (_core_seconds(status, workers), _runs(status, workers)) if span is not None]
    clock = _limit(status, "wall_minutes")
    rest = None if clock is None else max(0.0, clock - status.spent.get("wall_minutes", 0.0)) * MINUTE
    if not ranges:
        return None if rest is None else f"budget left for at most {duration(rest)}"
    low, high = (min(ends) for ends in zip(*ranges, strict=True))
    if rest is not None:
        low = min(low, rest)
        high = min(high, rest)
    return f"budget left for {range_of(low, high)}"


def _core_seconds(status: CampaignCounts, workers: int) -> tuple[float, float] | None:
    limit = _limit(status, "core_seconds")
    used = status.spent.get("core_seconds", 0.0)
    elapsed = status.spent.get("wall_minutes", 0.0) * MINUTE
    if limit is None or used <= 0 or elapsed <= 0 or sum(map(_ended, status.rungs)) < LEAST_JOBS:
        return None
    return _ordered((limit - used) / workers, (limit - used) * elapsed / used)


def _runs(status: CampaignCounts, workers: int) -> tuple[float, float] | None:
    """Returns the range of the last rung with a limit on its runs."""
    limits = status.budget.get("rungs")
    elapsed = status.spent.get("wall_minutes", 0.0) * MINUTE
    limited = [rung for rung in status.rungs if isinstance(limits, Mapping) and rung.rung in limits]
    if not limited or not isinstance(limits, Mapping) or elapsed <= 0:
        return None
    rung = limited[-1]
    ended = _ended(rung)
    if ended < LEAST_JOBS:
        return None
    left = limits[rung.rung] - ended
    return _ordered(left * rung.core_seconds / ended / workers, left * elapsed / ended)


def _ended(rung: RungCounts) -> int:
    return max(0, rung.jobs - rung.running)


def _limit(status: CampaignCounts, name: str) -> float | None:
    limit = status.budget.get(name)
    return float(limit) if isinstance(limit, int | float) else None


def _ordered(a: float, b: float) -> tuple[float, float]:
    return max(0.0, min(a, b)), max(0.0, a, b)
