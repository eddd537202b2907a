"""Credit by what the group would lose: candidates that a sibling proposes too earn an episode nothing.

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
    return math.fsum(weight(counts.add(families)) * value for (_, families), value in best_first)


def advantages(
    finds: Sequence[Sequence[Sequence[Find]]], costs: Group, weight: Weight = one_by_rank
) -> list[list[float | None]]:
    """Returns for each turn what the group would lose without this episode from this turn on: (siblings, turns).

    finds: (siblings, turns, any number) the candidates of each turn. costs: (siblings, turns) what the turns cost, in
    units of worth; the costs from a turn on are compared with nothing, since each episode pays for its own.
    Raises ValueError if the shapes differ.
    """
    flat = [list(chain.from_iterable(episode)) for episode in finds]
    result: list[list[float | None]] = []
    for place, (episode, paid) in enumerate(zip(finds, costs, strict=True)):
        others = []
        for other, found in enumerate(flat):
            if other != place:
                others.extend(found)
        own: list[float | None] = []
        for turn, (_, spent) in enumerate(zip(episode, returns(paid), strict=True)):
            before = list(chain.from_iterable(episode[:turn]))
            later = list(chain.from_iterable(episode[turn:]))
            lost = _lost([*others, *before], later, weight)
            own.append(None if lost is None or spent is None else lost - spent)
        result.append(own)
    return result


def _lost(rest: Sequence[Find], later: Sequence[Find], weight: Weight) -> float | None:
    """Returns how much more `rest` is worth together with `later`; families without a candidate of `later` cancel."""
    touched = _touched(rest, later)
    touched_rest = [find for find in rest if touched.intersection(find.families)]
    together = worth([*touched_rest, *later], weight)
    without = worth(touched_rest, weight)
    return None if together is None or without is None else together - without


def _touched(rest: Sequence[Find], later: Sequence[Find]) -> set[str]:
    """Returns the families of `later`, and all families that candidates of `rest` share with one of them."""
    touched = set(chain.from_iterable(find.families for find in later))
    while True:
        joined = [find.families for find in rest if touched.intersection(find.families)]
        more = set(chain.from_iterable(joined)) - touched
        if not more:
            return touched
        touched.update(more)
