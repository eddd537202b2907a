"""Two laws: the chain without structure and, where there is any, with it, weighted by their leave-one-out record."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sciagent.scheduling.law.chain import Chain, Similarity
from sciagent.scheduling.law.kernel import Hyper
from sciagent.scheduling.law.transforms import TruthTransform

Array = NDArray[np.float64]

GROWTH = 1.25  # hyper-parameters are looked for again when there are so many times more answers


class Stack:
    """Fitted again and again as answers come; keeps the hyper-parameters in between."""

    def __init__(self, similarity: Similarity | None, rng: np.random.Generator) -> None:
        self._kinds: list[Similarity | None] = [None] if similarity is None else [None, similarity]
        self._rng = rng
        self._hyper: list[dict[int, Hyper]] = [{} for _ in self._kinds]
        self._fitted_at = 0

    def is_due(self, answers: int) -> bool:
        """Whether hyper-parameters will be looked for. answers: how many were paid for."""
        return answers >= GROWTH * self._fitted_at

    def fit(self, scores: Array, truth: TruthTransform, answers: int) -> list[tuple[float, Chain]]:
        """Each law with its weight; scores: as for `Chain`. It needs a terminal answer."""
        refit = self.is_due(answers)
        if refit:
            self._fitted_at = answers
        chains = []
        for place, similarity in enumerate(self._kinds):
            chains.append(Chain(scores, truth, similarity, self._rng, self._hyper[place], refit))
            self._hyper[place] = chains[-1].hyper
        if len(chains) == 1:
            return [(1.0, chains[0])]
        weight = float(expit(chains[0].log_loss - chains[1].log_loss))
        return [(1 - weight, chains[0]), (weight, chains[1])]
