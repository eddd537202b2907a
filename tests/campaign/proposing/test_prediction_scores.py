"""Scores of predictions: the CRPS is the integral that defines it, and honest errors score best."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from scipy.stats import norm

from sciagent.campaign.proposing.prediction_scores import COVERS_90, PredictionRecord, crps


def test_a_record_is_what_its_numbers_say() -> None:
    made, rows = PredictionRecord(), [(4.0, 0.2, 4.1), (3.0, 0.1, 3.15), (5.0, 0.5, 3.0), (4.2, 0.0, 4.2)]
    for row in rows:
        made.add(*row)
    assert made.crps == pytest.approx(statistics.fmean(crps(*row) for row in rows))
    assert made.bias == pytest.approx(statistics.fmean(value - answer for value, _, answer in rows))
    assert (made.within, made.within_90) == (2, 3) and 0.15 < COVERS_90 * 0.1 < 0.2
    assert made.spread == pytest.approx(statistics.stdev(answer for *_, answer in rows))


def test_the_spread_of_large_numbers_is_not_lost() -> None:
    made = PredictionRecord()
    for answer in (-40000.1, -40000.2, -40000.4):
        made.add(0.0, 1.0, answer)
    assert made.spread == pytest.approx(statistics.stdev([0.1, 0.2, 0.4]), rel=1e-6)
    assert PredictionRecord(1).spread is None


@pytest.mark.parametrize(
    ("value", "error", "answer"), [(0.0, 1.0, 0.0), (4.2, 0.3, 4.9), (-1.0, 2.5, 3.0), (0.0, 0.1, 5.0)]
)
def test_it_is_the_integral_that_defines_it(value: float, error: float, answer: float) -> None:
    """The squared distance of the foretold distribution from a step at the answer."""
    x = np.linspace(min(value - 12 * error, answer - 1), max(value + 12 * error, answer + 1), 400_001)
    distance = (norm.cdf(x, value, error) - (x >= answer)) ** 2
    assert crps(value, error, answer) == pytest.approx(float(np.trapezoid(distance, x)), abs=1e-4)


def test_what_is_certain_is_scored_by_its_distance() -> None:
    assert crps(1.0, 0.0, 3.5) == 2.5
    assert crps(1.0, 1e-320, 3.5) == pytest.approx(2.5)
    assert crps(1.0, 1e-9, 3.5) == pytest.approx(2.5)


def test_the_honest_error_is_the_best_on_average() -> None:
    answers = np.random.default_rng(1).normal(0.0, 1.0, 20_000)
    means = {error: np.mean([crps(0.0, error, float(one)) for one in answers]) for error in (0.3, 0.7, 1.0, 1.5, 3.0)}
    assert min(means, key=lambda error: means[error]) == 1.0
    assert means[1.0] == pytest.approx(1 / math.sqrt(math.pi), abs=0.01)


@pytest.mark.parametrize("bad", [(0.0, -1.0, 0.0), (math.nan, 1.0, 0.0), (0.0, 1.0, math.inf)])
def test_what_is_no_number_has_no_score(bad: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="no score"):
        crps(*bad)
