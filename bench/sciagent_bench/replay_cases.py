"""The input of a replay: a table of known answers, the hit threshold, and the similarity of structures."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from sciagent.errors import UsageError
from sciagent.scheduling.aims_and_payoff import Aim, Aims
from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.similarity import Similarity
from sciagent_bench.replay_once import Truth
from sciagent_bench.rungs_of_same_property_and_good_ends import NOTHING, KnownRungs
from sciagent_bench.synthetic_ladders import family


@dataclass(frozen=True)
class Case:
    """A table of known answers. threshold: of a hit, in the terminal rung's unit. sign: 1 if hits lie above it, else
    -1. wide, aims: the same candidates with all properties of each rung, for schedulers that read several. names: of
    the rungs."""

    truth: Truth
    threshold: float
    sign: int
    similarity: Similarity | None = None
    wide: Truth | None = None
    aims: Aims | None = None
    names: tuple[str, ...] = ()
    known: KnownRungs = NOTHING

    @classmethod
    def of(
        cls,
        truth: Truth,
        sign: int = 1,
        similarity: Similarity | None = None,
        names: tuple[str, ...] = (),
        known: KnownRungs = NOTHING,
    ) -> Case:
        """Returns a case whose threshold is halfway between the worst hit and the best other answer."""
        value = sign * truth.scores[:, -1]
        hits = value[truth.hit]
        others = value[~truth.hit & ~np.isnan(value)]
        if not len(hits) or not len(others):
            raise UsageError(f"{len(hits)} hits among {len(hits) + len(others)} answers; hits must be some, not all")
        return cls(truth, sign * float(hits.min() + others.max()) / 2, sign, similarity, names=names, known=known)

    @property
    def limits(self) -> tuple[float, float]:
        """The limits of a hit."""
        return (self.threshold, math.inf) if self.sign > 0 else (-math.inf, self.threshold)

    def aim(self, low: float, high: float) -> Aim:
        """Returns the aim of a hit between these limits, with what is known of the rungs that are there."""
        return self.known.aim(self.names, self.truth.scores.shape[1], low, high)

    def arriving(self, order: RowIndices) -> Case:
        """Returns the case with the candidates in another order of arrival. order: (n,) rows of this case."""
        similarity = None if self.similarity is None else Reordered(self.similarity, order)
        wide = None if self.wide is None else _ordered(self.wide, order)
        return replace(self, truth=_ordered(self.truth, order), similarity=similarity, wide=wide)


def _ordered(truth: Truth, order: RowIndices) -> Truth:
    return Truth(truth.scores[order], truth.costs[order], truth.hit[order], truth.rungs)


@dataclass(frozen=True)
class Reordered:
    """A similarity with rows in another order. order: (n,) rows of the original."""

    similarity: Similarity
    order: RowIndices

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        return self.similarity.between(self.order[rows], self.order[columns])


@dataclass(frozen=True)
class OfTable:
    """A source of cases: each seed shuffles the order of arrival."""

    case: Case

    def __call__(self, seed: int) -> Case:
        return self.case.arriving(np.random.default_rng([seed, 1]).permutation(len(self.case.truth.hit)))


@dataclass(frozen=True)
class OfFamily:
    """A source of cases: each seed draws a new family."""

    name: str
    n: int
    top: float

    def __call__(self, seed: int) -> Case:
        return Case.of(family(self.name, self.n, seed, self.top))
