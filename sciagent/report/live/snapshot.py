"""A snapshot of running campaigns, queues, workers and failures, for `sciagent top`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.states import JobState
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import job_lists, worker_resources, workers
from sciagent.store.job_queue.worker_resources import Used
from sciagent.store.job_queue.workers import Running, WorkerRow
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
    alive, running = workers.alive(connection), workers.running(connection, 200)
    resources = worker_resources.together(worker_resources.by_worker(alive, running))
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
    budget, spent = campaign.spec.get("budget", {}), campaign_counts.spent(connection, campaign.id)
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
