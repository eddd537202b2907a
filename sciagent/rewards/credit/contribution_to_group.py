"""Credit by what the group would lose: a candidate that a sibling proposes, too, earns an episode nothing.

This serves another aim than the other estimators: the worth of what a group found together, not the sum over its
siblings. What the others found does not depend on this episode, so that subtracting it adds no bias.
Source: difference rewards, Wolpert and Tumer (2001), "Optimal payoff functions for members of collectives".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

from sciagent.rewards.credit.returns_and_baselines import Group, returns
from sciagent.rewards.turn_rewards import FamilyCounts


class Find(NamedTuple):
    """A candidate that was proposed in a turn."""

    key: str
    families: tuple[str, ...]
    """The scaffold or the ring systems."""
    value: float | None
    """The candidate's worth, at least 0; None if undecided."""


Weight = Callable[[int], float]
"""Weight of the k-th best candidate of a family, k = 1, 2, ..."""


def one_by_rank(k: int) -> float:
    """Returns 1 / k."""
    return 1.0 / k


def worth(finds: Iterable[Find], weight: Weight = one_by_rank) -> float | None:
    """Returns the worth of a set of candidates; None if one is undecided.

    A candidate counts once, and the k-th best of its family with `weight(k)`, so that the order plays no part.
    """
    values: dict[tuple[str, tuple[str, ...]], float] = {}
    for find in finds:
        if find.value is None:
            return None
        values[find.key, find.families] = find.value
    best_first = sorted(values.items(), key=lambda item: (-item[1], item[0]))
    counts = FamilyCounts()
    weighted = []
    for (_, families), value in best_first:
        rank_in_family = counts.add(families)
        weighted.append(weight(rank_in_family) * value)
    return math.fsum(weighted)


def advantages(
    finds: Sequence[Sequence[Sequence[Find]]], costs: Group, weight: Weight = one_by_rank
) -> list[list[float | None]]:
    """Returns for each turn what the group would lose without this episode from this turn on: (siblings, turns).

    finds: (siblings, turns, any number) the candidates of each turn. costs: (siblings, turns) what the turns cost, in
    units of worth; the costs from a turn on are compared with nothing, since each episode pays for its own.
    Raises ValueError if the shapes differ.
    """
    finds_of_siblings = [list(chain.from_iterable(episode)) for episode in finds]
    result: list[list[float | None]] = []
    for sibling, (episode, episode_costs) in enumerate(zip(finds, costs, strict=True)):
        others = []
        for other, other_finds in enumerate(finds_of_siblings):
            if other != sibling:
                others.extend(other_finds)
        costs_to_go = returns(episode_costs)
        episode_advantages: list[float | None] = []
        for turn, (_, cost_to_go) in enumerate(zip(episode, costs_to_go, strict=True)):
            before = list(chain.from_iterable(episode[:turn]))
            later = list(chain.from_iterable(episode[turn:]))
            lost = _lost([*others, *before], later, weight)
            episode_advantages.append(None if lost is None or cost_to_go is None else lost - cost_to_go)
        result.append(episode_advantages)
    return result


def _lost(rest: Sequence[Find], later: Sequence[Find], weight: Weight) -> float | None:
    """Returns how much more `rest` is worth together with `later`.

    Candidates of `rest` whose families `later` does not change are left out, since their worth cancels.
    """
    changed_families = _changed_families(rest, later)
    changed_rest = [find for find in rest if changed_families.intersection(find.families)]
    together = worth([*changed_rest, *later], weight)
    without = worth(changed_rest, weight)
    return None if together is None or without is None else together - without


def _changed_families(rest: Sequence[Find], later: Sequence[Find]) -> set[str]:
    """Returns the families of `later`, and all families that candidates of `rest` have together with one of them."""
    changed = set(chain.from_iterable(find.families for find in later))
    while True:
        joined = [find.families for find in rest if changed.intersection(find.families)]
        more = set(chain.from_iterable(joined)) - changed
        if not more:
            return changed
        changed.update(more)
