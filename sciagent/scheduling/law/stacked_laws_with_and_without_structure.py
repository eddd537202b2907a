"""The laws of a campaign, which predict the answers of rungs: chains without and with structure, weighted by their
leave-one-out loss. Without structures there is one law alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr

from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.gaussian_process import Hyper
from sciagent.scheduling.law.gaussian_process_chain import Chain
from sciagent.scheduling.law.prediction_interval_width import INSIDE, PredictionInterval
from sciagent.scheduling.law.similarity import Order, Similarity

GROWTH = 1.25  # growth of the number of answers at which hyper-parameters are refitted


@dataclass(frozen=True)
class Question:
    """One property to predict. The fields are arguments of `Chain`; the last column has the deciding answers."""

    scores: Array
    truth: TruthTransform
    errors: NDArray[np.floating] | None = None
    alike: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Law:
    """One chain per question. weight: weight of this law; the weights of all laws add up to 1."""

    weight: float
    chains: tuple[Chain, ...]


class Stack:
    """Fits the laws again as answers arrive; keeps the hyper-parameters between fits."""

    def __init__(self, similarity: Similarity | None, earlier: int = 0) -> None:
        """earlier: as in `Chain`."""
        self._earlier = earlier
        self._kinds: list[Similarity | None] = [None] if similarity is None else [None, similarity]  # one per law
        self._hyper: dict[tuple[int, int], dict[int, Hyper]] = {}  # by law and question
        self._fitted_at = 0  # number of answers at the last fit of hyper-parameters
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
        chains_by_law = []
        for law_number, similarity in enumerate(self._kinds):
            chains = []
            for number, question in enumerate(questions):
                chain = Chain(
                    scores=question.scores,
                    truth=question.truth,
                    similarity=similarity,
                    order=order,
                    start=self._hyper.get((law_number, number)),
                    refit=refit,
                    errors=question.errors,
                    earlier=self._earlier,
                    alike=question.alike,
                )
                self._hyper[law_number, number] = chain.hyper
                chains.append(chain)
            chains_by_law.append(tuple(chains))
        if len(chains_by_law) == 1:
            return [Law(weight=1.0, chains=chains_by_law[0])]
        without_structure, with_structure = chains_by_law
        loss_without = sum(chain.log_loss for chain in without_structure)
        loss_with = sum(chain.log_loss for chain in with_structure)
        weight = float(expit(loss_without - loss_with))
        return [Law(1 - weight, without_structure), Law(weight, with_structure)]

    def state(self) -> Mapping[str, Any]:
        """Returns the hyper-parameters as JSON: `law.question.column` to the five logarithms of `Hyper`."""
        hyper = {}
        for (law_number, number), by_column in self._hyper.items():
            for column, values in by_column.items():
                hyper[f"{law_number}.{number}.{column}"] = [float(x) for x in values.log_values]
        return {"fitted_at": self._fitted_at, "log_hyper": hyper}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restores the state of an earlier stack."""
        self._fitted_at = int(state["fitted_at"])
        self._hyper = {}
        for name, values in state["log_hyper"].items():
            law_number, number, column = map(int, name.split("."))
            by_column = self._hyper.setdefault((law_number, number), {})
            by_column[column] = Hyper(np.array(values, dtype=float))


def mixture(laws: Sequence[Law], question: int, of: RowIndices) -> tuple[Array, Array, Array]:
    """Returns mean and standard deviation of the answers of the candidates `of`, in the law's unit, and the half-width
    of the interval in standard deviations; (n,) each, averaged over the laws by weight. Outside the verified range, the
    standard deviation includes the doubt about slopes; no purchase depends on this doubt."""
    mean = np.zeros(len(of))
    mean_square = np.zeros(len(of))
    reach = np.zeros(len(of))
    for law in laws:
        chain = law.chains[question]
        for places, forecast in chain.forecast(of):
            reach[places] += law.weight * chain.reach(forecast.mean)
            mean[places] += law.weight * forecast.mean
            slope_variance = chain.reach.sd_by_slope_doubt(forecast.mean) ** 2
            mean_square[places] += law.weight * (forecast.variance + slope_variance + forecast.mean**2)
    return mean, np.sqrt(np.maximum(mean_square - mean**2, 1e-12)), reach


def foretell(laws: Sequence[Law], question: int, of: RowIndices) -> PredictionInterval:
    """Predicts the answers of the candidates `of`, (n,), in the law's unit: mean ± reach * sd of the laws' mixture. The
    interval of a yes or no is that answer alone if its chance is 90 % or more, else from no to yes."""
    mean, sd, reach = mixture(laws, question, of)
    choices = laws[0].chains[question].choices
    if choices is not None:
        no, yes = choices
        chance = ndtr(mean / sd)
        low = np.where(chance >= INSIDE, yes, no)
        high = np.where(chance >= 1 - INSIDE, yes, no)
        return PredictionInterval(no + (yes - no) * chance, low, high)
    return PredictionInterval(mean, mean - reach * sd, mean + reach * sd)
