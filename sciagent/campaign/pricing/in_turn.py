"""Schedulers that run the ladder one rung at a time, and the choice of the scheduler of a campaign."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.file.schedulers import (
    BestRungSpec,
    ExhaustiveSpec,
    HalvingSpec,
    LotterySpec,
    PricedSpec,
    RandomSpec,
)
from sciagent.campaign.pricing.ledger_pool import LedgerPool
from sciagent.campaign.pricing.purchasing import Purchasing
from sciagent.domain.ladder import PaidIndex, Position, Tier
from sciagent.domain.ports import Choice
from sciagent.domain.states import CampaignState
from sciagent.scheduling.arrays import Places
from sciagent.scheduling.rules.best_rung import BestRung
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.lottery import Lottery
from sciagent.scheduling.rules.random import Random
from sciagent.scheduling.rules.rung_by_rung import RungRule
from sciagent.scheduling.rules.thresholds import Thresholds


class InTurn(Purchasing):
    """Purchasing by a rule that moves candidates up the ladder one rung at a time."""

    def __init__(
        self, built: Built, connection: Connection, budget: BudgetTracker, rule: RungRule, paid: Sequence[Position]
    ) -> None:
        super().__init__(LedgerPool(built, paid, None, connection), budget)
        self._terminal = built.terminal
        self._rule = rule
        self._paid = tuple(paid)
        self._asked = [j for j, position in enumerate(paid) if built.rungs[position].spec.is_world]

    def choose(
        self, connection: Connection, slots: int, first_only: bool, places: Set[Position], put_off: Set[int]
    ) -> list[Choice]:
        self.pool.refresh(connection)
        self.pool.slots = slots
        self.pool.room = tuple(self.budget.remaining_jobs(p) if p in places else 0 for p in self._paid)
        self.pool.started = tuple(map(self.budget.started, self._paid))
        bought = self._rule.for_everyone(self.pool) if first_only else self._rule.choose(self.pool, math.inf)
        choices = [Choice(int(self.pool.ids[p.of]), self._paid[p.rung], p.index, p.propensity, p.why) for p in bought]
        return [choice for choice in choices if choice.id not in put_off]

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """Does nothing: the rule chooses these candidates again."""

    def wants(self, connection: Connection) -> int:
        self.pool.refresh(connection)
        may_start = [self.budget.remaining_jobs(p) != 0 for p in self._paid]
        counted = [j for j in self.pool.paid if not self._rule.leaves(j) and may_start[j]]
        stands = self._stands()
        # those with people would keep the proposer waiting for weeks
        with_people = self.pool.pending[~self.pool.out] & np.isin(stands, self._asked)
        return int((np.isin(stands, counted) & ~with_people).sum())

    def is_preparing(self, connection: Connection) -> bool:
        self.pool.refresh(connection)
        at_first = self._stands() == 0
        if (
            self._paid and self.budget.remaining_jobs(self._paid[0]) == 0
        ):  # no more of them will be answered than are running
            at_first &= self.pool.pending[~self.pool.out]
        return bool(at_first.any())

    def ends_with_terminal(self) -> bool:
        return self._rule.ends_with(self.budget.remaining_jobs(self._terminal))

    def left_over(self, n: int) -> tuple[CampaignState, str]:
        indices = set(self._stands().tolist())
        if any(self._rule.leaves(j) for j in self.pool.paid if j in indices):
            return CampaignState.FINISHED, f"nothing is left to do; {n} candidates were not promoted"
        return CampaignState.BUDGET_SPENT, f"the budget by rung is used; {n} candidates still wait"

    def _stands(self) -> Places:
        """Returns (m,) the index of the paid rung that each open or pending candidate waits for or is at."""
        going = ~self.pool.out
        indices: Places = self.pool.closed[going].sum(1, dtype=np.intp) - self.pool.pending[going]
        return indices


def purchasing_of(built: Built, connection: Connection, budget: BudgetTracker) -> Purchasing:
    """Returns the campaign's scheduler with its candidates as they are in the ledger."""
    if isinstance(built.spec.scheduler, PricedSpec):
        from sciagent.campaign.pricing.priced_campaign import priced_campaign  # these two take a second to import
        from sciagent.campaign.pricing.pricing import Pricing

        priced = priced_campaign(built, connection)
        return Pricing(priced, connection, budget) if priced else InTurn(built, connection, budget, Thresholds(), ())
    paid = tuple(r.rules.position for r in built.paid if r.rules.position <= built.terminal)
    return InTurn(built, connection, budget, rule_of(built, paid), paid)


def rule_of(built: Built, paid: Sequence[Position]) -> RungRule:
    """Returns the spec's rule. `best_rung` without a rung ranks by the last one below the terminal that is not fast."""
    spec = built.spec
    scheduler = built.spec.scheduler
    if isinstance(scheduler, BestRungSpec):
        below = [p for p in paid if p < built.terminal and built.rungs[p].verifier.tier is not Tier.FAST]
        terminal = PaidIndex(max(len(paid) - 1, 0))
        ranks = spec.position(scheduler.rung) if scheduler.rung else max(below, default=None)
        return BestRung(terminal if ranks is None else PaidIndex(paid.index(ranks)), terminal)
    if isinstance(scheduler, HalvingSpec):
        return Halving(scheduler.eta)
    if isinstance(scheduler, RandomSpec):
        return Random(spec.seed)
    if isinstance(scheduler, LotterySpec):
        return Lottery(scheduler.chance, len(paid))
    return Exhaustive() if isinstance(scheduler, ExhaustiveSpec) else Thresholds()
