"""The probability of a better answer against its closed form."""

from __future__ import annotations

from math import hypot
from statistics import NormalDist

import numpy as np
import pytest

from sciagent.training.verified_hindsight_and_pair_rows import DRAWS, p_better

QUANTILES = np.array([NormalDist().inv_cdf((i + 0.5) / DRAWS) for i in range(DRAWS)])


@pytest.mark.parametrize(("difference", "errors"), [(0.0, (1.0, 1.0)), (1.3, (1.0, 0.5)), (-2.0, (0.3, 1.5))])
def test_two_normal_values_compare_as_their_difference(difference: float, errors: tuple[float, float]) -> None:
    one, other = difference + errors[0] * QUANTILES, errors[1] * QUANTILES
    assert p_better(one, other) == pytest.approx(NormalDist().cdf(difference / hypot(*errors)), abs=2e-3)
    assert p_better(one, other) + p_better(other, one) == pytest.approx(1.0)


def test_equal_values_are_no_reason_to_prefer() -> None:
    assert p_better(np.ones(DRAWS), np.ones(DRAWS)) == 0.5
    assert p_better(np.ones(DRAWS), np.zeros(DRAWS)) == 1.0
