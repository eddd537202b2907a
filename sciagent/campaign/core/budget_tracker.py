"""The budget of a running campaign: amounts spent, reserved and left, by resource, by rung and in wall time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.domain.cost_and_budget import WEEK, Budget, BudgetLimits, Cost
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.store.campaign_state import candidate_standings
from sciagent.store.database.engine import db_now
from sciagent.store.job_queue import jobs, reservations_and_bookings
from sciagent.store.results import candidates
from sciagent.store.views import campaign_counts_and_remarks

CANDIDATES_PER_RUNG = 16  # candidates of each rung from which the cost of the next job is taken
LEAST_TURN_COST = Cost(core_seconds=1e-3, llm_tokens=1)  # least cost of a proposer's turn


class BudgetTracker(Budget):
    """The budget as read from the ledger, kept in step with what this driver writes."""

    def __init__(self, built: Built, connection: Connection) -> None:
        super().__init__(_limits(built), _clock(connection), built.row.wall_seconds)
        self.refresh(built, connection)

    def refresh(self, built: Built, connection: Connection) -> None:
        """Reads budget and limits again, after another process has written to the ledger. The clock goes on."""
        campaign_id = built.row.id
        limits = _limits(built)
        jobs_by_rung_id = campaign_counts_and_remarks.jobs_by_rung(connection, campaign_id)
        since = self._clock() - WEEK
        self.restate(
            limits,
            spent=campaign_counts_and_remarks.spent(connection, campaign_id),
            reserved=reservations_and_bookings.reserved(connection, campaign_id),
            jobs={r.rules.position: jobs_by_rung_id.get(r.id, 0) for r in built.all_rungs},
            recent=campaign_counts_and_remarks.spent_since(connection, campaign_id, sorted(limits.rates), since),
        )
        # bought: the rungs that run as jobs, which are the paid ones and the control
        reuses_by_rung_id = campaign_counts_and_remarks.reuses_by_rung(connection, campaign_id)
        self._reused = {r.rules.position: reuses_by_rung_id.get(r.id, 0) for r in built.bought}

    def started(self, position: Position) -> int:
        """Returns the number of candidates for which the rung was started or its evidence reused."""
        return self._jobs.get(position, 0) + self._reused.get(position, 0)

    def reuse(self, position: Position) -> None:
        """Counts a candidate for which evidence of the rung was reused."""
        self._reused[position] += 1

    def renewal_text(self, built: Built, connection: Connection) -> str | None:
        """Returns a message with the time from which weekly limits allow the next job.

        Returns None if there are no weekly limits, or if they are not the only obstacle.
        """
        if not self._limits.rates:
            return None
        next_costs = list(self._next_costs(built, connection))
        return self.resumption_text(next_costs or [LEAST_TURN_COST])

    def _next_costs(self, built: Built, connection: Connection) -> Iterator[Cost]:
        """Yields the reservations of queued jobs, and of jobs that could start on the first candidates of each rung.

        A candidate that waits for a rung may get any later rung instead.
        """
        rung_by_id = {r.id: r for r in built.all_rungs}
        for job in jobs.queued(connection, built.row.id)[:CANDIDATES_PER_RUNG]:
            rung = rung_by_id[job.rung_id]
            for reservation, _ in self._reservations(connection, [job.candidate_id], [rung]):
                yield reservation
        # paid: no candidate waits for a leading fast rung or for the control
        for place, rung in enumerate(built.paid):
            waiting = candidate_standings.waiting_candidates(
                connection, built.row.id, rung.rules.position, CANDIDATES_PER_RUNG
            )
            for reservation, next_rung in self._reservations(connection, waiting, built.paid[place:]):
                yield self.needed_for(next_rung.spec.tasks_per_candidate, reservation)

    def _reservations(
        self, connection: Connection, ids: Sequence[int], rungs: Sequence[BuiltRung]
    ) -> Iterator[tuple[Cost, BuiltRung]]:
        """Yields the cost to reserve for a job of each rung that may start more jobs, for each candidate, with the
        rung."""
        loaded = candidates.load(connection, ids) if ids else {}
        for rung in rungs:
            if self.remaining_jobs(rung.rules.position) == 0:
                continue
            for candidate in loaded.values():
                yield rung.reservation(rung.declared_cost(candidate)), rung


def _limits(built: Built) -> BudgetLimits:
    """Returns the limits of the campaign's budget, its wall time in seconds."""
    budget = built.spec.budget
    wall = None if budget.wall_minutes is None else 60 * budget.wall_minutes
    return BudgetLimits(budget.stocks(), budget.rates(), built.limit_by_rung, wall)


def _clock(connection: Connection) -> Callable[[], float]:
    """Returns a clock in Unix seconds: the ledger's time now plus the time that passes in this process."""
    unix_time_at_zero = db_now(connection).timestamp() - time.monotonic()  # when the monotonic clock was 0
    return lambda: unix_time_at_zero + time.monotonic()
