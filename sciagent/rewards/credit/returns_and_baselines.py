"""Sums of rewards over turns, and means over siblings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

Numbers = Sequence[float | None]
"""(turns,) rewards, returns or values of one episode; None: undecided."""
Group = Sequence[Numbers]
"""(siblings, turns)"""


def plus(one: float | None, other: float | None) -> float | None:
    """Returns the sum; None if either is undecided."""
    return None if one is None or other is None else one + other


def returns(rewards: Numbers) -> list[float | None]:
    """Returns for each turn the sum of its reward and all later ones: (turns,).

    An undecided reward leaves the returns of its own turn and of earlier turns undecided, not those of later turns.
    """
    sums_from_end = list(accumulate(reversed(rewards), plus))
    return sums_from_end[::-1]


def outcome_of(rewards: Numbers) -> float | None:
    """Returns the sum of an episode's rewards; None if one is undecided. An episode without turns has 0."""
    if not rewards:
        return 0.0
    return returns(rewards)[0]


def mean_of(values: Iterable[float | None]) -> float | None:
    """Returns the mean of the decided values; None if there are none."""
    decided = [value for value in values if value is not None]
    return sum(decided) / len(decided) if decided else None


def above_others(values: Numbers) -> list[float | None]:
    """Returns for each value its difference from the mean of the other decided ones. (n,)

    A single value is compared with 0, which has no bias. If all others are undecided there is nothing to compare with.
    """
    if len(values) == 1:
        return list(values)
    decided = [value for value in values if value is not None]
    total = sum(decided)
    others = len(decided) - 1  # number of other decided values
    differences: list[float | None] = []
    for value in values:
        if value is None or others == 0:
            differences.append(None)
        else:
            differences.append(value - (total - value) / others)
    return differences
