"""Draws operators by how many of their children are in the population now.

For operator o, with every count halved after HALF_LIFE further children,

    rate(o) = (kept(o) + PRIOR * mean) / (made(o) + PRIOR)
    weight(o) ~ share(o) * (FLOOR * mean rate + (1 - FLOOR) * rate(o))

`kept` is counted from the population and `made` from the requested children, so that only `made` is stored. An operator
without success keeps the floor, so that it can succeed later in the search.

Source: Thierens, GECCO 2005 (probability matching, there with an exponential average of rewards).
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

HALF_LIFE = 500.0
PRIOR = 10.0
FLOOR = 0.1  # fraction of the draws that all operators share


class OperatorChoice:
    """The drawing weights of named operators. `made`: decayed counts of children by operator; can be stored as JSON."""

    def __init__(self, shares: Mapping[str, float], made: Mapping[str, float] | None = None) -> None:
        self.names = tuple(shares)
        self._shares = dict(shares)
        self.made = {name: float((made or {}).get(name, 0.0)) for name in self.names}

    def weights(self, kept: Mapping[str, float]) -> list[float]:
        """Returns (n,) weights that sum to 1. kept: weight of the surviving members by operator."""
        mean = (sum(kept.values()) + PRIOR) / (sum(self.made.values()) + PRIOR)
        rates = [(kept.get(o, 0.0) + PRIOR * mean) / (self.made[o] + PRIOR) for o in self.names]
        floor = FLOOR * sum(rates) / len(rates)
        weights = [self._shares[o] * (floor + (1 - FLOOR) * r) for o, r in zip(self.names, rates, strict=True)]
        return [weight / sum(weights) for weight in weights]

    def draw(self, rng: random.Random, weights: Sequence[float]) -> str:
        return rng.choices(self.names, weights=weights)[0]

    def count(self, name: str) -> None:
        """Counts one child of this operator; the counts of all earlier children decay."""
        fade = decay(1)
        for operator in self.made:
            self.made[operator] *= fade
        if name in self.made:
            self.made[name] += 1


def decay(age: float) -> float:
    """Returns the weight of a child after `age` later children."""
    return math.exp2(-max(age, 0.0) / HALF_LIFE)
