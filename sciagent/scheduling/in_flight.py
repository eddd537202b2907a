"""Tasks that are with people for weeks: how many are listed ahead, and how many a goal still needs."""

from __future__ import annotations

import math

WEEKS = 2  # of a weekly limit that may be on the list


def enough(count: int, hits: int, verified: int) -> int:
    """Returns the number of open tasks that are likely to bring the missing hits: the least n with
    hits + n p - sqrt(n p (1 - p)) >= count, at the share p = (hits + 1) / (verified + 2) of hits so far.

    Source of p: Laplace's rule of succession. What is out counts, so that a goal is not overshot by all of it.
    """
    missing, p = count - hits, (hits + 1) / (max(verified, hits) + 2)
    if missing <= 0:
        return 0
    root = (math.sqrt(p * (1 - p)) + math.sqrt(p * (1 - p) + 4 * p * missing)) / (2 * p)
    return math.ceil(root**2 - 1e-9)
