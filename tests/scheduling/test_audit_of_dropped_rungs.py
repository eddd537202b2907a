"""Rungs are compared with those above them, and selection is undone by propensities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import spearmanr

from sciagent.domain.answers.status_and_comparison import RungAgreement
from sciagent.scheduling.audit_of_dropped import agreements, weighted_spearman

Array = NDArray[np.float64]


def compared(scores: Array, propensity: Array | None = None) -> list[RungAgreement]:
    """The agreements of rungs whose labels are their numbers; each rung was run for certain unless told otherwise."""
    labels = [str(j) for j in range(scores.shape[1])]
    return list(agreements("gap", labels, scores, np.ones(scores.shape) if propensity is None else propensity))


def test_each_rung_meets_the_next_one_and_the_terminal_one() -> None:
    scores = np.array([[1.0, 2.0, 4.0], [2.0, 3.0, 5.0], [3.0, 5.0, np.nan]])
    found = compared(scores)
    assert [(one.lower, one.upper, one.n) for one in found] == [("0", "1", 3), ("0", "2", 2), ("1", "2", 2)]
    assert found[0].bias == pytest.approx(-4 / 3) and found[0].rmse == pytest.approx(np.sqrt(2))
    assert found[1].bias == found[1].bias == pytest.approx(-3) and found[1].rmse == pytest.approx(3)
    assert found[0].spearman == pytest.approx(1) and found[1].spearman is None
    assert [one.effective for one in found] == pytest.approx([3, 2, 2])


def test_a_pair_that_nobody_has_seen_has_no_numbers() -> None:
    scores = np.array([[1.0, np.nan], [np.nan, 2.0]])
    (found,) = compared(scores)
    assert (found.n, found.bias, found.rmse, found.spearman) == (0, None, None, None)


def test_a_constant_rung_has_no_rank_correlation() -> None:
    scores = np.column_stack([np.ones(6), np.arange(6.0)])
    (found,) = compared(scores)
    assert found.n == 6 and found.spearman is None and found.bias == pytest.approx(1 - 2.5)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=3, max_size=40))
def test_with_equal_weights_the_rank_correlation_is_spearmans(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, dtype=float).T
    found = weighted_spearman(x, y, np.full(len(x), 1 / len(x)))
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert found is None
    else:
        assert found == pytest.approx(spearmanr(x, y).statistic, abs=1e-9)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 4)), min_size=3, max_size=20))
def test_a_weight_of_three_is_a_candidate_seen_three_times(rows: list[tuple[int, int, int]]) -> None:
    x, y, times = np.array(rows, dtype=float).T
    copies = times.astype(int)
    propensity = np.column_stack([np.ones(len(x)), 1 / times])
    (weighted,) = compared(np.column_stack([x, y]), propensity)
    (repeated,) = compared(np.column_stack([np.repeat(x, copies), np.repeat(y, copies)]))
    assert weighted.bias == pytest.approx(repeated.bias) and weighted.rmse == pytest.approx(repeated.rmse)
    assert weighted.spearman == pytest.approx(repeated.spearman, abs=1e-9)
    assert weighted.effective <= weighted.n + 1e-9


def test_propensities_undo_the_selection_of_those_that_went_up() -> None:
    """Ten thousand candidates, of which the cheap rung sends up its favourites and an audit a few of the others: only
    with the weights are bias and error those of all."""
    rng = np.random.default_rng(2)
    truth = rng.standard_normal(10_000)
    cheap = 0.3 + truth + rng.standard_normal(10_000)
    pi = np.where(cheap > 2.0, 1.0, 0.06)
    up = rng.random(10_000) < pi
    scores = np.column_stack([cheap, np.where(up, truth, np.nan)])
    (plain,) = compared(scores)
    (weighted,) = compared(scores, np.column_stack([np.ones(10_000), pi]))
    (whole,) = compared(np.column_stack([cheap, truth]))
    assert plain.bias is not None and weighted.bias is not None and weighted.rmse is not None
    assert whole.bias == pytest.approx(0.3, abs=0.05)
    assert plain.bias > 0.9
    assert weighted.bias == pytest.approx(whole.bias, abs=0.15)
    assert weighted.rmse == pytest.approx(whole.rmse, abs=0.1)
    assert weighted.spearman == pytest.approx(whole.spearman, abs=0.08)
    assert plain.n == weighted.n > 2 * weighted.effective
