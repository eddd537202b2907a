"""One step: the law of `priced` and none of its programme. Straight to the terminal rung, by P(hit) / cost.

Rungs that cost next to nothing are bought for all, as inputs; a paid rung in the middle never is.
Source: Jiang et al., ICML 2017, arXiv 1703.02576, the one-step rule of active search, with costs.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from sciagent.scheduling.board import Board, Purchase
from sciagent.scheduling.law.chain import Chain, Similarity
from sciagent.scheduling.law.kernel import Hyper
from sciagent.scheduling.law.transforms import TruthTransform
from sciagent.scheduling.replay.opening import features, tails

Array = NDArray[np.float64]
Places = NDArray[np.intp]

WARM_UP = 4  # terminal answers before there is a law
BATCH, BATCH_SHARE = 8, 0.04  # purchases between two laws, the share of the terminal answers there are
GROWTH = 1.25  # hyper-parameters are looked for again when there are so many times more answers


class OneStep:
    """threshold: of a hit; sign: 1 where hits lie above it, -1 below. similarity: of structures, if they have any: then
    two laws, with and without it, mixed by their leave-one-out record."""

    def __init__(self, threshold: float, sign: int, similarity: Similarity | None, seed: int) -> None:
        self._threshold, self._sign, self._similarity = threshold, sign, similarity
        self._rng = np.random.default_rng(seed)
        self._truth: TruthTransform | None = None
        self._hyper: list[dict[int, Hyper]] = [{}, {}]
        self._fitted_at = 0

    def choose(self, board: Board, left: float) -> list[Purchase]:
        last = board.scores.shape[1] - 1
        if found := features(board, left, self._similarity is not None):
            return found
        answers = board.scores[~np.isnan(board.scores[:, last]), last]
        if len(answers) < WARM_UP:
            first = tails(board, WARM_UP - len(answers), self._sign, self._rng)
            return [Purchase(int(i), last, math.inf) for i in first]
        open_ = np.flatnonzero(~board.out & ~board.closed[:, last])
        if not len(open_):
            return []
        if self._truth is None:
            self._truth = TruthTransform.of(answers, self._threshold, self._sign)
        index = self._chances(board, open_, self._truth, len(answers)) / board.costs[open_, last]
        order = np.argsort(-index, kind="stable")[: max(BATCH, int(BATCH_SHARE * len(answers)))]
        return [Purchase(int(open_[i]), last, float(index[i])) for i in order]

    def _chances(self, board: Board, of: Places, truth: TruthTransform, answers: int) -> Array:
        """Probability of a hit, (n,)."""
        refit = answers >= GROWTH * self._fitted_at
        if refit:
            self._fitted_at = answers
        kinds: list[Similarity | None] = [None] if self._similarity is None else [None, self._similarity]
        found, losses = np.zeros((len(kinds), len(of))), np.zeros(len(kinds))
        for place, similarity in enumerate(kinds):
            law = Chain(board.scores, truth, similarity, self._rng, self._hyper[place], refit)
            self._hyper[place], losses[place] = law.hyper, law.log_loss
            for places, forecast in law.forecast(of):
                found[place, places] = ndtr(forecast.mean / np.sqrt(forecast.variance))
        weight = 1.0 if len(kinds) == 1 else float(expit(losses[0] - losses[-1]))
        mixed: Array = (1 - weight) * found[0] + weight * found[-1]
        return mixed
