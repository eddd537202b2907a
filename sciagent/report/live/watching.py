"""What goes on now, in one look: campaigns that run, queues, workers, failures. For `sciagent top`."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.domain.states import JobState
from sciagent.store.campaign_state import campaign_warnings, campaigns
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import job_lists, usage, workers
from sciagent.store.job_queue.usage import Used
from sciagent.store.job_queue.workers import Running, WorkerRow
from sciagent.store.views import overview, queries
from sciagent.store.views.overview import Failure, Going, Queue

SHARE = 0.02  # of the time may go by with asking what takes longer the larger a ledger is


class Sparing:
    """Remembers answers: a question is asked again only when that takes no more than its share of the time."""

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
    """A campaign. jobs: how many in each state; used: the limit of the budget that is nearest, and its share that is
    used, None where there is none or only rates; per_minute: jobs done lately; trouble: what keeps its jobs from where
    they are to run."""

    name: str
    state: str
    driver: str
    hits: int
    jobs: dict[str, int]
    used: tuple[str, float] | None
    per_minute: float
    trouble: str | None


@dataclass(frozen=True)
class Frame:
    """One look. resources: beside cores, of all workers together, and licences."""

    at: datetime
    campaigns: list[Watched]
    queues: list[Queue]
    workers: list[WorkerRow]
    running: list[Running]
    failures: list[Failure]
    resources: list[Used]

    @property
    def busy(self) -> Counter[str]:
        """How many jobs each worker or driver runs."""
        return Counter(one.worker for one in self.running)


def look(connection: Connection, sparing: Sparing) -> Frame:
    lately = overview.lately(connection)
    watched = [
        _watched(connection, one, lately.per_minute.get(one.id, 0.0), sparing) for one in overview.going(connection)
    ]
    alive, running = workers.alive(connection), workers.running(connection, 200)
    resources = usage.together(connection, usage.by_worker(alive, running))
    queues = overview.queues(connection)
    return Frame(db_now(connection), watched, queues, alive, running, lately.failures, resources)


def _watched(connection: Connection, one: Going, per_minute: float, sparing: Sparing) -> Watched:
    hits = sparing(("hits", one.id), lambda: queries.hits(connection, one.id))
    counted = sparing(("jobs", one.id), lambda: job_lists.counts(connection, [one.id]))
    used = sparing(("used", one.id), lambda: _used(connection, one))
    driver = campaigns.driver_of(connection, one.id)
    who = "nobody" if driver is None else f"{driver.host}:{driver.pid}" if driver.alive else "dead"
    jobs = {str(state): counted.get(state, 0) for state in JobState if counted.get(state)}
    return Watched(
        one.name, one.state, who, hits, jobs, used, per_minute, campaign_warnings.trouble(connection, one.id)
    )


def _used(connection: Connection, one: Going) -> tuple[str, float] | None:
    """The limit of which the largest share is used."""
    budget, spent = one.spec.get("budget", {}), queries.spent(connection, one.id)
    spent["wall_minutes"] = one.wall_seconds / 60
    shares = {
        name: spent.get(name, 0.0) / limit
        for name, limit in budget.items()
        if isinstance(limit, int | float) and limit > 0 and name != "proposals"
    }
    if by_rung := budget.get("rungs"):
        jobs = queries.jobs_by_rung(connection, one.id)
        for rung in campaigns.rungs(connection, one.id):
            if limit := by_rung.get(rung.name):
                shares[rung.name] = jobs.get(rung.id, 0) / limit
    return max(shares.items(), key=lambda pair: pair[1]) if shares else None
