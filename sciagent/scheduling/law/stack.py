"""Two laws: chains without structure and, where there is any, with it, weighted by their leave-one-out record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.chain import Chain
from sciagent.scheduling.law.kernel import Hyper
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.law.transforms import TruthTransform

GROWTH = 1.25  # hyper-parameters are looked for again when there are so many times more answers


@dataclass(frozen=True)
class Question:
    """What is to be foretold: scores and errors as for `Chain`, the truth in the last column."""

    scores: Array
    truth: TruthTransform
    errors: NDArray[np.floating] | None = None


@dataclass(frozen=True)
class Law:
    """A chain for each question, and how far it is trusted beside the other law."""

    weight: float
    chains: tuple[Chain, ...]


class Stack:
    """Fitted again and again as answers come; keeps the hyper-parameters in between."""

    def __init__(self, similarity: Similarity | None, rng: np.random.Generator) -> None:
        self._kinds: list[Similarity | None] = [None] if similarity is None else [None, similarity]
        self._rng = rng
        self._hyper: dict[tuple[int, int], dict[int, Hyper]] = {}  # by law and question
        self._fitted_at = 0
        self.fits = 0  # how often hyper-parameters were looked for

    def is_due(self, answers: int) -> bool:
        """Whether hyper-parameters will be looked for. answers: how many were paid for."""
        return answers >= GROWTH * self._fitted_at

    def fit(self, questions: Sequence[Question], answers: int) -> list[Law]:
        """It needs an answer to every question."""
        refit = self.is_due(answers)
        if refit:
            self._fitted_at = answers
            self.fits += 1
        chains = []
        for place, similarity in enumerate(self._kinds):
            mine = []
            for number, question in enumerate(questions):
                start = self._hyper.get((place, number))
                mine.append(
                    Chain(question.scores, question.truth, similarity, self._rng, start, refit, question.errors)
                )
                self._hyper[place, number] = mine[-1].hyper
            chains.append(tuple(mine))
        if len(chains) == 1:
            return [Law(1.0, chains[0])]
        without, alike = (sum(chain.log_loss for chain in mine) for mine in chains)
        weight = float(expit(without - alike))
        return [Law(1 - weight, chains[0]), Law(weight, chains[1])]

    def state(self) -> Mapping[str, Any]:
        """Hyper-parameters as JSON: `law.question.column` to the logarithms of five numbers, see `kernel`."""
        hyper = {
            f"{place}.{number}.{column}": [float(x) for x in values.log_values]
            for (place, number), mine in self._hyper.items()
            for column, values in mine.items()
        }
        return {"fitted_at": self._fitted_at, "log_hyper": hyper}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Begin where another left off."""
        self._fitted_at = int(state["fitted_at"])
        self._hyper = {}
        for name, values in state["log_hyper"].items():
            place, number, column = map(int, name.split("."))
            self._hyper.setdefault((place, number), {})[column] = Hyper(np.array(values, dtype=float))
