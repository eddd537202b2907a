"""Tasks that are with people for weeks: how many are listed ahead, and how many a goal still needs."""

from __future__ import annotations

import math

WEEKS = 2  # of a weekly limit that may be on the list


def enough(count: int, hits: int, verified: int) -> int:
    """Returns the number of open tasks that are likely to bring the missing hits.

    Each task counts with the share of hits so far, p = (hits + 1) / (verified + 2). The number is the least n with
    n p >= count - hits.

    Source of the share: Laplace's rule of succession.
    """
    share = (hits + 1) / (max(verified, hits) + 2)
    return max(0, math.ceil((count - hits) / share - 1e-9))
