"""One step: the law of `priced` and none of its programme. Straight to the terminal rung, by P(hit) / cost.

Rungs that cost next to nothing are bought for all, as inputs; a paid rung in the middle never is.
Source: Jiang et al., ICML 2017, arXiv 1703.02576, the one-step rule of active search, with costs.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Question, Stack
from sciagent_bench.rivals.shared_first_purchases import warm_up

WARM_UP = 4  # terminal answers before there is a law
BATCH = 8  # purchases between two laws
BATCH_SHARE = 0.04  # the same as a share of the terminal answers


class OneStep:
    """threshold: of a hit; sign: 1 where hits lie above it, -1 below. similarity: of structures, if they have any: then
    two laws, with and without it, mixed by their leave-one-out record."""

    def __init__(self, threshold: float, sign: int, similarity: Similarity | None, seed: int) -> None:
        self._threshold = threshold
        self._sign = sign
        self._similarity = similarity
        self._rng = np.random.default_rng(seed)
        self._truth: TruthTransform | None = None
        self._stack = Stack(similarity)

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        last = pool.scores.shape[1] - 1
        if first := warm_up(pool, left, self._similarity is not None, WARM_UP, self._sign, self._rng):
            return first
        answers = pool.scores[~np.isnan(pool.scores[:, last]), last]
        open_ = np.flatnonzero(~pool.out & ~pool.closed[:, last])
        if not len(open_) or not len(answers):
            return []
        if self._truth is None:
            self._truth = TruthTransform.of(answers, self._threshold, self._sign)
        index = self._chances(pool, open_, self._truth, len(answers)) / pool.costs[open_, last]
        order = np.argsort(-index, kind="stable")[: max(BATCH, int(BATCH_SHARE * len(answers)))]
        return [Purchase(int(open_[i]), pool.paid[-1], float(index[i])) for i in order]

    def _chances(self, pool: CandidatePool, of: RowIndices, truth: TruthTransform, answers: int) -> Array:
        """Probability of a hit, (n,)."""
        mixed: Array = np.zeros(len(of))
        for law in self._stack.fit([Question(pool.scores, truth)], answers):
            for places, forecast in law.chains[0].forecast(of):
                mixed[places] += law.weight * ndtr(forecast.mean / np.sqrt(forecast.variance))
        return mixed
