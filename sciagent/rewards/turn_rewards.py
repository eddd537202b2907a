"""Rewards of the turns of an episode, from what its candidates are worth and what they cost.

A worth is in the goal's unit: hits, or utility. None means undecided: nothing may be learned from the worth yet. The
k-th candidate of a family counts less than those before it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from sciagent.domain.cost_and_budget import Cost
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.reward_term_contract import CandidateState, Settlement, Unsettled


class FamilyCounts:
    """The candidates of each family so far. A candidate may belong to several families."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def add(self, families: Collection[str]) -> int:
        """Adds a candidate; returns its number in its largest family so far: k if it is the k-th candidate there."""
        self._seen.update(families)
        return max((self._seen[family] for family in families), default=1)


@dataclass(frozen=True)
class ProposedCandidate:
    """A candidate in the turn that proposed it first in its episode."""

    key: str
    families: tuple[str, ...]
    """The scaffold or the ring systems; candidates that share one count less and less."""
    worth: float | None
    """Worth in hits or utility; None if undecided."""
    settled: bool
    """Whether the terminal rung has answered, or nothing more can be bought."""
    cost: Cost
    """All that was booked for the candidate, whoever paid, up to the ledger position of the rewards (the watermark)."""


@dataclass(frozen=True)
class TurnFacts:
    """The candidates and the costs of a turn."""

    candidates: Sequence[ProposedCandidate] = ()
    cost: Cost = field(default_factory=Cost)
    """Cost of the turn itself: tokens, and what ran while it waited."""
    terms: Mapping[str, float | None] = field(default_factory=dict)
    """Named terms before their weights, each from -1 to 1; None if undecided."""
    was_filtered: bool = False
    """Whether a filter dropped a proposal of the turn. The turn is then undecided: no reward is made of what a law says
    of candidates that it has kept from being verified."""


@dataclass(frozen=True)
class TurnReward:
    """The reward of one turn, in hits or utility."""

    value: float | None
    """None if a candidate or a term of the turn is undecided, or if a filter dropped one of its proposals."""
    terms: Mapping[str, float | None]
    """The parts of the value by name: `evidence`, `cost`, and the named terms as they count."""


def price_of(cost: Mapping[str, float], prices: Mapping[str, float]) -> float:
    """Returns a cost in hits or utility. prices: price of one unit of each resource; without a price it is free."""
    return sum(amount * prices.get(resource, 0.0) for resource, amount in cost.items())


def with_limited_worths(episode: Sequence[TurnFacts], spec: RewardSpec) -> Sequence[TurnFacts]:
    """Returns the episode with the worths of its unsettled candidates limited: their sum is at most `unsettled_limit`.

    The last candidates lose first.
    """
    if spec.unsettled_limit is None:
        return episode
    families = FamilyCounts()
    keys: set[str] = set()
    remaining = spec.unsettled_limit

    def cut(candidate: ProposedCandidate) -> ProposedCandidate:
        """Returns a candidate with the part of its worth that remains below the limit."""
        nonlocal remaining
        if candidate.key in keys:  # it has been counted in an earlier turn
            return candidate
        keys.add(candidate.key)
        weight = spec.weight(families.add(candidate.families))
        if candidate.settled or candidate.worth is None:
            return candidate
        counted = min(remaining, weight * candidate.worth)
        remaining -= counted
        return replace(candidate, worth=counted / weight)

    return [replace(turn, candidates=[cut(candidate) for candidate in turn.candidates]) for turn in episode]


def turn_rewards(episode: Sequence[TurnFacts], spec: RewardSpec) -> list[TurnReward]:
    """Returns the rewards of an episode's turns: (turns,).

    A candidate counts in the turn that proposes it first. The k-th of its family has the weight k^-scaffold_decay.
    What unsettled candidates promise counts up to `unsettled_limit`. The sum of all terms of the episode so far stays
    within `terms_limit`; what a term adds beyond does not count.
    """
    families = FamilyCounts()
    keys: set[str] = set()
    rewards = []
    collected = 0.0
    for turn in with_limited_worths(episode, spec):
        evidence: float | None = None if turn.was_filtered else 0.0
        spent = price_of(turn.cost, spec.prices)
        for candidate in turn.candidates:
            if candidate.key in keys:
                continue
            keys.add(candidate.key)
            weight = spec.weight(families.add(candidate.families))
            spent += price_of(candidate.cost, spec.prices)
            if evidence is None or candidate.worth is None:
                evidence = None
            else:
                evidence += weight * candidate.worth
        # the terms count only as far as their sum over the episode stays within the limit
        undecided = [name for name in spec.terms if turn.terms.get(name, 0.0) is None]
        wanted = {name: term_weight * (turn.terms.get(name) or 0.0) for name, term_weight in spec.terms.items()}
        allowed = _within(collected + sum(wanted.values()), spec.terms_limit) - collected
        collected += allowed
        counted = _scaled(wanted, allowed)
        value = None if evidence is None or undecided else evidence - spent + allowed
        parts: dict[str, float | None] = {"evidence": evidence, "cost": -spent, **counted}
        for name in undecided:
            parts[name] = None
        rewards.append(TurnReward(value, parts))
    return rewards


def _within(value: float, limit: float) -> float:
    """Returns the value, limited to [-limit, limit]."""
    return max(-limit, min(limit, value))


def _scaled(terms: Mapping[str, float], total: float) -> dict[str, float]:
    """Returns the terms as they count: shares of `total` if the limit cut their sum, else as they are."""
    whole = sum(terms.values())
    if whole == total:
        return dict(terms)
    if whole == 0:
        return dict.fromkeys(terms, 0.0)
    return {name: total * value / whole for name, value in terms.items()}


def worth(state: CandidateState, unsettled: Unsettled) -> float | None:
    """Returns the worth of a candidate; None if it is undecided.

    `robust` is the doubly robust estimate of Robins, Rotnitzky and Zhao (1994): the payoff that the law (the
    scheduler's fitted model) expects, corrected by the answers on candidates that were drawn at random. The estimate
    has no bias if the chance of being drawn is right or if the law is right. Its values may be negative or above the
    largest payoff. A candidate without a known chance is undecided.
    """
    if state.settlement is Settlement.KNOWN:  # answered before the episode began, so the episode earns nothing by it
        return 0.0
    match unsettled:
        case "settled":
            return _settled(state)
        case "posterior":
            return state.expected if state.settlement is Settlement.OPEN else _settled(state)
        case "robust":
            return _robust(state)
    assert_never(unsettled)


def _settled(state: CandidateState) -> float | None:
    """Returns the worth by the ladder's answers alone; None if no answer decides."""
    if state.settlement is Settlement.ANSWERED:
        return state.payoff
    return 0.0 if state.settlement is Settlement.REFUSED else None


def _robust(state: CandidateState) -> float | None:
    """Returns the doubly robust estimate of the worth; None if it cannot be made."""
    if state.settlement is Settlement.REFUSED and state.chance is None:
        return 0.0  # refused by a rung that every candidate has to pass, before any lot
    if state.settlement is Settlement.UNDECIDED or state.expected is None or not state.chance:
        return None
    answer = _settled(state)
    if answer is None:
        return state.expected
    return state.expected + (answer - state.expected) / state.chance
