"""The diversity of proposals: distinct scaffolds, and distances between the molecules of an episode or a group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from rdkit.DataStructs import BulkTanimotoSimilarity
from scipy.special import gammaln

from sciagent.chemistry.fingerprint import features
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


def nearest_distances(molecules: Sequence[str]) -> Array:
    """Returns (n,) for each molecule 1 less the Tanimoto similarity to the most similar of the others.

    molecules: canonical SMILES. A molecule that occurs twice has the distance 0. One molecule alone has none: (0,).
    """
    bits = [features(molecule).bits for molecule in molecules]
    if len(bits) < 2:
        return np.zeros(0)
    nearest = np.zeros(len(bits))
    for place in range(1, len(bits)):
        alike = np.array(BulkTanimotoSimilarity(bits[place], bits[:place]))
        nearest[:place] = np.maximum(nearest[:place], alike)
        nearest[place] = alike.max()
    return 1.0 - nearest
