"""Rewards of the turns of an episode, from what its candidates are worth and what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sciagent.domain.cost import Cost
from sciagent.rewards.credit.returns import plus
from sciagent.rewards.spec import RewardSpec, Term


@dataclass(frozen=True)
class ProposedCandidate:
    """A candidate in the turn that proposed it first in its episode."""

    key: str
    scaffold: str
    """The scaffold; candidates with the same one count less and less."""
    worth: float | None
    """In hits or utility; None if undecided."""
    settled: bool
    """Whether the terminal rung has answered, or nothing more can be bought."""
    cost: Cost
    """All that was booked for the candidate up to the watermark, whoever paid."""


@dataclass(frozen=True)
class TurnFacts:
    """The candidates and the costs of a turn."""

    candidates: Sequence[ProposedCandidate] = ()
    cost: Cost = field(default_factory=Cost)
    """Cost of the turn itself: tokens, and what ran while it waited."""
    terms: Mapping[Term, float] = field(default_factory=dict)
    """Named terms before their weights, each from -1 to 1."""


@dataclass(frozen=True)
class TurnReward:
    """The reward of one turn, in hits or utility."""

    value: float | None
    """None if a candidate of the turn is undecided."""
    terms: Mapping[str, float | None]
    """The parts of the value by name: `evidence`, `cost`, and the named terms as they count."""


class _Capped:
    """A sum that stays within limits: what would lead beyond does not count."""

    def __init__(self, limit: float | None) -> None:
        self._limit, self._sum = limit, 0.0

    def add(self, amount: float) -> float:
        """Adds an amount; returns how much of it counts."""
        before = self._sum
        wanted = before + amount
        self._sum = wanted if self._limit is None else max(-self._limit, min(self._limit, wanted))
        return self._sum - before


def price_of(cost: Mapping[str, float], prices: Mapping[str, float]) -> float:
    """Returns what a cost is worth in hits or utility. prices: of one unit of each resource."""
    return sum(amount * prices.get(resource, 0.0) for resource, amount in cost.items())


def turn_rewards(episode: Sequence[TurnFacts], spec: RewardSpec) -> list[TurnReward]:
    """Returns the rewards of an episode's turns: (turns,).

    A candidate counts in the turn that proposes it first. The k-th of its scaffold has the weight k^-scaffold_decay.
    The sum of all terms of the episode so far stays within `terms_limit`, and what its unsettled candidates promise
    within `unsettled_limit`; what would lead beyond does not count. The term `empty` is added in the last turn.
    """
    seen: Counter[str] = Counter()
    keys: set[str] = set()
    terms, promises = _Capped(spec.terms_limit), _Capped(spec.unsettled_limit)
    rewards = []
    for number, turn in enumerate(episode, start=1):
        evidence: float | None = 0.0
        promised = 0.0
        spent = price_of(turn.cost, spec.prices)
        for candidate in turn.candidates:
            if candidate.key in keys:
                continue
            keys.add(candidate.key)
            seen[candidate.scaffold] += 1
            spent += price_of(candidate.cost, spec.prices)
            share = None if candidate.worth is None else spec.weight(seen[candidate.scaffold]) * candidate.worth
            if share is not None and not candidate.settled:
                promised, share = promised + share, 0.0
            evidence = plus(evidence, share)
        evidence = plus(evidence, promises.add(promised))
        stated = {**turn.terms, "empty": float(number == len(episode) and is_empty(episode))}
        wanted: dict[str, float] = {name: weight * stated.get(name, 0.0) for name, weight in spec.terms.items()}
        allowed = terms.add(sum(wanted.values()))
        counted = _scaled(wanted, allowed)
        value = None if evidence is None else evidence - spent + allowed
        rewards.append(TurnReward(value, {"evidence": evidence, "cost": -spent, **counted}))
    return rewards


def is_empty(episode: Sequence[TurnFacts]) -> bool:
    """Returns whether an episode has proposed nothing, or only what was thrown out before a paid rung."""
    candidates = (candidate for turn in episode for candidate in turn.candidates)
    return all(
        candidate.settled and not candidate.worth and not any(candidate.cost.values()) for candidate in candidates
    )


def _scaled(terms: Mapping[str, float], total: float) -> dict[str, float]:
    """Returns the terms as they count: shares of `total` if the limit cut their sum, else as they are."""
    whole = sum(terms.values())
    if whole == total:
        return dict(terms)
    return {name: total * value / whole if whole else 0.0 for name, value in terms.items()}
