"""How far a value scatters over conformer searches with other seeds, estimated from the conformers of one search.

A search embeds n conformers and keeps the lowest. Another seed gives n others; the distribution of their lowest
one is estimated by the bootstrap: n draws with replacement from the conformers that were found. The k-th lowest of them
is the lowest of the draws with the probability ((n - k + 1) / n)^n - ((n - k) / n)^n, k = 1 … n: 0.65, 0.24, 0.08,
0.02, … for n = 10.
No random numbers are needed, and the few lowest conformers carry nearly all of the weight. A conformer that was found
often occupies several of the lowest ranks, so that a search that always ends in it has no spread.

How often the spread covers repeated searches: benchmarks/repeatability.

Source: the bootstrap: Efron, Ann. Stat. 7, 1 (1979).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

COVERED_PROBABILITY = 0.99  # sum of the probabilities of the ranks that are computed


def lowest_probabilities(n: int) -> Numbers:
    """Returns (n,) the probability that the conformer of each rank is the lowest of n draws with replacement."""
    share_from_rank = np.arange(n, -1, -1) / n  # share of the conformers from each rank up: 1 to 0
    probabilities: Numbers = share_from_rank[:-1] ** n - share_from_rank[1:] ** n
    return probabilities


def ranks_that_matter(n: int) -> int:
    """Returns how many of the lowest ranks hold 99 % of the probability: 4 of 10."""
    return int(np.searchsorted(np.cumsum(lowest_probabilities(n)), COVERED_PROBABILITY) + 1)


def spread_over_searches(values: Sequence[Numbers | float | None], n: int) -> float | None:
    """Returns the standard deviation of a value over repeated searches, in the value's unit.

    values: of the lowest conformers by rank, None where there is none; n: conformers of the search. None if the lowest
    conformer or all others have no value.
    """
    known = np.array([value is not None for value in values], dtype=bool)
    # A search with one conformer always ends in it, so that no second value is needed.
    needed = 1 if n == 1 else 2
    if not known[0] or known.sum() < needed:
        return None
    weights = lowest_probabilities(n)[: len(known)][known]
    numbers = np.array([value for value in values if value is not None], dtype=float)
    mean = np.average(numbers, weights=weights)
    return float(np.sqrt(np.average((numbers - mean) ** 2, weights=weights)))
