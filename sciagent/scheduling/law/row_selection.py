"""Selects rows for a law by a hash of their candidates' keys: the same candidates are selected in every process and for
every order in which they arrived, so that a law can be made again from the evidence."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.arrays import Places

Order = NDArray[np.uint64]
"""(n,) the hash of each candidate's key; rows with the smallest are selected first."""
_STEP = np.uint64(0x9E3779B97F4A7C15)  # the constants of splitmix64, whose output is uniform
_MIX = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def order_of(keys: Iterable[str]) -> Order:
    """Returns (n,) hashes of keys."""
    return np.array([int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) for key in keys], dtype=np.uint64)


def completed(order: Order | None, n: int) -> Order:
    """Returns (n,) the order with hashes of the row numbers for rows without a key.

    Source: Steele, Lea, Flood, OOPSLA 2014, doi:10.1145/2660193.2660195 (splitmix64).
    """
    known = np.empty(0, dtype=np.uint64) if order is None else order[:n]
    with np.errstate(over="ignore"):
        x = (np.arange(len(known), n, dtype=np.uint64) + np.uint64(1)) * _STEP
        x = (x ^ (x >> np.uint64(30))) * _MIX[0]
        x = (x ^ (x >> np.uint64(27))) * _MIX[1]
    return np.concatenate([known, x ^ (x >> np.uint64(31))])


def earliest(order: Order, n: int) -> Places:
    """Returns the positions of the n smallest hashes in ascending order; all positions if there are no more than n."""
    if len(order) <= n:
        return np.arange(len(order))
    return np.sort(np.argsort(order, kind="stable")[:n])
