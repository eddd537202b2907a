"""How a campaign buys: its scheduler, its candidates as the scheduler sees them, and choices for the dispatch."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Sequence
from typing import Protocol

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.budget_tracker import BudgetTracker
from sciagent.campaign.core.build import Built
from sciagent.campaign.pricing.ledger_pool import LedgerPool
from sciagent.campaign.spec.sources import BestRungSpec, HalvingSpec, PricedSpec
from sciagent.domain.campaigns.ladder import PaidIndex, Position
from sciagent.domain.campaigns.ports import Choice
from sciagent.domain.jobs.states import CampaignState
from sciagent.domain.tiers import Tier
from sciagent.scheduling.rules import RuleSetup, make_rule
from sciagent.scheduling.rules.rung_by_rung import Ruled, RungRule, Waiting


class Purchasing(Protocol):
    """Chooses purchases for one campaign; its driver asks it at every dispatch."""

    come: float | None
    """Share of the candidates that have come so far; None where nobody knows how many will."""

    blocked: str | None
    """What the last choice left out although it is worth buying, because the budget does not hold it, in words."""

    def touch(self, candidate_ids: Iterable[int]) -> None:
        """Something was written about these candidates."""

    def choose(
        self,
        connection: Connection,
        purse: BudgetTracker,
        slots: int,
        first_only: bool,
        places: Container[Position],
        put_off: Collection[int] = (),
    ) -> list[Choice]:
        """At most `slots` choices, most urgent first. first_only: only rungs that every candidate gets. places: rungs
        whose jobs somebody may take. put_off: candidates that are passed over."""

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """What became of the last choice. unplaced: nobody could take them now. refused: the budget does not hold what
        they reserve."""

    def wants(self, connection: Connection, purse: BudgetTracker) -> int:
        """How many candidates are worth a purchase now: while they are few, more are to be proposed."""

    def is_preparing(self, connection: Connection) -> bool:
        """Whether a rung that every candidate gets is still to answer for somebody."""

    def ends_with_terminal(self, purse: BudgetTracker) -> bool:
        """Whether the campaign is over because the terminal rung may start no more jobs."""

    def left_over(self, n: int) -> tuple[CampaignState, str]:
        """How a campaign ends in which nothing is bought although n candidates wait."""


class InTurn:
    """Purchasing by a rule that sends candidates up the ladder one rung at a time."""

    def __init__(self, built: Built, connection: Connection, rule: RungRule, paid: Sequence[Position]) -> None:
        self._built, self._paid = built, tuple(paid)
        self._scheduler = Ruled(rule)
        self.pool = LedgerPool(built, paid, None, connection)
        self.come: float | None = None
        self.blocked: str | None = None

    def touch(self, candidate_ids: Iterable[int]) -> None:
        self.pool.touch(candidate_ids)

    def choose(
        self,
        connection: Connection,
        purse: BudgetTracker,
        slots: int,
        first_only: bool,
        places: Container[Position],
        put_off: Collection[int] = (),
    ) -> list[Choice]:
        self.pool.refresh(connection)
        self.pool.slots = slots
        self.pool.room = tuple(purse.remaining_jobs(p) if p in places else 0 for p in self._paid)
        self.pool.started = tuple(map(purse.started, self._paid))
        buy = self._scheduler.for_everyone if first_only else self._scheduler.choose
        found = [
            Choice(int(self.pool.ids[one.of]), self._paid[one.rung], one.index, one.propensity, one.why)
            for one in buy(self.pool, math.inf)
        ]
        return [choice for choice in found if choice.id not in put_off]

    def take_back(self, unplaced: Iterable[Choice], refused: Iterable[Choice]) -> None:
        """They are chosen again."""

    def wants(self, connection: Connection, purse: BudgetTracker) -> int:
        self.pool.refresh(connection)
        rule = self._scheduler.rule
        counted = [j for j in self.pool.paid if not rule.leaves(j) and purse.remaining_jobs(self._paid[j]) != 0]
        return int(np.isin(self._stands(), counted).sum())

    def is_preparing(self, connection: Connection) -> bool:
        self.pool.refresh(connection)
        return bool((self._stands() == 0).any())

    def ends_with_terminal(self, purse: BudgetTracker) -> bool:
        remaining, none = purse.remaining_jobs(self._built.terminal), np.empty(0, dtype=np.intp)
        at = Waiting(PaidIndex(len(self._paid) - 1), none, np.empty(0), remaining)
        return self._scheduler.rule.ends_with(at)

    def left_over(self, n: int) -> tuple[CampaignState, str]:
        stands = set(self._stands().tolist())
        if any(self._scheduler.rule.leaves(j) for j in self.pool.paid if j in stands):
            return CampaignState.FINISHED, f"nothing is left to do; {n} candidates were not promoted"
        return CampaignState.BUDGET_SPENT, f"the budget by rung is used; {n} candidates still wait"

    def _stands(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """(m,) the rung that each candidate in play waits for or is at."""
        going = ~self.pool.out
        passed = self.pool.closed[going].sum(1) - self.pool.pending[going]
        return np.asarray(passed, dtype=np.int64)


def purchasing_of(built: Built, connection: Connection) -> Purchasing:
    """The campaign's scheduler with its candidates as the ledger has them."""
    spec, paid = built.spec.scheduler, tuple(r.rules.position for r in built.paid if r.rules.position <= built.terminal)
    if isinstance(spec, PricedSpec):
        from sciagent.campaign.pricing.priced_campaign import priced_campaign  # these two take a second to import
        from sciagent.campaign.pricing.pricing import Pricing

        found = priced_campaign(built, connection)
        return InTurn(built, connection, make_rule("thresholds"), ()) if found is None else Pricing(found, connection)
    return InTurn(built, connection, make_rule(spec.kind, rule_setup(built, paid)), paid)


def rule_setup(built: Built, paid: Sequence[Position]) -> RuleSetup:
    """What the rule is told. Where `best_rung` names no rung, the last paid one before the terminal ranks."""
    spec, chosen = built.spec, built.spec.scheduler
    terminal, rung = PaidIndex(max(len(paid) - 1, 0)), None
    if isinstance(chosen, BestRungSpec):
        below = [p for p in paid if p < built.terminal and built.rungs[p].verifier.tier is not Tier.FAST]
        ranks = spec.position(chosen.rung) if chosen.rung else max(below, default=None)
        rung = None if ranks is None else PaidIndex(paid.index(ranks))
    eta = chosen.eta if isinstance(chosen, HalvingSpec) else RuleSetup.eta
    return RuleSetup(seed=spec.seed, terminal=terminal, rung=rung, eta=eta)
