"""Two laws, chains without and with structure, weighted by their leave-one-out loss. One law without structures."""

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
from sciagent.scheduling.law.row_selection import Order
from sciagent.scheduling.law.similarity import Similarity
from sciagent.scheduling.law.transforms import TruthTransform

GROWTH = 1.25  # growth of the number of answers at which hyper-parameters are refitted


@dataclass(frozen=True)
class Question:
    """One property to predict. scores, errors, alike: as in `Chain`, the deciding answers in the last column."""

    scores: Array
    truth: TruthTransform
    errors: NDArray[np.floating] | None = None
    alike: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Law:
    """One chain per question. weight: of this law among the laws."""

    weight: float
    chains: tuple[Chain, ...]


class Stack:
    """Fits the laws again as answers arrive; keeps the hyper-parameters between fits."""

    def __init__(self, similarity: Similarity | None, earlier: int = 0) -> None:
        """earlier: as in `Chain`."""
        self._earlier = earlier
        self._kinds: list[Similarity | None] = [None] if similarity is None else [None, similarity]
        self._hyper: dict[tuple[int, int], dict[int, Hyper]] = {}  # by law and question
        self._fitted_at = 0
        self.fits = 0  # number of hyper-parameter fits

    def is_due(self, answers: int) -> bool:
        """Returns whether the next fit refits the hyper-parameters. answers: number of paid answers."""
        return answers >= GROWTH * self._fitted_at

    def fit(self, questions: Sequence[Question], answers: int, order: Order | None = None) -> list[Law]:
        """Returns the fitted laws. Every question needs an answer. order: as in `Chain`."""
        refit = self.is_due(answers)
        if refit:
            self._fitted_at = answers
            self.fits += 1
        chains = []
        for place, similarity in enumerate(self._kinds):
            mine = []
            for number, question in enumerate(questions):
                start = self._hyper.get((place, number))
                given = question.scores, question.truth, similarity
                mine.append(Chain(*given, order, start, refit, question.errors, self._earlier, question.alike))
                self._hyper[place, number] = mine[-1].hyper
            chains.append(tuple(mine))
        if len(chains) == 1:
            return [Law(1.0, chains[0])]
        without, alike = (sum(chain.log_loss for chain in mine) for mine in chains)
        weight = float(expit(without - alike))
        return [Law(1 - weight, chains[0]), Law(weight, chains[1])]

    def state(self) -> Mapping[str, Any]:
        """Returns the hyper-parameters as JSON: `law.question.column` to five logarithms (see `kernel`)."""
        hyper = {
            f"{place}.{number}.{column}": [float(x) for x in values.log_values]
            for (place, number), mine in self._hyper.items()
            for column, values in mine.items()
        }
        return {"fitted_at": self._fitted_at, "log_hyper": hyper}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores the state of an earlier stack."""
        self._fitted_at = int(state["fitted_at"])
        self._hyper = {}
        for name, values in state["log_hyper"].items():
            place, number, column = map(int, name.split("."))
            self._hyper.setdefault((place, number), {})[column] = Hyper(np.array(values, dtype=float))
