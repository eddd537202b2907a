"""Schedulers that run the ladder one rung at a time, and the choice of the scheduler of a campaign."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.pricing.observation_schema_and_ledger_pool import LedgerPool
from sciagent.campaign.pricing.purchasing_interface import Purchasing
from sciagent.domain.proposer_interfaces import Choice
from sciagent.domain.rung_positions_and_tiers import Position
from sciagent.domain.states_and_needs import NOT_PROMOTED, CampaignState, Standing
from sciagent.scheduling.array_types import RowIndices
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.priced_settings import PricedSpec
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule
from sciagent.store.campaign_state import candidate_standings


class InTurn(Purchasing):
    """Purchasing by a rule that moves candidates up the ladder one rung at a time."""

    def __init__(
        self, built: Built, connection: Connection, budget: BudgetTracker, rule: RungRule, paid: Sequence[Position]
    ) -> None:
        super().__init__(LedgerPool(built, paid, schema=None, connection=connection), budget)
        self._terminal = built.terminal
        self._rule = rule
        self._campaign_id = built.row.id
        self._begins_with_seeds = built.spec.budget.verifications is not None
        self._paid = tuple(paid)
        self._rungs_of_people = [j for j, position in enumerate(paid) if built.rungs[position].spec.is_world]

    def choose(
        self, connection: Connection, slots: int, first_only: bool, places: Set[Position], put_off: Set[int]
    ) -> list[Choice]:
        self.pool.refresh(connection)
        self.pool.slots = slots
        room = []  # number of jobs that each rung may start; None: no limit
        for position in self._paid:
            room.append(self.budget.remaining_jobs(position) if position in places else 0)
        self.pool.room = tuple(room)
        self.pool.started = tuple(self.budget.started(position) for position in self._paid)
        rule = self._rule_now(connection)
        if first_only:
            purchases = rule.for_everyone(self.pool)
        else:
            purchases = rule.choose(self.pool, math.inf)  # `room` limits the purchases, not their cost
        choices = []
        for purchase in purchases:
            candidate_id = int(self.pool.ids[purchase.row])
            if candidate_id in put_off:
                continue
            position = self._paid[purchase.rung]
            choice = Choice(
                candidate_id, position, index=purchase.index, propensity=purchase.propensity, why=purchase.why
            )
            choices.append(choice)
        return choices

    def _rule_now(self, connection: Connection) -> RungRule:
        """Returns the campaign's rule; in place of one that leaves candidates, another that leaves nobody while seeds
        are open in a campaign of so many verifications, which begins with the answers of all seeds."""
        may_leave_seeds = self._begins_with_seeds and any(self._rule.leaves(rung) for rung in self.pool.paid)
        if may_leave_seeds and candidate_standings.has_waiting_seeds(connection, self._campaign_id, [Standing.OPEN]):
            return Exhaustive("seeds come first: next in order")
        return self._rule

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Does nothing: the rule chooses these candidates again."""

    def wants(self, connection: Connection, is_idle: bool = False) -> int:
        """Works as in `Purchasing`, but leaves out candidates at rungs where the rule may leave them for good."""
        self.pool.refresh(connection)
        may_start = [self.budget.remaining_jobs(position) != 0 for position in self._paid]
        counted_rungs = [j for j in self.pool.paid if not self._rule.leaves(j) and may_start[j]]
        next_rungs = self._next_rungs()
        is_counted = np.isin(next_rungs, counted_rungs)  # one entry for each open or pending candidate
        # candidates at people's desks are not counted: the proposer would wait for weeks
        is_with_people = self.pool.pending[~self.pool.out] & np.isin(next_rungs, self._rungs_of_people)
        return int((is_counted & ~is_with_people).sum())

    def is_preparing(self, connection: Connection) -> bool:
        self.pool.refresh(connection)
        is_at_first_rung = self._next_rungs() == 0
        if self._paid and self.budget.remaining_jobs(self._paid[0]) == 0:
            # the rung starts no more jobs, so that only the running ones will be answered
            is_at_first_rung &= self.pool.pending[~self.pool.out]
        return bool(is_at_first_rung.any())

    def ends_with_terminal(self) -> bool:
        return self._rule.ends_with(remaining=self.budget.remaining_jobs(self._terminal))

    def left_over(self, n: int) -> tuple[CampaignState, str]:
        next_rungs = set(self._next_rungs().tolist())
        if any(self._rule.leaves(rung) for rung in self.pool.paid if rung in next_rungs):
            why = f"nothing is left to do; {n} candidates {NOT_PROMOTED} by the rule of the scheduler"
            return CampaignState.FINISHED, why
        return CampaignState.BUDGET_SPENT, f"the budget by rung is used; {n} candidates still wait"

    def _next_rungs(self) -> RowIndices:
        """Returns (m,) the index of the paid rung that each open or pending candidate waits for or is at."""
        going = ~self.pool.out
        n_closed = self.pool.closed[going].sum(axis=1, dtype=np.intp)
        indices: RowIndices = n_closed - self.pool.pending[going]  # the rung that a pending candidate is at is closed
        return indices


def purchasing_of(built: Built, connection: Connection, budget: BudgetTracker) -> Purchasing:
    """Returns the campaign's scheduler with its candidates as they are in the ledger."""
    scheduler = built.spec.scheduler
    paid = tuple(rung.rules.position for rung in built.paid if rung.rules.position <= built.terminal)
    if isinstance(scheduler, PricedSpec):
        from sciagent.campaign.pricing.pool_law_and_cost_unit import (
            priced_campaign,  # these two take a second to import
        )
        from sciagent.campaign.pricing.priced_scheduler import Pricing

        priced = priced_campaign(built, connection)
        if priced is not None:
            return Pricing(priced, connection, budget)
        paid = ()  # no paid rung leads to an objective, so nothing is bought
    rungs = [built.rungs[position] for position in paid]
    labels = tuple(rung.spec.rung for rung in rungs)
    tiers = tuple(rung.verifier.tier for rung in rungs)
    rule = scheduler.rule(PaidLadder(labels, tiers, built.spec.seed))
    return InTurn(built, connection, budget, rule, paid)
