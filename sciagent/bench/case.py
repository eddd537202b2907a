"""What is replayed: a table of known answers, the threshold of a hit, and the likeness of structures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sciagent.bench.families import family
from sciagent.bench.simulate import Truth
from sciagent.errors import UsageError
from sciagent.scheduling.aims import Aims
from sciagent.scheduling.arrays import Array, Places
from sciagent.scheduling.law.similarity import Similarity


@dataclass(frozen=True)
class Case:
    """threshold: of a hit, in the terminal rung's unit; sign: 1 where hits lie above it, -1 below.

    wide, aims: the same candidates with all that each rung says, for a scheduler that reads more than one score.
    """

    truth: Truth
    threshold: float
    sign: int
    similarity: Similarity | None = None
    wide: Truth | None = None
    aims: Aims | None = None

    @classmethod
    def of(cls, truth: Truth, sign: int = 1, similarity: Similarity | None = None) -> Case:
        """The threshold halfway between the least hit and the best that is none: no answer lies on it."""
        value = sign * truth.scores[:, -1]
        hits, others = value[truth.hit], value[~truth.hit & ~np.isnan(value)]
        if not len(hits) or not len(others):
            raise UsageError(f"{len(hits)} hits among {len(hits) + len(others)} answers; hits must be some, not all")
        return cls(truth, sign * float(hits.min() + others.max()) / 2, sign, similarity)

    def arriving(self, order: Places) -> Case:
        """The same candidates in another order of arrival, (n,)."""
        similarity = None if self.similarity is None else Reordered(self.similarity, order)
        wide = None if self.wide is None else _ordered(self.wide, order)
        return Case(_ordered(self.truth, order), self.threshold, self.sign, similarity, wide, self.aims)


def _ordered(truth: Truth, order: Places) -> Truth:
    return Truth(truth.scores[order], truth.costs[order], truth.hit[order], truth.rungs)


@dataclass(frozen=True)
class Reordered:
    """Similarity by places in another order; order: (n,) the first order's places."""

    similarity: Similarity
    order: Places

    def between(self, rows: Places, columns: Places) -> Array:
        return self.similarity.between(self.order[rows], self.order[columns])


@dataclass(frozen=True)
class OfTable:
    """A seed shuffles the arrivals."""

    case: Case

    def __call__(self, seed: int) -> Case:
        return self.case.arriving(np.random.default_rng([seed, 1]).permutation(len(self.case.truth.hit)))


@dataclass(frozen=True)
class OfFamily:
    """A seed draws anew."""

    name: str
    n: int
    top: float

    def __call__(self, seed: int) -> Case:
        return Case.of(family(self.name, self.n, seed, self.top))
