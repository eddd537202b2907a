"""Means with standard errors that allow for the likeness of candidates of one episode.

A policy answers each episode anew, but the candidates of an episode resemble each other. So the episodes are the
independent units: the deviations of an episode are added before they are squared.

Source: Liang and Zeger, Biometrika 73, 13 (1986).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class ClusteredMean(NamedTuple):
    """A weighted mean with its standard error."""

    value: float
    error: float | None
    """Standard error; None for fewer than two clusters."""
    n: int
    """Number of values."""
    clusters: int
    """Number of clusters, such as episodes."""


def clustered_mean(values: Array, clusters: Sequence[int], weights: Array | None = None) -> ClusteredMean | None:
    """Returns sum(w x) / sum(w) with its standard error; None without values or without weight.

    values, clusters, weights: (n,); clusters: the number of the cluster of each value; weights: 1 if left out.
    """
    weights = np.ones(len(values)) if weights is None else weights
    total = float(weights.sum())
    if not total > 0:
        return None
    mean = float(weights @ values) / total
    sums = cluster_sums(weights * (values - mean), clusters)
    m = len(sums)
    error = None if m < 2 else float(np.sqrt(m / (m - 1) * (sums**2).sum())) / total
    return ClusteredMean(mean, error, len(values), m)


def cluster_sums(values: Array, clusters: Sequence[int]) -> Array:
    """Returns (m,) sums of the values of each of the m clusters."""
    _, places = np.unique(np.asarray(clusters), return_inverse=True)
    return np.bincount(places, weights=values).astype(np.float64)
