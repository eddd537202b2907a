"""Schedulers by name, and all that one of them may know before it has paid for anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from sciagent.bench.fitted_thresholds import CampaignThresholds
from sciagent.bench.greedy import Greedy
from sciagent.bench.rule_buyers import FallingHalving, FittedBestRung, Ordered
from sciagent.errors import UsageError
from sciagent.scheduling.aims import Aims
from sciagent.scheduling.candidate_pool import Buyer
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.priced import Priced
from sciagent.scheduling.rules.random import Random


@dataclass(frozen=True)
class Facts:
    """What a scheduler may know before it has paid for anything."""

    threshold: float
    """Of a hit, in the terminal rung's unit."""
    sign: int
    """1 where hits lie above the threshold, -1 below."""
    similarity: Similarity | None
    """Of the candidates, by place."""
    seed: int
    """Of all that the scheduler draws."""
    budget: float
    """In units of cost."""
    rungs: int
    """How many there are, the terminal one included."""
    aims: Aims | None = None
    """Where a hit is more than one threshold; only `priced` reads them."""


def _priced(facts: Facts) -> Buyer:
    aims = facts.aims or Aims.with_threshold(facts.rungs, facts.threshold, facts.sign)
    return Priced(aims, facts.similarity, facts.seed, facts.budget)


def _greedy(facts: Facts) -> Buyer:
    if find_spec("sklearn") is None:
        raise UsageError("`greedy` needs scikit-learn; install it with: pip install 'sciagent[bench]'")
    return Greedy(facts.threshold, facts.sign, facts.similarity, facts.seed, facts.budget)


SCHEDULERS: dict[str, Callable[[Facts], Buyer]] = {
    "priced": _priced,
    "thresholds": lambda f: CampaignThresholds(f.threshold, f.sign, f.seed, f.budget),
    "halving": lambda f: Ordered(FallingHalving(f.sign), f.sign),
    "best_rung": lambda f: Ordered(FittedBestRung(f.threshold, f.sign, f.seed, f.budget), f.sign),
    "greedy": _greedy,
    "random": lambda f: Ordered(Random(f.seed), f.sign),
    "exhaustive": lambda f: Ordered(Exhaustive(), f.sign),
}
