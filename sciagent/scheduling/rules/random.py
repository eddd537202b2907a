"""Random: runs the next rung on a candidate drawn uniformly. The baseline for all other rules.

A draw depends only on the seed and the waiting candidates, so that a resumed campaign draws like an uninterrupted one.
The propensity is the probability of the draw among the jobs that could still be drawn. Only the earliest WINDOW
candidates of each rung take part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from sciagent.scheduling.candidate_pool import Purchase
from sciagent.scheduling.rules.rule_and_settings_bases import PaidLadder, RungRule, SchedulerSpec, Waiting

WINDOW = 512  # candidates of each rung that take part in a draw


class Random(RungRule):
    def __init__(self, seed: int) -> None:
        self._seed = seed

    def next(self, waiting: Sequence[Waiting], slots: int) -> list[Purchase]:
        shown = [entry.rows[:WINDOW] for entry in waiting]
        rng = np.random.default_rng([self._seed, _digest(shown)])
        rows: list[list[int]] = [rung_rows.tolist() for rung_rows in shown]
        # by rung: jobs that it may still start
        places = [len(entry.rows) if entry.remaining is None else entry.remaining for entry in waiting]
        purchases: list[Purchase] = []
        while len(purchases) < slots:
            drawable: list[tuple[int, int]] = []  # rung, and position in its rows
            for k, rung_rows in enumerate(rows):
                if places[k] > 0:
                    drawable += [(k, i) for i in range(len(rung_rows))]
            if not drawable:
                break
            k, i = drawable[int(rng.integers(len(drawable)))]
            places[k] -= 1
            why = f"random: drawn from {len(drawable)} that could run"
            propensity = 1 / len(drawable)
            purchases.append(Purchase(rows[k].pop(i), waiting[k].rung, index=0.0, propensity=propensity, why=why))
        return purchases


def _digest(shown: Sequence[NDArray[np.intp]]) -> int:
    """Returns a number that depends on which candidates wait for which rung."""
    digest = hashlib.blake2b(digest_size=8)
    for rung, rows in enumerate(shown):
        digest.update(np.int64(rung).tobytes() + np.asarray(rows, dtype=np.int64).tobytes() + b"|")
    return int.from_bytes(digest.digest(), "little")


class RandomSpec(SchedulerSpec):
    """Runs the next rung of an open candidate drawn at random, with the campaign's seed."""

    kind: Literal["random"] = Field(description="Draw at random: the baseline.")

    def rule(self, ladder: PaidLadder) -> RungRule:
        return Random(ladder.seed)
