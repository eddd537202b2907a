"""A transformed score has unit size and the order it had; a hit lies above 0."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from sciagent.scheduling.law.answer_transforms import CLIP, MAX_KNOTS, ScoreTransform, TruthTransform

Array = NDArray[np.float64]

LAWS: dict[str, Callable[[np.random.Generator], Array]] = {
    "normal": lambda rng: -40 + 7 * rng.standard_normal(3000),
    "log-normal": lambda rng: np.exp(2 * rng.standard_normal(3000)),
    "heavy tails": lambda rng: rng.standard_cauchy(3000),
    "counts": lambda rng: rng.poisson(2.0, 3000).astype(float),
    "few": lambda rng: rng.standard_normal(5),
}


@pytest.fixture(params=LAWS)
def seen(request: pytest.FixtureRequest) -> Array:
    return LAWS[request.param](np.random.default_rng(0))


def test_the_order_of_scores_is_kept(seen: Array) -> None:
    transform = ScoreTransform.of(seen)
    values = np.linspace(seen.min() - seen.std(), seen.max() + seen.std(), 2001)
    assert (np.diff(transform(values)) >= 0).all()
    distinct = np.unique(seen)
    assert len(np.unique(transform(distinct))) == len(distinct)


def test_a_score_is_of_unit_size(seen: Array) -> None:
    found = ScoreTransform.of(seen)(seen)
    assert 0.5 < found.std() < 1.2
    assert abs(found.mean()) < 0.2
    assert np.abs(found).max() <= (CLIP + norm.ppf(1 - 0.5 / len(seen))) / 2 + 1e-9


def test_a_score_not_seen_stays_so(seen: Array) -> None:
    with_gaps = np.concatenate([[np.nan], seen, [np.nan]])
    transform = ScoreTransform.of(with_gaps)
    assert np.isnan(transform(with_gaps)).tolist() == np.isnan(with_gaps).tolist()
    assert transform(seen) == pytest.approx(ScoreTransform.of(seen)(seen))


def test_it_is_half_the_quantile_of_the_rank_and_half_the_standardised_value() -> None:
    seen = np.random.default_rng(0).standard_normal(200)
    ranked = norm.ppf((rankdata(seen) - 0.5) / 200)
    assert ScoreTransform.of(seen)(seen) == pytest.approx((ranked + (seen - seen.mean()) / seen.std()) / 2)


def test_equal_scores_share_their_middle_rank() -> None:
    seen = np.array([1.0, 1.0, 1.0, 2.0])
    expected = norm.ppf((rankdata(seen) - 0.5) / 4)
    assert ScoreTransform.of(seen).quantiles == pytest.approx(expected[[0, 3]])


def test_normal_scores_are_only_standardised() -> None:
    seen = 5 + 3 * np.random.default_rng(0).standard_normal(20_000)
    middle = np.linspace(-2, 2, 41)
    transform = ScoreTransform.of(seen)
    assert len(transform.knots) <= MAX_KNOTS
    assert transform(5 + 3 * middle) == pytest.approx(middle, abs=0.06)
    assert transform.slope(5 + 3 * middle) == pytest.approx(np.full(41, 1 / 3), rel=0.15)


def test_another_unit_changes_nothing(seen: Array) -> None:
    assert ScoreTransform.of(1000 * seen - 7)(1000 * seen - 7) == pytest.approx(ScoreTransform.of(seen)(seen), abs=1e-6)


def test_one_outlier_moves_itself_only_so_far() -> None:
    seen = np.append(np.random.default_rng(0).standard_normal(500), 1e9)
    found = ScoreTransform.of(seen)(seen)
    assert found[-1] < 5
    assert found[:-1].std() > 0.4  # the ranks of the others are still told apart


@pytest.mark.parametrize("seen", [np.array([2.0]), np.full(10, 2.0)])
def test_a_rung_that_always_says_the_same_says_nothing(seen: Array) -> None:
    assert ScoreTransform.of(seen)(seen).tolist() == [0.0] * len(seen)


@pytest.mark.parametrize("sign", [1, -1])
def test_hits_lie_above_0(sign: int) -> None:
    values = np.random.default_rng(0).standard_normal(200)
    hit = sign * values > sign * 0.4
    transform = TruthTransform.of(values, 0.4, sign)
    assert ((transform(values) > 0) == hit).all()
    assert transform(np.array([0.4])).tolist() == [0.0]
    assert (np.diff(transform(np.linspace(-3, 3, 50))) * sign > 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_the_unit_of_the_truth_is_the_median_distance_from_the_threshold(sign: int) -> None:
    values = 100 + 20 * np.random.default_rng(0).standard_normal(201)
    assert np.median(np.abs(TruthTransform.of(values, 130.0, sign)(values))) == pytest.approx(1.0)


def test_a_truth_not_seen_stays_so_and_sets_no_unit() -> None:
    values = np.array([np.nan, 1.0, 3.0, np.nan])
    transform = TruthTransform.of(values, 0.0, 1)
    assert transform.scale == 2.0
    assert np.isnan(transform(values)).tolist() == [True, False, False, True]


@pytest.mark.parametrize("seen", [np.array([]), np.array([np.nan]), np.full(3, 5.0)])
def test_where_no_distance_was_seen_the_unit_is_the_score_s_own(seen: Array) -> None:
    assert TruthTransform.of(seen, 5.0, 1)(np.array([7.0])).tolist() == [2.0]


def test_the_distance_from_a_limit_is_that_of_the_nearest_one_and_0_without_limits() -> None:
    y = np.array([-3.0, 0.5, 2.0])
    assert TruthTransform(0.0, 1.0).distance_from_limit(y).tolist() == [3.0, 0.5, 2.0]
    assert TruthTransform(0.0, 1.0, 1, -1.0, 1.0).distance_from_limit(y).tolist() == [2.0, 0.5, 1.0]
    assert TruthTransform(0.0, 1.0, 1, -np.inf, np.inf).distance_from_limit(y).tolist() == [0.0, 0.0, 0.0]
