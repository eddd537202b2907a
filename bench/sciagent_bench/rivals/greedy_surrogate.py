"""Greedy surrogate: a random forest on cheap answers and structure, fitted to the terminal answers so far. The
candidates with the best predictions are verified next, as in virtual screening with active learning.

Source: Graff, Shakhnovich, Coley, Chem. Sci. 12, 7866 (2021), arXiv 2012.07127, the greedy rule.
"""

from __future__ import annotations

import numpy as np

from sciagent.scheduling.array_types import Array
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.similarity import Similarity
from sciagent_bench.rivals.shared_first_purchases import warm_up

WARM_UP = (10, 60)
WARM_UP_SHARE = 0.05  # terminal answers before a forest: limits, fraction of the affordable
BATCH = 8
BATCH_SHARE = 0.1  # terminal answers between two forests: at least, and fraction of the known ones
TREES = 100
LANDMARKS = 100  # a structure is described by its similarity to this many candidates


class Greedy:
    """The scheduler. threshold: of a hit. sign: 1 if hits lie above it, -1 if below. similarity: of the structures, or
    None. budget: the total."""

    def __init__(self, threshold: float, sign: int, similarity: Similarity | None, seed: int, budget: float) -> None:
        self._threshold = threshold
        self._sign = sign
        self._similarity = similarity
        self._budget = budget
        self._rng = np.random.default_rng(seed)
        self._landmarks = np.empty(0, dtype=np.intp)
        self._alike = np.empty((0, 0))

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        last = pool.scores.shape[1] - 1
        affordable = self._budget / float(pool.costs[:, last].mean())
        enough = int(np.clip(WARM_UP_SHARE * affordable, *WARM_UP))
        if first := warm_up(pool, left, self._similarity is not None, enough, self._sign, self._rng):
            return first
        answered = np.flatnonzero(~np.isnan(pool.scores[:, last]))
        open_ = np.flatnonzero(~pool.out & ~pool.closed[:, last])
        if not len(open_) or not len(answered):
            return []
        answers = pool.scores[answered, last]
        y = TruthTransform.of(answers, self._threshold, self._sign)(answers)
        x = self._inputs(pool)
        predicted = self._forest(x[answered], y, x[open_]) if x.shape[1] else np.zeros(len(open_))
        # a forest predicts equal values beyond its data; there the cheap answers decide, weighted by their correlation
        order = np.lexsort((-_agreement(x[answered], y, x[open_]), -predicted))
        order = order[: max(BATCH, int(BATCH_SHARE * len(answered)))]
        return [Purchase(int(open_[i]), pool.paid[-1], float(predicted[i])) for i in order]

    def _inputs(self, pool: CandidatePool) -> Array:
        """Returns (n, features): answers of rungs that most candidates have (gaps: the median), and similarities."""
        columns = pool.scores[:, :-1][:, pool.closed[:, :-1].mean(0) > 0.5]
        columns = np.where(np.isnan(columns), np.nanmedian(columns, axis=0), columns)
        if self._similarity is None:
            return columns
        n = len(pool.out)
        if len(self._landmarks) < min(LANDMARKS, n):
            self._landmarks = self._rng.permutation(n)[:LANDMARKS]
            self._alike = np.empty((0, len(self._landmarks)))
        new = np.arange(len(self._alike), n)
        if len(new):
            self._alike = np.vstack([self._alike, self._similarity.between(new, self._landmarks)])
        return np.column_stack([columns, self._alike])

    def _forest(self, x: Array, y: Array, of: Array) -> Array:
        from sklearn.ensemble import RandomForestRegressor

        share = 1.0 if self._similarity is None else 1 / 3
        seed = int(self._rng.integers(2**31))
        forest = RandomForestRegressor(TREES, max_features=share, random_state=seed)
        predicted: Array = forest.fit(x, y).predict(of)
        return np.round(predicted, 9)


def _agreement(x: Array, y: Array, of: Array) -> Array:
    """Returns the sum of the standardised inputs, (n,), each weighted by its correlation with y."""
    spread = x.std(0)
    scale = np.where(spread > 0, spread, np.inf)
    weights = ((x - x.mean(0)) / scale).T @ (y - y.mean())
    agreement: Array = ((of - x.mean(0)) / scale) @ weights
    return agreement
