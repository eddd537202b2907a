"""The budget while a campaign runs: what is spent, reserved and left, by resource, by rung and on the clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.domain.campaigns.ladder import Position
from sciagent.domain.cost import Cost
from sciagent.domain.jobs.budget import WEEK, Budget, BudgetLimits
from sciagent.store.campaign_state import standings
from sciagent.store.database.clock import db_now
from sciagent.store.job_queue import jobs, reservations
from sciagent.store.results import candidates
from sciagent.store.views import queries

LOOK = 16  # candidates of each rung that tell what the next job would take
TURN = Cost(core_seconds=1e-3, llm_tokens=1)  # at least, of a proposer


class BudgetTracker(Budget):
    """Read from the ledger once, then kept in step with what this driver writes there."""

    def __init__(self, built: Built, connection: Connection) -> None:
        super().__init__(_limits(built), _clock(connection), built.row.wall_seconds)
        self.refresh(built, connection)

    def refresh(self, built: Built, connection: Connection) -> None:
        """Read it all again: somebody else has written there, or amended the limits. The clock goes on."""
        campaign_id, limits = built.row.id, _limits(built)
        by_id = queries.jobs_by_rung(connection, campaign_id)
        since = self._clock() - WEEK
        self.restate(
            limits,
            spent=queries.spent(connection, campaign_id),
            reserved=reservations.reserved(connection, campaign_id),
            jobs={r.rules.position: by_id.get(r.id, 0) for r in built.rungs},
            recent=queries.spent_since(connection, campaign_id, sorted(limits.rates), since),
        )
        reused = queries.reuses_by_rung(connection, campaign_id)
        self._reused = {r.rules.position: reused.get(r.id, 0) for r in built.paid}

    def started(self, position: Position) -> int:
        """How many candidates the rung was started on, or answered from what was known."""
        return self._jobs.get(position, 0) + self._reused.get(position, 0)

    def reuse(self, position: Position) -> None:
        self._reused[position] += 1

    def goes_on(self, built: Built, connection: Connection) -> str | None:
        """Where rates are all that holds back what comes next: which, and when it goes on."""
        return self.resumes(list(self._next_costs(built, connection)) or [TURN]) if self.has_rates else None

    def _next_costs(self, built: Built, connection: Connection) -> Iterator[Cost]:
        """The costs of jobs that wait for a worker, and of those that could be started on the first candidates of
        each rung."""
        by_id = {r.id: r for r in built.rungs}
        for _, candidate_id, rung_id, *_ in jobs.queued(connection, built.row.id)[:LOOK]:
            yield from self._reservations(connection, [candidate_id], [by_id[rung_id]])
        for i, rung in enumerate(built.paid):
            found = standings.waiting(connection, built.row.id, rung.rules.position, by_score=True, limit=LOOK)
            yield from self._reservations(connection, [id_ for id_, *_ in found], built.paid[i:])

    def _reservations(self, connection: Connection, ids: Sequence[int], rungs: Sequence[BuiltRung]) -> Iterator[Cost]:
        loaded = candidates.load(connection, ids) if ids else {}
        for rung in rungs:
            if self.remaining_jobs(rung.rules.position) != 0:
                yield from (rung.reservation(one) for one in loaded.values())


def _limits(built: Built) -> BudgetLimits:
    budget = built.spec.budget
    wall = None if budget.wall_minutes is None else 60 * budget.wall_minutes
    return BudgetLimits(budget.stocks(), budget.rates(), built.limit_by_rung, wall)


def _clock(connection: Connection) -> Callable[[], float]:
    """The ledger's clock as it was, and time that has passed here since."""
    ahead = db_now(connection).timestamp() - time.monotonic()
    return lambda: ahead + time.monotonic()
