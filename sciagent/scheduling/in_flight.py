"""Tasks that are with people for weeks: how many are listed ahead, and how many a goal still needs."""

from __future__ import annotations

import math
from collections.abc import Sequence

WEEKS = 2  # of a weekly limit that may be on the list
RECENT = 10
"""Number of the latest answers whose share of hits is expected of tasks that are out. All answers would say too little:
the first ones are there to be learnt from."""


def enough(count: int, hits: int, latest: Sequence[bool]) -> int:
    """Returns the number of open tasks that are likely to bring the missing hits.

    latest: whether each of the latest answers, at most RECENT, is a hit. Each task counts with their share of hits,
    p = (h + 1) / (n + 2). The number is the least m with m p >= count - hits.

    Source of the share: Laplace's rule of succession.
    """
    share = (sum(latest) + 1) / (len(latest) + 2)
    return max(0, math.ceil((count - hits) / share - 1e-9))
