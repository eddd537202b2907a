"""Scores of predictions against the answers of paid rungs, by the continuous ranked probability score (CRPS).

A prediction of a proposer is a value with an error, the standard deviation of a normal distribution.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.display_units import Units, chosen_unit_of, quantity_in_chosen_unit
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Quantity, to_canonical
from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.views.report_candidates import rung_values
from sciagent.store.views.report_episodes_and_proposers import PredictionMade, predictions_made

PREDICTIONS_PER_READ = 500
COVERS_90 = 1.6448536269514722  # 90 % of a normal distribution lie within this many standard deviations of the mean


def read_predictions(predicted: Any) -> dict[str, tuple[float, float]]:
    """Returns (value, error) by property from the predictions of a proposal; invalid ones are left out."""
    if not isinstance(predicted, dict):
        return {}
    predictions = {}
    for name, stated in predicted.items():
        if not isinstance(stated, dict):
            continue
        value = stated.get("value")
        error = stated.get("error")
        if not isinstance(value, int | float) or not isinstance(error, int | float):
            continue
        if math.isfinite(float(value)) and math.isfinite(float(error)) and error >= 0:
            predictions[str(name)] = float(value), float(error)
    return predictions


def stated_in(name: str, value: float, error: float, units: Units) -> tuple[float, float]:
    """Returns a prediction, given in the property's canonical unit, in the unit that the campaign chose."""
    shown = quantity_in_chosen_unit(name, Quantity(value, properties()[name].unit, error), units)
    return shown.value, shown.uncertainty or 0.0


def in_canonical(name: str, value: float, error: float, units: Units) -> tuple[float, float]:
    """Returns a prediction, given in the unit that the campaign chose, in the property's canonical unit."""
    converted = to_canonical(Quantity(value, chosen_unit_of(name, units), error), properties()[name])
    return converted.value, converted.uncertainty or 0.0


def crps(value: float, error: float, answer: float) -> float:
    """Returns the continuous ranked probability score of N(value, error²) at the answer, in its unit; 0 is best.

    error: standard deviation; at 0 the score is the distance. The score is proper: an honest prediction is best on
    average. Raises ValueError for an error below 0 or numbers that are not finite.
    Source: Gneiting and Raftery, J. Am. Stat. Assoc. 102, 359 (2007), equation 21.
    """
    are_finite = math.isfinite(value) and math.isfinite(error) and math.isfinite(answer)
    if not are_finite or error < 0:
        raise ValueError(f"no score for {value} ± {error} at {answer}")
    if error == 0:
        return abs(answer - value)
    z = (answer - value) / error
    if not math.isfinite(z):  # the error is so small that the quotient overflows
        return abs(answer - value)
    density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return error * (z * math.erf(z / math.sqrt(2)) + 2 * density - 1 / math.sqrt(math.pi))


@dataclass
class PredictionRecord:
    """Sums over a group of answered predictions, in the property's unit."""

    n: int = 0
    """Number of predictions."""
    score: float = 0.0
    """Sum of the scores."""
    off: float = 0.0
    """Sum of predicted minus measured."""
    within: int = 0
    """Number of answers within one predicted standard deviation."""
    within_90: int = 0
    """Number of answers within 1.64 predicted standard deviations."""
    _mean: float = 0.0
    """Mean of the answers so far."""
    _squares: float = 0.0
    """Sum of squared distances of the answers from their mean, updated by Welford's method."""

    def add(self, value: float, error: float, answer: float) -> None:
        self.n += 1
        self.score += crps(value, error, answer)
        self.off += value - answer
        self.within += abs(value - answer) <= error
        self.within_90 += abs(value - answer) <= COVERS_90 * error
        distance = answer - self._mean
        self._mean += distance / self.n
        self._squares += distance * (answer - self._mean)

    @property
    def crps(self) -> float:
        """Mean score."""
        return self.score / self.n

    @property
    def bias(self) -> float:
        """Mean of predicted minus measured."""
        return self.off / self.n

    @property
    def spread(self) -> float | None:
        """Standard deviation of the answers; None for fewer than two answers."""
        return math.sqrt(self._squares / (self.n - 1)) if self.n > 1 else None


class AnsweredPrediction(NamedTuple):
    """A prediction with the answer of a rung; numbers are in the unit that the campaign chose."""

    rung: RungRow
    property: str
    made: PredictionMade
    """The proposal with the prediction."""
    value: float
    """Predicted value."""
    error: float
    """Predicted standard deviation."""
    answer: float
    """Measured value, pooled over replicates."""


def answered(
    connection: Connection, row: CampaignRow, predictions: Iterable[PredictionMade]
) -> Iterator[AnsweredPrediction]:
    """Yields the predictions that a paid rung has answered, with the answer."""
    paid = [rung for rung in rungs(connection, row.id) if rung.tier != Tier.FAST]
    stream = iter(predictions)
    units = row.units
    while True:
        chunk = list(islice(stream, PREDICTIONS_PER_READ))
        if not chunk:
            return
        prediction_of_id = {}  # (the proposal, {property: (value, error)}), by candidate id
        for prediction in chunk:
            predicted = read_predictions(prediction.predicted)
            if predicted:
                prediction_of_id[int(prediction.candidate_id)] = prediction, predicted
        for rung in paid:
            for id_, values in rung_values(connection, list(prediction_of_id), rung).items():
                prediction, predicted = prediction_of_id[id_]
                for name, quantity in (values or {}).items():
                    if name in predicted:
                        own_value, own_error = predicted[name]  # in the canonical unit
                        value, error = stated_in(name, own_value, own_error, units)
                        answer = quantity_in_chosen_unit(name, quantity, units).value
                        yield AnsweredPrediction(rung, name, prediction, value, error, answer)


def latest_scores(connection: Connection, row: CampaignRow, n: int) -> dict[tuple[str, str], PredictionRecord]:
    """Returns the scores of the latest n predictions of all proposers: {(rung, property): record}, in ladder order."""
    records: dict[tuple[int, str, str], PredictionRecord] = {}  # by position and label of the rung, and property
    for item in answered(connection, row, predictions_made(connection, row, n)):
        key = (item.rung.position, item.rung.name, item.property)
        record = records.setdefault(key, PredictionRecord())
        record.add(item.value, item.error, item.answer)
    return {(label, name): record for (_, label, name), record in sorted(records.items())}
