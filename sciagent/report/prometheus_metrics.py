"""Metrics for Prometheus: figures of the ledger, read on each scrape, and figures of a worker's process.

Counters are computed from the ledger since the start of each campaign, so they survive a restart of this server.
Campaigns without any change for a week are left out. The module needs the extra `metrics`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from typing import Any

import psutil
import sqlalchemy as sa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from sqlalchemy.engine import Connection

from sciagent.domain.answers.status_and_comparison import HitCounts
from sciagent.errors import LedgerError
from sciagent.report.campaigns_at_work import CachedQueries
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import job_lists, workers_and_capacity
from sciagent.store.views import campaign_counts_and_remarks, queues_campaigns_and_recent_failures


class LedgerCollector:
    """Metrics of a ledger. Each scrape is a single read transaction; concurrent scrapes wait.

    If the ledger cannot be reached, `sciagent_ledger_up` is 0 and no other figure is given.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._cached = CachedQueries()
        self._one_at_a_time = threading.Lock()

    def collect(self) -> Iterator[Metric]:
        started_at = time.monotonic()
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
        took = time.monotonic() - started_at
        yield GaugeMetricFamily("sciagent_scrape_duration_seconds", "What asking the ledger took.", took)
        yield from metrics

    def _campaigns(self, connection: Connection) -> list[Metric]:
        state = _gauge("campaign_state", "1 for the state that the campaign is in.", "campaign", "state")
        hits = _gauge("campaign_hits", "Hits so far.", "campaign")
        distinct_hits = _gauge("campaign_distinct_hits", "Compounds among the hits so far, by InChIKey.", "campaign")
        wall = _counter("campaign_wall_seconds", "Time driven.", "campaign")
        jobs = _gauge("jobs", "Jobs by state.", "campaign", "state")
        # the outcome is `lost` if the worker was lost while it ran the attempt
        attempts = _counter("attempts", "Attempts that ended; lost: with their worker.", "campaign", "rung", "outcome")
        stale = _counter("stale_results", "Results that came too late and were refused.", "campaign", "rung")
        spent = _counter("spent", "What was booked, in the unit of the resource.", "campaign", "rung", "resource")
        for campaign in queues_campaigns_and_recent_failures.recent_campaigns(connection):
            state.add_metric([campaign.name, campaign.state], 1)
            wall.add_metric([campaign.name], campaign.wall_seconds)
            # counting is slow in a large ledger, so an answer may be an earlier one
            hit_counts, by_state, totals = self._cached(campaign.id, partial(_counted, connection, campaign.id))
            hits.add_metric([campaign.name], hit_counts.hits)
            distinct_hits.add_metric([campaign.name], hit_counts.distinct)
            for job_state, n in by_state.items():
                jobs.add_metric([campaign.name, job_state], n)
            for (rung, outcome), n in totals.attempts.items():
                attempts.add_metric([campaign.name, rung, outcome], n)
            for rung, n in totals.stale.items():
                stale.add_metric([campaign.name, rung], n)
            for (rung, resource), amount in totals.spent.items():
                spent.add_metric([campaign.name, rung, resource], amount)
        return [state, hits, distinct_hits, wall, jobs, attempts, stale, spent]


def _counted(
    connection: Connection, campaign_id: int
) -> tuple[HitCounts, dict[str, int], queues_campaigns_and_recent_failures.Totals]:
    """Returns the numbers of hits of a campaign, {state: number of its jobs}, and its totals."""
    counted = job_lists.counts(connection, [campaign_id])
    by_state = {str(state): counted.get(state, 0) for state in job_lists.STATE_ORDER}
    return (
        campaign_counts_and_remarks.hits(connection, campaign_id),
        by_state,
        queues_campaigns_and_recent_failures.totals(connection, campaign_id),
    )


def _queues(connection: Connection) -> list[Metric]:
    depth = _gauge("queue_depth", "Jobs that wait.", "queue")
    oldest = _gauge("queue_oldest_seconds", "For how long the oldest of them has waited; 0 where none does.", "queue")
    slots = _gauge("queue_slots", "Jobs of the queue that could run at once.", "queue")
    now = db_now(connection)
    for queue in queues_campaigns_and_recent_failures.queues(connection):
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
    all_running = workers_and_capacity.running_jobs(connection)
    all_alive = workers_and_capacity.alive(connection)
    busy = Counter(job.worker for job in all_running)
    in_use = workers_and_capacity.use_by_worker(all_alive, all_running)
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
    """Metrics of a worker's own process. ran: returns the number of jobs that the worker has run so far."""

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
    """Returns the resident memory of a process and its descendants, bytes."""
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
    """Returns the seconds since `then`; 0 without `then`."""
    return 0.0 if then is None else max(0.0, (now - then).total_seconds())
