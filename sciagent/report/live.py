"""Figures of running campaigns: the snapshot of `sciagent top`, and how long a budget will last.

The time that is left is a range from measured costs, or nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.answers.status import CampaignCounts, RungCounts
from sciagent.domain.states import JobState
from sciagent.domain.text import duration, range_of
from sciagent.store.campaign_state import campaigns
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import job_lists, workers
from sciagent.store.job_queue.workers import ResourceUse, RunningJob, WorkerRow, summed_use, use_by_worker
from sciagent.store.views import campaign_counts, overview
from sciagent.store.views.overview import DrivenCampaign, Failure, Queue

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
    running: list[RunningJob]
    failures: list[Failure]
    resources: list[ResourceUse]
    """Use of the resources other than cores, summed over the workers."""

    @property
    def busy(self) -> Counter[str]:
        """{worker or driver: number of jobs it runs}."""
        return Counter(job.worker for job in self.running)


def look(connection: Connection, sparing: Sparing) -> Frame:
    """Returns a snapshot of the ledger; `sparing` limits the slow queries."""
    lately = overview.latest_results(connection)
    watched = [
        _watched(connection, campaign, lately.per_minute.get(campaign.id, 0.0), sparing)
        for campaign in overview.driven_campaigns(connection)
    ]
    alive = workers.alive(connection)
    running = workers.running_jobs(connection, 200)
    resources = summed_use(use_by_worker(alive, running))
    queues = overview.queues(connection)
    return Frame(db_now(connection), watched, queues, alive, running, lately.failures, resources)


def _watched(connection: Connection, campaign: DrivenCampaign, per_minute: float, sparing: Sparing) -> Watched:
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


def _used(connection: Connection, campaign: DrivenCampaign) -> tuple[str, float] | None:
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
