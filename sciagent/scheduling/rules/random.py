"""Random: an open candidate, drawn uniformly, gets its next rung. What any cleverer rule has to beat.

The draw depends on the seed and on what waits, on nothing else, so that a resumed campaign draws as one that was never
stopped. The propensity of a choice is the probability with which it was drawn from what could still be drawn then.
At most the window of candidates that a rule is shown takes part, the earliest of each rung.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rung_by_rung import RungRule, Waiting

WINDOW = 512  # candidates of each rung that take part in a draw


class Random(RungRule):
    name = "random"

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        shown = [at.rows[:WINDOW] for at in waiting]
        rng = np.random.default_rng([self._seed, _digest(shown)])
        rows = [list(map(int, of)) for of in shown]
        left = [len(of) if at.remaining is None else at.remaining for of, at in zip(rows, waiting, strict=True)]
        purchases: list[Purchase] = []
        while len(purchases) < slots:
            drawable = [(k, i) for k, of in enumerate(rows) if left[k] > 0 for i in range(len(of))]
            if not drawable:
                break
            k, i = drawable[int(rng.integers(len(drawable)))]
            left[k] -= 1
            why = f"random: drawn from {len(drawable)} that could run"
            purchases.append(Purchase(rows[k].pop(i), waiting[k].rung, 0.0, 1 / len(drawable), why))
        return purchases


def _digest(shown: Sequence[NDArray[np.intp]]) -> int:
    """A number that depends on which candidates wait for which rung."""
    digest = hashlib.blake2b(digest_size=8)
    for rung, rows in enumerate(shown):
        digest.update(np.int64(rung).tobytes() + np.asarray(rows, dtype=np.int64).tobytes() + b"|")
    return int.from_bytes(digest.digest(), "little")
