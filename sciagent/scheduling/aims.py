"""The goal of a campaign in the law's terms: an aim for each objective, and their common payoff."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.objectives import UTILITY_FLOOR
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.hints import Hint
from sciagent.scheduling.law.stack import Question
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.payoff import Graded, Hits, Payoff, utility_payoff


@dataclass(frozen=True)
class Aim:
    """One objective. columns: the pool's columns for its property, ascending in rung; the last one decides. low, high:
    limits of a hit, in its unit. desirability: (n,) values to (n,) in [0, 1]. weight: in the utility. hint: an assumed
    relation to a lower rung. alike: groups of `columns`, ascending, of which each measures one property at several
    levels. passes: lower columns whose gate has one limit, and 1 if what lies above it passes, else -1."""

    columns: tuple[int, ...]
    low: float = -math.inf
    high: float = math.inf
    desirability: Callable[[Array], Array] | None = None
    weight: float = 1.0
    hint: Hint | None = None
    alike: tuple[tuple[int, ...], ...] = ()
    passes: tuple[tuple[int, int], ...] = ()

    @property
    def same(self) -> tuple[int, ...]:
        """The lower columns that measure its property at another level."""
        return next((group[:-1] for group in self.alike if group[-1] == self.columns[-1]), ())

    @property
    def sign(self) -> int:
        """1 if larger values are better, -1 if smaller ones, 0 if hits have two limits or none."""
        return int(math.isinf(self.high)) - int(math.isinf(self.low))


@dataclass(frozen=True)
class Aims:
    """All objectives. kind: `hits`; `graded`: by utility; `best`: by utility above that of the count-th best found."""

    aims: tuple[Aim, ...]
    kind: str = "hits"
    count: int = 1

    @classmethod
    def with_threshold(cls, columns: int, threshold: float, sign: int, **known: Any) -> Aims:
        """Returns one aim on a ladder with `columns` rungs. Hits lie above the threshold if sign is 1, below if -1.
        known: `alike` and `passes` of the aim."""
        low, high = (threshold, math.inf) if sign > 0 else (-math.inf, threshold)
        return cls((Aim(tuple(range(columns)), low, high, **known),))

    def truths(self, scores: Array) -> tuple[TruthTransform, ...]:
        """Returns the transform of each aim's deciding answers. scores: (n, c)."""
        return tuple(TruthTransform.within(scores[:, aim.columns[-1]], *self._limits(aim)) for aim in self.aims)

    @property
    def one_sided(self) -> bool:
        """Whether every aim has one best end."""
        return all(aim.sign for aim in self.aims)

    def promise(self, scores: Array) -> Array | None:
        """Returns (n,) values of the property at the highest lower level, the best ones largest, or of the highest
        answered column by whose gate one end is better. None if there is neither, for several objectives, or without
        one best end."""
        [aim, *others] = self.aims
        if others or not aim.sign:
            return None
        if aim.same:
            return aim.sign * scores[:, aim.same[-1]]
        known = [(column, sign) for column, sign in aim.passes if not np.isnan(scores[:, column]).all()]
        return known[-1][1] * scores[:, known[-1][0]] if known else None

    def _limits(self, aim: Aim) -> tuple[float, float]:
        return (aim.low, aim.high) if self.kind == "hits" else (-math.inf, math.inf)

    @property
    def hints(self) -> tuple[Hint, ...]:
        """The hints of all aims; empty if one aim has none, since the law needs a hint for each."""
        hints = tuple(aim.hint for aim in self.aims if aim.hint is not None)
        return hints if len(hints) == len(self.aims) else ()

    def payoff(self, truths: Sequence[TruthTransform], scores: Array, record: float = 0.0) -> Payoff:
        """Returns the payoff of an answer. record: utility that a graded payoff has to exceed; `best` takes that
        of the scores."""
        if self.kind == "hits":
            return Hits(tuple(truths))
        desirabilities = [
            _of_y(aim.desirability or np.ones_like, truth) for aim, truth in zip(self.aims, truths, strict=True)
        ]
        record = self._record(scores) if self.kind == "best" else record
        return Graded(utility_payoff(desirabilities, [aim.weight for aim in self.aims], record), len(self.aims))

    def misses_all(self, scores: Array) -> bool:
        """Returns whether every candidate with all deciding answers has the lowest utility; False without any."""
        utilities = self._utilities(scores)
        return bool(len(utilities) and utilities.max() <= UTILITY_FLOOR * (1 + 1e-9))

    def _record(self, scores: Array) -> float:
        """Returns the utility of the count-th best candidate with all deciding answers; 0 if there are fewer."""
        utilities = self._utilities(scores)
        return float(np.sort(utilities)[-self.count]) if len(utilities) >= self.count else 0.0

    def _utilities(self, scores: Array) -> Array:
        """Returns the utilities of the m candidates with all deciding answers, (m,)."""
        known = scores[:, [aim.columns[-1] for aim in self.aims]]
        known = known[~np.isnan(known).any(1)]
        if not len(known):
            return np.empty(0)
        worth = [(aim.desirability or np.ones_like)(v) for aim, v in zip(self.aims, known.T, strict=True)]
        return np.asarray(
            utility_payoff([lambda v: v] * len(worth), [aim.weight for aim in self.aims])(np.array(worth))
        )


def questions(
    aims: Aims, truths: Sequence[TruthTransform], scores: Array, errors: NDArray[np.float32] | None = None
) -> list[Question]:
    """Returns one question per aim. scores: (n, c). errors: (n, c) standard uncertainties of the scores, or None."""
    return [
        Question(
            _of(scores, aim.columns),
            truth,
            None if errors is None else _of(errors, aim.columns),
            tuple(tuple(map(aim.columns.index, group)) for group in aim.alike),
        )
        for aim, truth in zip(aims.aims, truths, strict=True)
    ]


def _of(scores: NDArray[Any], columns: tuple[int, ...]) -> NDArray[Any]:
    """Returns columns of the scores, without a copy if they are adjacent."""
    first, last = columns[0], columns[-1]
    return scores[:, first : last + 1] if columns == tuple(range(first, last + 1)) else scores[:, columns]


def _of_y(desirability: Callable[[Array], Array], truth: TruthTransform) -> Callable[[Array], Array]:
    return lambda y: desirability(truth.inverse(y))
