"""Each family has what its line says, and the rest is as in `informative`."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from sciagent.errors import UnknownNameError
from sciagent_bench.synthetic_ladders import FAMILIES, FLAT, STEEP, family

N = 40_000


def scores(name: str) -> NDArray[np.float64]:
    return family(name, N, 3).scores


def correlations(name: str) -> list[float]:
    found = np.corrcoef(scores(name), rowvar=False)[:-1, -1]
    return [float(one) for one in found]


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_four_rungs_and_one_hit_in_a_hundred_and_repeats_itself(name: str) -> None:
    one, again, other = family(name, 2000, 1), family(name, 2000, 1), family(name, 2000, 2)
    assert one.scores.shape == one.costs.shape == (2000, 4)
    answered = ~np.isnan(one.scores[:, -1])
    assert one.hit.sum() == np.ceil(0.01 * answered.sum())
    assert not one.hit[~answered].any()
    assert np.nanmin(one.scores[one.hit, -1]) > np.nanmax(one.scores[~one.hit & answered, -1])
    assert tuple(one.costs[7]) == (FLAT if name == "flat" else STEEP)
    np.testing.assert_array_equal(one.scores, again.scores)
    assert not np.array_equal(one.scores, other.scores)


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("informative", [0.5, 0.7, 0.9]),
        ("flat", [0.5, 0.7, 0.9]),
        ("weak", [0.3, 0.5, 0.7]),
        ("worthless-middle", [0.5, 0.05, 0.9]),
        ("misordered", [0.5, 0.9, 0.7]),
        ("heavy-tails", [0.5, 0.7, 0.9]),
        ("heteroscedastic", [0.5, 0.7, 0.9]),
    ],
)
def test_rungs_correlate_with_the_truth_as_stated(name: str, loads: list[float]) -> None:
    assert correlations(name) == pytest.approx(loads, abs=0.02)
    assert scores(name).std(0) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("name", ["informative", "weak", "heavy-tails"])
def test_each_rung_errs_on_its_own(name: str) -> None:
    cheap, _, dear, truth = scores(name).T
    rest = [column - np.polyval(np.polyfit(truth, column, 1), truth) for column in (cheap, dear)]
    assert np.corrcoef(*rest)[0, 1] == pytest.approx(0, abs=0.02)


def test_cheap_rungs_put_some_ordinary_ones_at_the_very_top() -> None:
    found = family("false-positives", N, 3)
    top = np.argsort(-found.scores[:, 0])[: N // 50]
    ordinary = found.scores[:, -1] < np.quantile(found.scores[:, -1], 0.9)
    assert ordinary[top].mean() > 0.8
    fooled = found.scores[top[ordinary[top]]]
    assert fooled[:, 1].mean() > 2, "the same ones"
    assert abs(fooled[:, 2].mean()) < 0.3, "the third rung is not fooled"


def test_heavy_tails_are_those_of_t_with_four_degrees_of_freedom() -> None:
    truth = np.abs(scores("heavy-tails")[:, -1]) * np.sqrt(2)
    assert np.mean(truth > 4.604) == pytest.approx(0.01, rel=0.2)
    assert np.mean(truth > 2.776) == pytest.approx(0.05, rel=0.1)


def test_in_the_tail_an_answer_rises_less_with_the_truth() -> None:
    found = scores("tail-dependent")
    tail = found[:, -1] > np.quantile(found[:, -1], 0.9)
    for rung, in_bulk, in_tail in ((0, 0.5, 0.25), (1, 0.7, 0.35), (2, 0.9, 0.6)):
        assert np.polyfit(found[~tail, -1], found[~tail, rung], 1)[0] == pytest.approx(in_bulk, abs=0.03)
        assert found[tail, rung].mean() / found[tail, -1].mean() == pytest.approx(in_tail, abs=0.03)


def test_later_arrivals_are_better_by_1_3_standard_deviations_over_the_whole() -> None:
    found = scores("drift")
    x = np.linspace(0, 1, N)
    slopes = np.polyfit(x, found, 1)[0]
    assert slopes == pytest.approx([1.3 * load for load in (0.5, 0.7, 0.9, 1.0)], abs=0.08)
    hits = family("drift", N, 3).hit
    assert hits[N // 2 :].sum() > 3 * hits[: N // 2].sum()


def test_errors_grow_with_the_truth() -> None:
    *_, dear, truth = scores("heteroscedastic").T
    error = dear - 0.9 * truth
    low, high = (error[np.abs(truth - at) < 0.2].std() for at in (-1.0, 1.0))
    assert high / low == pytest.approx(np.exp(0.6), rel=0.1)


def test_rungs_fail_and_one_more_often_for_the_best() -> None:
    found = scores("failures")
    whole = scores("informative")[:, -1]  # the same draw, with all its answers
    best = whole > np.quantile(whole, 0.9)
    missing = np.isnan(found)
    assert missing[~best].mean(0) == pytest.approx(0.05, abs=0.01)
    assert missing[best].mean(0) == pytest.approx([0.05, 0.05, 0.4, 0.05], abs=0.02)


def test_an_unknown_family_is_answered_with_the_near_one() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "heavy-tails"'):
        family("heavy-tail", 10, 0)
