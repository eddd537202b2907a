"""Schedulers by name, and all that one of them may know before it has paid for anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from sciagent.bench.botorch_schedulers import EiPerCost, KnowledgeGradient
from sciagent.bench.fitted_thresholds import CampaignThresholds
from sciagent.bench.greedy import Greedy
from sciagent.bench.one_step import OneStep
from sciagent.bench.rule_buyers import FallingHalving, FittedBestRung, Ordered
from sciagent.errors import UsageError
from sciagent.scheduling.aims import Aims
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.port import Buyer
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.halving import Halving
from sciagent.scheduling.rules.priced import Priced
from sciagent.scheduling.rules.random import Random
from sciagent.scheduling.rules.rung_by_rung import Ruled


@dataclass(frozen=True)
class Facts:
    """threshold: of a hit, in the terminal rung's unit; sign: 1 where hits lie above it, -1 below. similarity: of the
    candidates by place. budget: in units of cost. rungs: how many, the terminal one included. aims: where a hit is
    more than one threshold; only `priced` reads them."""

    threshold: float
    sign: int
    similarity: Similarity | None
    seed: int
    budget: float
    rungs: int
    aims: Aims | None = None


Factory = Callable[[Facts], Buyer]


def priced(facts: Facts) -> Buyer:
    aims = facts.aims or Aims.one(facts.rungs, facts.threshold, facts.sign)
    return Priced(aims, facts.similarity, facts.seed, facts.budget)


def with_extra(package: str, module: str, make: Factory) -> Factory:
    """Raises UsageError when it is made without the package that it computes with."""

    def checked(facts: Facts) -> Buyer:
        if find_spec(module) is None:
            raise UsageError(f"this scheduler needs {package}; install it with: pip install 'sciagent[bench]'")
        return make(facts)

    return checked


SCHEDULERS: dict[str, Factory] = {
    "priced": priced,
    "thresholds": lambda f: CampaignThresholds(f.threshold, f.sign, f.seed, f.budget),
    "halving": lambda f: FallingHalving(f.sign),
    "halving_3": lambda f: Ordered(Ruled(Halving(3.0), f.sign)),
    "best_rung": lambda f: FittedBestRung(f.threshold, f.sign, f.seed, f.budget),
    "greedy": with_extra(
        "scikit-learn", "sklearn", lambda f: Greedy(f.threshold, f.sign, f.similarity, f.seed, f.budget)
    ),
    "one_step": lambda f: OneStep(f.threshold, f.sign, f.similarity, f.seed),
    "ei_per_cost": with_extra("botorch", "botorch", lambda f: EiPerCost(f.threshold, f.sign, f.seed)),
    "mfkg": with_extra("botorch", "botorch", lambda f: KnowledgeGradient(f.threshold, f.sign, f.seed)),
    "random": lambda f: Ordered(Ruled(Random(f.seed), f.sign)),
    "exhaustive": lambda f: Ordered(Ruled(Exhaustive(), f.sign)),
}
