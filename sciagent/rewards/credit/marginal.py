"""Credit by what the group would lose: candidates that a sibling proposes too earn an episode nothing.

This serves another aim than the other estimators: the worth of what a group found together, not the sum over its
siblings. What the others found does not depend on this episode, so that subtracting it adds no bias.
Source: difference rewards, Wolpert and Tumer (2001), "Optimal payoff functions for members of collectives".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from sciagent.rewards.credit.returns import Group, returns


class Find(NamedTuple):
    """A candidate that was proposed in a turn."""

    key: str
    scaffold: str
    value: float | None
    """The candidate's worth, at least 0; None if undecided."""


Weight = Callable[[int], float]
"""Weight of the k-th best candidate of a scaffold, k = 1, 2, ..."""


def one_by_rank(k: int) -> float:
    """Returns 1 / k."""
    return 1.0 / k


def worth(finds: Iterable[Find], weight: Weight = one_by_rank) -> float | None:
    """Returns the worth of a set of candidates; None if one is undecided.

    A candidate counts once, and the k-th best of its scaffold with `weight(k)`, so that the order plays no part.
    """
    by_scaffold: Mapping[str, list[float]] = defaultdict(list)
    for find in {find.key: find for find in finds}.values():
        if find.value is None:
            return None
        by_scaffold[find.scaffold].append(find.value)
    return sum(
        weight(k) * value
        for values in by_scaffold.values()
        for k, value in enumerate(sorted(values, reverse=True), start=1)
    )


def advantages(
    finds: Sequence[Sequence[Sequence[Find]]], costs: Group, weight: Weight = one_by_rank
) -> list[list[float | None]]:
    """Returns for each turn what the group would lose without this episode from this turn on: (siblings, turns).

    finds: (siblings, turns, any number) the candidates of each turn. costs: (siblings, turns) what the turns cost, in
    units of worth; the costs from a turn on are compared with nothing, since each episode pays for its own.
    Raises ValueError if the shapes differ.
    """
    flat = [[find for turn in episode for find in turn] for episode in finds]
    result: list[list[float | None]] = []
    for place, (episode, paid) in enumerate(zip(finds, costs, strict=True)):
        others = [find for other, found in enumerate(flat) if other != place for find in found]
        own: list[float | None] = []
        for turn, (_, spent) in enumerate(zip(episode, returns(paid), strict=True)):
            before = [find for earlier in episode[:turn] for find in earlier]
            later = [find for coming in episode[turn:] for find in coming]
            lost = _lost([*others, *before], later, weight)
            own.append(None if lost is None or spent is None else lost - spent)
        result.append(own)
    return result


def _lost(rest: Sequence[Find], later: Sequence[Find], weight: Weight) -> float | None:
    """Returns what `rest` is worth more together with `later`. Other scaffolds cancel and may be undecided."""
    touched = {find.scaffold for find in later}
    kept = [find for find in rest if find.scaffold in touched]
    together, without = worth([*kept, *later], weight), worth(kept, weight)
    return None if together is None or without is None else together - without
