"""The diversity of proposals: distinct scaffolds, and distances between the candidates of an episode or a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.special import gammaln

from sciagent.chemistry.fingerprint import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.rewards.guards.clustered import Array


def distinct_scaffolds(counts: Iterable[int], sample: int) -> float | None:
    """Returns the expected number of scaffolds in a random sample of so many proposals; None if there are fewer.

    counts: number of proposals of each scaffold. A policy that proposed more would otherwise look more diverse.

    Source: Hurlbert, Ecology 52, 577 (1971).
    """
    n = np.fromiter(counts, dtype=float)
    total = float(n.sum())
    if not 0 < sample <= total:
        return None
    missed = np.zeros(len(n))  # probability that the sample holds none of a scaffold
    can_miss = total - n >= sample
    left = total - n[can_miss]
    missed[can_miss] = np.exp(
        gammaln(left + 1) - gammaln(left - sample + 1) - gammaln(total + 1) + gammaln(total - sample + 1)
    )
    return float((1 - missed).sum())


def nearest_distances(subject: Subject, found: Sequence[Features]) -> Array:
    """Returns (n,) for each candidate 1 less the similarity to the most similar of the others.

    A candidate that occurs twice has the distance 0. One candidate alone has none: (0,).
    """
    if len(found) < 2:
        return np.zeros(0)
    nearest = np.zeros(len(found))
    for place in range(1, len(found)):
        alike = np.array(subject.similarities(found[place], found[:place]))
        nearest[:place] = np.maximum(nearest[:place], alike)
        nearest[place] = alike.max()
    return 1.0 - nearest
