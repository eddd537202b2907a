from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from sciagent.domain.scoring import crps


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
