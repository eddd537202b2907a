"""The rules by name that go up the ladder one rung at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sciagent.domain.campaigns.ladder import PaidIndex
from sciagent.errors import UnknownNameError
from sciagent.scheduling.rules.best_rung import BestRung
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.random import Random
from sciagent.scheduling.rules.rung_by_rung import FIRST, RungRule
from sciagent.scheduling.rules.thresholds import Thresholds


@dataclass(frozen=True)
class RuleSetup:
    """What a rule may need of its campaign."""

    seed: int = 0
    """Seed of the campaign."""

    terminal: PaidIndex = FIRST
    """The terminal rung."""

    rung: PaidIndex | None = None
    """The rung that `best_rung` ranks by; None: the terminal one, for there is no other."""

    eta: float = 3.0
    """One in so many goes on, under `halving`."""


RULES: dict[str, Callable[[RuleSetup], RungRule]] = {
    "best_rung": lambda s: BestRung(s.terminal if s.rung is None else s.rung, s.terminal),
    "exhaustive": lambda s: Exhaustive(),
    "halving": lambda s: Halving(s.eta),
    "random": lambda s: Random(s.seed),
    "thresholds": lambda s: Thresholds(),
}


def make_rule(kind: str, setup: RuleSetup = RuleSetup()) -> RungRule:
    """Raises UnknownNameError."""
    if kind not in RULES:
        raise UnknownNameError("scheduler", kind, RULES)
    return RULES[kind](setup)
