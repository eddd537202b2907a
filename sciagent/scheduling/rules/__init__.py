"""The rules by name. A rule is stateless: what it needs to know, it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sciagent.domain.ports import Scheduler
from sciagent.errors import UnknownNameError
from sciagent.scheduling.rules.best_rung import BestRung
from sciagent.scheduling.rules.by_price import ByPrice
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.random import Random
from sciagent.scheduling.rules.thresholds import Thresholds


@dataclass(frozen=True)
class Setup:
    """What a rule may need of its campaign. terminal: position of the terminal rung. rung: position of the rung that
    `best_rung` ranks by. eta: of `halving`."""

    seed: int = 0
    terminal: int = 0
    rung: int | None = None
    eta: float = 3.0


RULES: dict[str, Callable[[Setup], Scheduler]] = {
    "best_rung": lambda s: BestRung(s.terminal if s.rung is None else s.rung, s.terminal),
    "exhaustive": lambda s: Exhaustive(),
    "halving": lambda s: Halving(s.eta),
    "priced": lambda s: ByPrice(),
    "random": lambda s: Random(s.seed),
    "thresholds": lambda s: Thresholds(),
}


def make_rule(kind: str, setup: Setup = Setup()) -> Scheduler:
    """Raises UnknownNameError."""
    if kind not in RULES:
        raise UnknownNameError("scheduler", kind, RULES)
    return RULES[kind](setup)
