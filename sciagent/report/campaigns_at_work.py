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

from sciagent.domain.answers.status_and_comparison import CampaignCounts, HitCounts, RungCounts
from sciagent.domain.safe_text_and_durations import duration, range_of
from sciagent.domain.states_and_needs import JobState
from sciagent.store.campaign_state import campaigns as campaigns
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import job_lists
from sciagent.store.job_queue import workers_and_capacity as workers
from sciagent.store.job_queue.workers_and_capacity import ResourceUse, RunningJob, WorkerRow, summed_use, use_by_worker
from sciagent.store.views import campaign_counts_and_remarks, queues_campaigns_and_recent_failures
from sciagent.store.views.queues_campaigns_and_recent_failures import DrivenCampaign, Failure, Queue

MAX_RUNNING_JOBS = 200  # running jobs that a snapshot lists
SHARE = 0.02  # largest share of the time for queries that are slow in a large ledger


class CachedQueries:
    """A cache of slow queries. A query is repeated only as often as a given share of the time allows."""

    def __init__(self, share: float = SHARE) -> None:
        self._share = share
        self._known: dict[Hashable, tuple[float, Any]] = {}
        """{key: (monotonic time until which the answer is used, answer)}."""

    def __call__(self, key: Hashable, query: Callable[[], Any]) -> Any:
        """Returns the answer of a query, which may be an earlier one. key: names the query."""
        now = time.monotonic()
        if key in self._known:
            valid_until, known_answer = self._known[key]
            if now < valid_until:
                return known_answer
        answer = query()
        took = time.monotonic() - now
        self._known[key] = (now + took / self._share, answer)
        return answer


@dataclass(frozen=True)
class Watched:
    """A running campaign, as a line of the snapshot."""

    name: str
    state: str
    driver: str
    """`host:pid` of its driver, `dead` if it no longer answers, or `nobody`."""
    hits: int
    distinct_hits: int
    """Number of different compounds among the hits, by standard InChIKey."""
    jobs: dict[str, int]
    """{state: number of jobs}."""
    used: tuple[str, float] | None
    """(limit, used share) of the budget limit with the largest used share; None without limits."""
    per_minute: float
    """Recent number of finished jobs per minute."""
    trouble: str | None
    """Reason why its jobs cannot run; None without a problem."""

    @property
    def hit_counts(self) -> HitCounts:
        """The number of hits and of compounds among them."""
        return HitCounts(self.hits, self.distinct_hits)


@dataclass(frozen=True)
class Frame:
    """A snapshot of the ledger: its running campaigns, queues, workers and jobs."""

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


def read_snapshot(connection: Connection, cached: CachedQueries) -> Frame:
    """Returns a snapshot of the ledger. cached: keeps the answers of slow queries."""
    latest_results = queues_campaigns_and_recent_failures.latest_results(connection)
    watched = [
        _watched(connection, campaign, latest_results.per_minute.get(campaign.id, 0.0), cached)
        for campaign in queues_campaigns_and_recent_failures.driven_campaigns(connection)
    ]
    alive = workers.alive(connection)
    running = workers.running_jobs(connection, MAX_RUNNING_JOBS)
    resources = summed_use(use_by_worker(alive, running))
    queues = queues_campaigns_and_recent_failures.queues(connection)
    return Frame(
        at=db_now(connection),
        campaigns=watched,
        queues=queues,
        workers=alive,
        running=running,
        failures=latest_results.failures,
        resources=resources,
    )


def _watched(connection: Connection, campaign: DrivenCampaign, per_minute: float, cached: CachedQueries) -> Watched:
    hit_counts = cached(("hits", campaign.id), lambda: campaign_counts_and_remarks.hits(connection, campaign.id))
    counted = cached(("jobs", campaign.id), lambda: job_lists.counts(connection, [campaign.id]))
    used = cached(("used", campaign.id), lambda: _used(connection, campaign))
    driver = campaigns.driver_of(connection, campaign.id)
    driver_text = "nobody"
    if driver is not None:
        driver_text = f"{driver.host}:{driver.pid}" if driver.alive else "dead"
    jobs = {str(state): counted.get(state, 0) for state in JobState if counted.get(state)}
    return Watched(
        name=campaign.name,
        state=campaign.state,
        driver=driver_text,
        hits=hit_counts.hits,
        distinct_hits=hit_counts.distinct,
        jobs=jobs,
        used=used,
        per_minute=per_minute,
        trouble=campaigns.trouble(connection, campaign.id),
    )


def _used(connection: Connection, campaign: DrivenCampaign) -> tuple[str, float] | None:
    """Returns (limit, used share) of the budget limit with the largest used share; None without limits."""
    budget = campaign.spec.get("budget", {})
    spent = campaign_counts_and_remarks.spent(connection, campaign.id)
    spent["wall_minutes"] = campaign.wall_seconds / 60
    # proposals are no resource, so `spent` does not count them
    shares = {
        name: spent.get(name, 0.0) / limit
        for name, limit in budget.items()
        if isinstance(limit, int | float) and limit > 0 and name != "proposals"
    }
    limits_by_rung = budget.get("rungs")
    if limits_by_rung:
        jobs = campaign_counts_and_remarks.jobs_by_rung(connection, campaign.id)
        for rung in campaigns.all_rungs(connection, campaign.id):
            limit = limits_by_rung.get(rung.name)
            if limit:
                shares[rung.name] = jobs.get(rung.id, 0) / limit
    if not shares:
        return None
    return max(shares.items(), key=lambda pair: pair[1])


MIN_JOBS = 3  # finished jobs from which a pace can be told
MINUTE = 60.0  # seconds


def time_left(status: CampaignCounts, workers: int) -> str | None:
    """Returns a text such as `budget left for 4 to 11 min`; None where nothing is known yet.

    workers: number of jobs at once. The lower end of a limit's range assumes that all workers spend on it from now on,
    at the mean cost of its jobs so far. The upper end assumes the pace since the start, when cheap rungs came first.
    The campaign ends at the first limit, or sooner if it reaches its goal.
    """
    ranges_or_none = (_range_of_core_seconds(status, workers), _range_of_runs(status, workers))
    ranges = [span for span in ranges_or_none if span is not None]
    max_minutes = _limit(status, "wall_minutes")
    remaining_seconds = None
    if max_minutes is not None:
        remaining_seconds = max(0.0, max_minutes - status.spent.get("wall_minutes", 0.0)) * MINUTE
    if not ranges:
        return None if remaining_seconds is None else f"budget left for at most {duration(remaining_seconds)}"
    low = min(range_low for range_low, _ in ranges)
    high = min(range_high for _, range_high in ranges)
    if remaining_seconds is not None:
        low = min(low, remaining_seconds)
        high = min(high, remaining_seconds)
    return f"budget left for {range_of(low, high)}"


def _range_of_core_seconds(status: CampaignCounts, workers: int) -> tuple[float, float] | None:
    """Returns the range of the limit on core-seconds, in seconds; None without one or if too little is known."""
    limit = _limit(status, "core_seconds")
    used = status.spent.get("core_seconds", 0.0)
    elapsed = status.spent.get("wall_minutes", 0.0) * MINUTE
    n_ended = sum(_ended(rung) for rung in status.rungs)
    if limit is None or used <= 0 or elapsed <= 0 or n_ended < MIN_JOBS:
        return None
    seconds_on_all_workers = (limit - used) / workers
    seconds_at_pace_so_far = (limit - used) * elapsed / used
    return _ordered(seconds_on_all_workers, seconds_at_pace_so_far)


def _range_of_runs(status: CampaignCounts, workers: int) -> tuple[float, float] | None:
    """Returns the range of the last rung with a limit on its runs, in seconds.

    None without such a rung, or if too few of its jobs have ended.
    """
    limits = status.budget.get("rungs")
    elapsed = status.spent.get("wall_minutes", 0.0) * MINUTE
    if not isinstance(limits, Mapping) or elapsed <= 0:
        return None
    limited = [rung for rung in status.rungs if rung.rung in limits]
    if not limited:
        return None
    rung = limited[-1]
    ended = _ended(rung)
    if ended < MIN_JOBS:
        return None
    n_left = limits[rung.rung] - ended
    seconds_on_all_workers = n_left * rung.core_seconds / ended / workers
    seconds_at_pace_so_far = n_left * elapsed / ended
    return _ordered(seconds_on_all_workers, seconds_at_pace_so_far)


def _ended(rung: RungCounts) -> int:
    """Returns the number of jobs that have ended."""
    return max(0, rung.jobs - rung.running)


def _limit(status: CampaignCounts, name: str) -> float | None:
    limit = status.budget.get(name)
    return float(limit) if isinstance(limit, int | float) else None


def _ordered(a: float, b: float) -> tuple[float, float]:
    """Returns both times, the shorter first; a negative time becomes 0."""
    return max(0.0, min(a, b)), max(0.0, a, b)
