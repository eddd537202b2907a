"""Tasks that are with people for weeks: how many are listed ahead, and how many a goal still needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple

WEEKS = 2  # of a weekly limit that may be on the list


class Chances(NamedTuple):
    """Chances of a hit by a law."""

    out: Sequence[float]
    """Chances of the candidates that are with people."""
    ahead: Sequence[float]
    """Chances of those that may be next, descending."""


def enough(count: int, hits: int, verified: int) -> int:
    """Returns the number of open tasks that are likely to bring the missing hits, at the share of hits so far.

    Source of the share: Laplace's rule of succession. It stands in for chances where there is no law.
    """
    return further(count - hits, (), repeat(share(hits, verified)))


def share(hits: int, verified: int) -> float:
    """Returns the chance of a hit by the share of hits so far, (hits + 1) / (verified + 2)."""
    return (hits + 1) / (max(verified, hits) + 2)


def further(missing: int, out: Iterable[float], ahead: Iterable[float]) -> int:
    """Returns how many tasks, in the order of `ahead`, bring the missing hits together with those that are out: the
    least number with a sum of chances of at least `missing`. What is out counts, so that a goal is not overshot by all
    of it. out, ahead: chances of a hit."""
    number, expected = 0, sum(out)
    for chance in ahead:
        if expected >= missing - 1e-9:
            break
        number, expected = number + 1, expected + chance
    return number
