"""Several measurements as one value, with what is known of it."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.scheduling.law.replicates import pooled


def test_one_is_taken_as_it_is() -> None:
    assert pooled([4.2], [0.1]) == (4.2, 0.1)
    assert pooled([4.2], [None]) == (4.2, None)


def test_with_their_uncertainties_the_better_known_counts_more() -> None:
    mean, error = pooled([1.0, 2.0], [0.1, 1.0])
    assert mean == pytest.approx(1.0 + 1 / 101)
    assert error == pytest.approx(1 / np.sqrt(101), rel=1e-2)  # they agree: what they foretell


def test_where_they_disagree_the_scatter_decides() -> None:
    mean, error = pooled([1.0, 3.0], [0.1, 0.1])
    assert (mean, error) == pytest.approx((2.0, 1.0))  # half the distance, not 0.07


def test_without_them_it_is_the_standard_error_of_the_mean() -> None:
    values = [1.0, 2.0, 4.0, 5.0]
    assert pooled(values, [0.1, None, 0.1, 0.1]) == pytest.approx((3.0, np.std(values, ddof=1) / 2))


def test_nothing_has_no_mean() -> None:
    with pytest.raises(ValueError, match="nothing"):
        pooled([], [])
