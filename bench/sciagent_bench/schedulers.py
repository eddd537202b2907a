"""The bench's schedulers by name, and the facts that each may use before its first purchase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec

from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.errors import UsageError
from sciagent.scheduling.aims_and_payoff import Aims
from sciagent.scheduling.candidate_pool import Buyer
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.rules.exhaustive import Exhaustive
from sciagent.scheduling.rules.priced import Priced
from sciagent.scheduling.rules.random import Random
from sciagent_bench.rivals.campaign_rules_and_fitted_ones import FallingHalving, FittedBestRung, Ordered
from sciagent_bench.rivals.fitted_thresholds import CampaignThresholds
from sciagent_bench.rivals.greedy_surrogate import Greedy


@dataclass(frozen=True)
class Facts:
    """The facts that a scheduler is given before its first purchase."""

    threshold: float
    """Threshold of a hit, in the terminal rung's unit."""
    sign: int
    """1 if hits lie above the threshold, -1 if below."""
    similarity: Similarity | None
    """Similarity of the candidates by row; None without structures."""
    seed: int
    """Seed of all random draws of the scheduler."""
    budget: float
    """Total budget, in units of cost."""
    rungs: int
    """Number of rungs, with the terminal one."""
    aims: Aims | None = None
    """Aims of a case, with what is known of its rungs; None: the threshold alone. Only `priced` reads them."""


def _priced(facts: Facts) -> Buyer:
    aims = facts.aims or Aims.with_threshold(facts.rungs, facts.threshold, facts.sign)
    trusted = frozenset(PaidIndex(column) for aim in aims.aims for column in aim.same)
    return Priced(aims, facts.similarity, facts.seed, facts.budget, trusted)


def _greedy(facts: Facts) -> Buyer:
    if find_spec("sklearn") is None:
        raise UsageError("`greedy` needs scikit-learn; install it with: pip install 'sciagent[bench]'")
    return Greedy(facts.threshold, facts.sign, facts.similarity, facts.seed, facts.budget)


SCHEDULERS: dict[str, Callable[[Facts], Buyer]] = {
    "priced": _priced,
    "thresholds": lambda f: CampaignThresholds(f.threshold, f.sign, f.seed, f.budget),
    "halving": lambda f: Ordered(FallingHalving(f.sign)),
    "best_rung": lambda f: Ordered(FittedBestRung(f.threshold, f.sign, f.seed, f.budget)),
    "greedy": _greedy,
    "random": lambda f: Ordered(Random(f.seed)),
    "exhaustive": lambda f: Ordered(Exhaustive()),
}
