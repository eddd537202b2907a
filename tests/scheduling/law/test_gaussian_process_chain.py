"""The chain is the conditional of a joint Gaussian where the ladder is one, and it hears only what was paid for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from sciagent.scheduling.candidate_pool import CandidatePool
from sciagent.scheduling.law.answer_transforms import ScoreTransform, TruthTransform
from sciagent.scheduling.law.gaussian_process import OFFSET, Hyper
from sciagent.scheduling.law.gaussian_process_chain import SAME_SLOPE, TERMINAL_ROWS, Chain, Forecast
from sciagent.scheduling.law.similarity import order_of

Array = NDArray[np.float64]
Places = NDArray[np.intp]

TRUTH = TruthTransform(1.0, 1.0)
FROM_THE_TOP = [(), (2,), (1, 2), (0, 1, 2)]


def correlated(lower: Array) -> Array:
    whole = lower @ lower.T
    sd = np.sqrt(np.diag(whole))
    found: Array = whole / np.outer(sd, sd)
    return found


LADDER = correlated(np.array([[1, 0, 0, 0], [0.5, 0.9, 0, 0], [0.4, 0.3, 0.8, 0], [0.3, 0.3, 0.5, 0.6]]))
# the lowest rung tells of the terminal one, and nothing of the rungs between
APART = correlated(np.array([[1, 0, 0, 0], [0, 0.9, 0, 0], [0, 0.4, 0.8, 0], [0.5, 0.3, 0.5, 0.6]]))


def linear(law: Array) -> dict[int, Hyper]:
    """Hyper-parameters under which each rung is a plane over those below it, with the noise it has."""
    found = {}
    for j in range(len(law)):
        told = law[j, :j] @ np.linalg.solve(law[:j, :j], law[:j, j]) if j else 0.0
        found[j] = Hyper(np.log([1.0, 1e-4, 1.5, 1e-4, np.sqrt(law[j, j] - told)]))
    return found


def ladder(law: Array, paid: int, missing: list[tuple[int, ...]], each: int = 60) -> tuple[Array, Array]:
    """Scores with all rungs seen for the first `paid` and rungs missing for `each` candidates a pattern; and without
    gaps."""
    rng = np.random.default_rng(0)
    whole = rng.multivariate_normal(np.zeros(len(law)), law, paid + each * len(missing))
    scores = whole.copy()
    scores[paid:, -1] = np.nan
    for place, gone in enumerate(missing):
        scores[paid + each * place : paid + each * (place + 1), list(gone)] = np.nan
    return scores, whole


def conditional(law: Array, seen: Array, missing: tuple[int, ...]) -> tuple[Array, Array]:
    """Means and covariance of the missing rungs and the terminal one, by the textbook's formula."""
    last = len(law) - 1
    asked, given = [*missing, last], [j for j in range(last) if j not in missing]
    weights = np.linalg.solve(law[np.ix_(given, given)], law[np.ix_(given, asked)])
    return seen[:, given] @ weights, law[np.ix_(asked, asked)] - law[np.ix_(asked, given)] @ weights


def forecasts(chain: Chain, of: Places) -> tuple[Array, Array]:
    """Mean and variance (n,) of each of `of`."""
    mean, variance = np.full(len(of), np.nan), np.full(len(of), np.nan)
    for places, found in chain.forecast(of):
        assert np.isnan(mean[places]).all()
        mean[places], variance[places] = found.mean, found.variance
    return mean, variance


def fitted_transform(values: Array) -> Array:
    return ScoreTransform.of(values)(values)


def fitted(scores: Array, similarity: Near | None = None) -> Chain:
    return Chain(scores, TRUTH, similarity)


@pytest.fixture
def with_these_hyper_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The law is not averaged over others."""
    monkeypatch.setattr("sciagent.scheduling.law.gaussian_process_chain.FEW_ROWS", 0)


class Near:
    """Alike where x is."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def between(self, one: Places, other: Places) -> Array:
        found: Array = np.exp(-2 * (self.x[one][:, None] - self.x[other]) ** 2)
        return found


# Against the joint Gaussian


@pytest.fixture(scope="module")
def by_pattern() -> dict[tuple[int, ...], tuple[Forecast, Array]]:
    """Forecast of each pattern, and the candidates' scores without gaps."""
    scores, whole = ladder(LADDER, 4000, FROM_THE_TOP)
    chain = Chain(scores, TRUTH, None, None, linear(LADDER), refit=False)
    of = np.arange(4000, len(scores))
    return {found.missing: (found, whole[of[places]]) for places, found in chain.forecast(of)}


@pytest.mark.parametrize("missing", FROM_THE_TOP)
def test_a_linear_ladder_is_foretold_as_its_joint_gaussian_is(
    missing: tuple[int, ...], by_pattern: dict[tuple[int, ...], tuple[Forecast, Array]]
) -> None:
    """Whatever is missing above what was seen. Within 0.1 of the terminal answer's standard deviation, which is 1."""
    found, whole = by_pattern[missing]
    mean, covariance = conditional(LADDER, whole, missing)
    assert len(found.mean) == 60
    assert np.sqrt(np.mean((found.mean - (mean[:, -1] - TRUTH.centre)) ** 2)) < 0.1
    assert np.sqrt(np.median(found.variance) / covariance[-1, -1]) == pytest.approx(1.0, abs=0.1)
    assert found.covariance[:, :-1, :].mean(0) == pytest.approx(covariance[:-1], abs=0.1)


def test_a_skipped_rung_of_which_the_seen_ones_tell_nothing_adds_what_it_could_have_said() -> None:
    scores, whole = ladder(APART, 4000, [(0,), (0, 2)])
    chain = Chain(scores, TRUTH, None, None, linear(APART), refit=False)
    of = np.arange(4000, len(scores))
    for places, found in chain.forecast(of):
        mean, covariance = conditional(APART, whole[of[places]], found.missing)
        assert np.sqrt(np.mean((found.mean - (mean[:, -1] - TRUTH.centre)) ** 2)) < 0.1
        assert np.sqrt(np.median(found.variance) / covariance[-1, -1]) == pytest.approx(1.0, abs=0.1)
        assert found.covariance[:, :-1, :].mean(0) == pytest.approx(covariance[:-1], abs=0.1)


def test_what_is_fitted_to_a_linear_ladder_foretells_it_as_well() -> None:
    """Without being told its hyper-parameters, from 240 terminal answers."""
    scores, whole = ladder(LADDER, 240, FROM_THE_TOP)
    of = np.arange(240, len(scores))
    for places, found in fitted(scores).forecast(of):
        mean, covariance = conditional(LADDER, whole[of[places]], found.missing)
        assert np.sqrt(np.mean((found.mean - (mean[:, -1] - TRUTH.centre)) ** 2)) < 0.25
        assert np.sqrt(np.median(found.variance) / covariance[-1, -1]) == pytest.approx(1.0, abs=0.2)


def test_forecasts_are_calibrated_on_candidates_that_were_never_verified() -> None:
    scores, whole = ladder(LADDER, 240, FROM_THE_TOP, each=250)
    of = np.arange(240, len(scores))
    mean, variance = forecasts(fitted(scores), of)
    away = (TRUTH(whole[of, -1]) - mean) / np.sqrt(variance)
    assert np.mean(away**2) == pytest.approx(1.0, abs=0.25)


def test_a_covariance_is_one() -> None:
    scores, _ = ladder(LADDER, 100, [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)], each=5)
    seen = 0
    for places, found in fitted(scores).forecast(np.arange(100, 140)):
        assert found.covariance.shape == (5, len(found.missing) + 1, len(found.missing) + 1)
        assert np.isnan(scores[100 + places][:, list(found.missing)]).all()
        assert found.covariance == pytest.approx(found.covariance.transpose(0, 2, 1))
        assert np.linalg.eigvalsh(found.covariance).min() > 0
        seen += len(places)
    assert seen == 40


def test_the_more_rungs_were_seen_the_surer_the_forecast() -> None:
    scores, _ = ladder(LADDER, 240, FROM_THE_TOP)
    _, variance = forecasts(fitted(scores), np.arange(240, len(scores)))
    assert (np.diff(np.median(variance.reshape(4, 60), axis=1)) > 0).all()


def test_answers_of_candidates_that_skipped_a_rung_do_not_blur_what_the_rung_tells() -> None:
    """Half of those verified had skipped the rung that tells nearly all: they scatter more, and that is known."""
    law = np.array([[1.0, 0.95], [0.95, 1.0]])
    scores, whole = ladder(law, 240, [()])
    scores[:120, 0] = np.nan
    of = np.arange(240, 300)
    mean, variance = forecasts(fitted(scores), of)
    assert np.sqrt(np.median(variance) / (1 - 0.95**2)) == pytest.approx(1.0, abs=0.2)
    assert np.sqrt(np.mean((mean - (0.95 * whole[of, 0] - TRUTH.centre)) ** 2)) < 0.1


# What it hears


def test_a_rung_no_candidate_has_is_left_out() -> None:
    scores, _ = ladder(LADDER, 80, [(), (2,)])
    with_gap = np.insert(scores, 1, np.nan, axis=1)
    of = np.arange(80, len(scores))
    plain, gap = fitted(scores), fitted(with_gap)
    for (one, found), (other, again) in zip(plain.forecast(of), gap.forecast(of), strict=True):
        assert np.array_equal(one, other)
        assert 1 not in again.missing
        assert again.missing == tuple(j + (j >= 1) for j in found.missing)
        assert again.mean == pytest.approx(found.mean)
        assert again.covariance == pytest.approx(found.covariance)
    assert gap.log_loss == pytest.approx(plain.log_loss)


def test_what_was_not_paid_for_cannot_matter() -> None:
    """Two worlds that agree in what was bought and differ in everything else, costs included."""
    rng = np.random.default_rng(1)
    paid_for = ~np.isnan(ladder(LADDER, 80, FROM_THE_TOP)[0])
    _, world = ladder(LADDER, 80, FROM_THE_TOP)
    other = np.where(paid_for, world, 100 * rng.standard_normal(world.shape))
    boards = []
    for whole in (world, other):
        pool = CandidatePool(np.empty((0, 4)), np.empty((0, 4), dtype=bool), np.empty((0, 4)))
        pool.add(rng.random(whole.shape))
        pool.scores[paid_for] = whole[paid_for]
        boards.append(pool)
    of = np.arange(len(world))
    one, two = (forecasts(fitted(pool.scores), of) for pool in boards)
    assert np.array_equal(one, two)


def test_candidates_that_nobody_paid_for_change_no_forecast() -> None:
    scores, _ = ladder(LADDER, 80, FROM_THE_TOP)
    more = np.vstack([scores, np.full((50, 4), np.nan)])
    of = np.arange(len(scores))
    one, two = fitted(scores), fitted(more)
    assert forecasts(one, of)[0] == pytest.approx(forecasts(two, of)[0])
    assert forecasts(one, of)[1] == pytest.approx(forecasts(two, of)[1])
    assert one.log_loss == pytest.approx(two.log_loss)


def test_a_forecast_does_not_depend_on_who_else_is_asked_for() -> None:
    scores, _ = ladder(LADDER, 80, FROM_THE_TOP)
    chain, of = fitted(scores), np.arange(80, len(scores))
    mixed = np.random.default_rng(1).permutation(of)
    for together, alone in zip(forecasts(chain, of), forecasts(chain, mixed), strict=True):
        assert alone == pytest.approx(together[mixed - 80], abs=1e-5)  # in single precision


def test_the_unit_of_a_rung_does_not_matter() -> None:
    scores, _ = ladder(LADDER, 80, FROM_THE_TOP)
    of = np.arange(80, len(scores))
    plain, other = fitted(scores), fitted(scores * [1000.0, 0.01, 3.0, 1.0] + [5.0, -7.0, 0.0, 0.0])
    assert forecasts(other, of)[0] == pytest.approx(forecasts(plain, of)[0], abs=0.01)
    assert other.log_loss == pytest.approx(plain.log_loss, abs=0.05)


def test_a_law_of_many_answers_is_the_same_for_every_order_of_arrival() -> None:
    """With more answers than the law keeps, of the terminal rung and of one below it."""
    scores, _ = ladder(LADDER, TERMINAL_ROWS + 100, FROM_THE_TOP)
    order, n = order_of(map(str, range(len(scores)))), len(scores)
    first = Chain(scores, TRUTH, None, order)
    mixed = np.random.default_rng(3).permutation(n)
    other = Chain(scores[mixed], TRUTH, None, order[mixed], first.hyper, refit=False)
    again = Chain(scores, TRUTH, None, order, first.hyper, refit=False)
    place = np.argsort(mixed)
    for one, two in zip(forecasts(again, np.arange(n)), forecasts(other, np.arange(n)), strict=True):
        assert two[place] == pytest.approx(one, abs=1e-9), "the same rows, added up in another order"


def test_hits_below_the_threshold_are_foretold_alike() -> None:
    scores, _ = ladder(LADDER, 80, FROM_THE_TOP)
    of = np.arange(80, len(scores))
    mirrored = Chain(scores * [1, 1, 1, -1], TruthTransform(-1.0, 1.0, -1), None)
    assert forecasts(mirrored, of)[0] == pytest.approx(forecasts(fitted(scores), of)[0])


def test_hyper_parameters_of_an_earlier_fit_are_kept_where_none_better_are_sought() -> None:
    scores, _ = ladder(LADDER, 80, FROM_THE_TOP)
    first = fitted(scores)
    again = Chain(scores, TRUTH, None, None, first.hyper, refit=False)
    assert set(again.hyper) == {0, 1, 2, 3}
    assert all(again.hyper[j] is first.hyper[j] for j in again.hyper)
    of = np.arange(len(scores))
    assert forecasts(again, of)[0] == pytest.approx(forecasts(first, of)[0], abs=0.05)


def test_one_terminal_answer_is_enough() -> None:
    scores = np.full((5, 3), np.nan)
    scores[0] = [0.0, 0.0, 2.0]
    scores[1, 0] = 1.0
    mean, variance = forecasts(fitted(scores), np.arange(5))
    assert np.isfinite(mean).all()
    assert (variance > 0).all()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rung_that_measures_the_same_property_is_expected_to_rise_with_it(sign: int) -> None:
    """Before the second terminal answer, by `SAME_SLOPE` in their common unit. Another rung says nothing yet."""
    scores = np.array([[0.0, 0.0, 5.0], [10.0, 0.0, np.nan], [0.0, 10.0, np.nan], [-10.0, -10.0, np.nan]])
    truth = TruthTransform(5.0, 2.0, sign)
    first, same, other, _ = forecasts(Chain(scores, truth, None, alike=((0, 2),)), np.arange(4))[0]
    z = fitted_transform(scores[:, 0])
    assert same - first == pytest.approx(sign * SAME_SLOPE * scores[:, 0].std() / 2.0 * (z[1] - z[0]), rel=0.05)
    assert abs(other - first) < 0.1 * abs(same - first)


def test_two_lower_rungs_of_one_property_are_expected_to_rise_with_each_other() -> None:
    """So the lowest tells of the terminal answer by way of the second, which the candidate lacks."""
    scores = np.array([[0.0, 0.0, 5.0], [10.0, np.nan, np.nan], [-10.0, np.nan, np.nan], [5.0, 5.0, np.nan]])
    apart, told = (
        np.subtract(*forecasts(Chain(scores, TRUTH, None, alike=alike), np.array([1, 2]))[0])
        for alike in ([(1, 2)], [(0, 1), (1, 2)])
    )
    assert told > 1.4 * abs(apart)


def test_an_expected_slope_is_a_line_that_the_law_need_not_learn() -> None:
    """With it, the law of y is the law of y minus the line, plus the line."""
    scores = ladder(LADDER, 40, [()])[0]
    line = SAME_SLOPE * scores[:, 1].std() * fitted_transform(scores[:, 1])
    start = linear(LADDER)
    less = scores.copy()
    less[:, -1] -= line
    of = np.arange(len(scores))
    told, variance = forecasts(Chain(scores, TRUTH, None, None, start, refit=False, alike=((1, 3),)), of)
    rest, spread = forecasts(Chain(less, TRUTH, None, None, start, refit=False), of)
    assert told == pytest.approx(rest + line, abs=1e-4)
    assert variance == pytest.approx(spread, rel=1e-3)


# Its record


@pytest.mark.usefixtures("with_these_hyper_parameters")
def test_the_record_is_how_badly_each_answer_was_foretold_by_the_others() -> None:
    """With nothing but terminal answers: a normal mean of prior variance 4, with known noise."""
    y = np.random.default_rng(0).normal(-0.5, 1.0, 12)
    noise = 0.8**2
    start = {0: Hyper(np.log([1.0, 1.0, 1.0, 1.0, 0.8]))}
    chain = Chain(y[:, None], TruthTransform(0.0, 1.0), None, None, start, refit=False)
    expected = 0.0
    for i in range(12):
        variance = 1 / (1 / OFFSET + 11 / noise)
        probability = norm.cdf(variance * np.delete(y, i).sum() / noise / np.sqrt(variance + noise))
        expected -= np.log(probability if y[i] > 0 else 1 - probability)
    assert chain.log_loss == pytest.approx(expected, rel=1e-4)


def test_a_rung_that_tells_of_hits_has_the_better_record() -> None:
    _, whole = ladder(LADDER, 240, [])
    blind = whole.copy()
    blind[:, :3] = np.random.default_rng(1).standard_normal((240, 3))
    assert fitted(whole).log_loss < 0.8 * fitted(blind).log_loss


# Structure


def test_structure_speaks_where_no_rung_was_run() -> None:
    x = np.linspace(-3, 3, 120)
    scores = np.full((120, 2), np.nan)
    scores[::2, 1] = 1.0 + np.sin(2 * x[::2])
    scores[::4, 0] = np.random.default_rng(0).standard_normal(30)
    with_structure, without = fitted(scores, Near(x)), fitted(scores)
    unseen = np.arange(1, 120, 2)
    mean, variance = forecasts(with_structure, unseen)
    assert np.corrcoef(mean, np.sin(2 * x[unseen]))[0, 1] > 0.95
    assert np.median(variance) < 0.5 * np.median(forecasts(without, unseen)[1])
    assert with_structure.log_loss < 0.5 * without.log_loss


def test_structure_also_tells_what_a_rung_would_have_said() -> None:
    """The terminal answer repeats a rung, the rung follows structure, and the terminal one was bought elsewhere."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-3, 0, 60), rng.uniform(1, 3, 60)])
    rung = np.sin(3 * x)
    scores = np.column_stack([rung, np.where(np.arange(120) < 60, rung + 1.0, np.nan)])
    scores[100:, 0] = np.nan
    mean, _ = forecasts(fitted(scores, Near(x)), np.arange(100, 120))
    assert np.corrcoef(mean, rung[100:])[0, 1] > 0.8


@pytest.mark.usefixtures("with_these_hyper_parameters")
def test_an_answer_known_badly_teaches_less() -> None:
    """Two answers for the same input, one far better known: the mean is theirs, weighted by what each leaves open."""
    y = np.array([0.0, 1.0] * 40) + np.linspace(0, 1e-6, 80)  # numbers, not yes or no
    scores = np.column_stack([np.ones(80), y])
    errors = np.zeros((80, 2))
    errors[1::2, 1] = 3.0  # those that say 1
    start = {1: Hyper(np.log([1e-3, 1e-3, 1.5, 1e-3, 0.5]))}
    scale = TruthTransform(0.0, 1.0)
    even = Chain(scores, scale, None, None, start, refit=False)
    told = Chain(scores, scale, None, None, start, refit=False, errors=errors)
    [(_, plain)], [(_, weighed)] = even.forecast(np.array([0])), told.forecast(np.array([0]))
    assert plain.mean[0] == pytest.approx(0.5, abs=0.01)
    # precisions 1 / 0.25 against 1 / (0.25 + 9)
    assert weighed.mean[0] == pytest.approx((1 / 9.25) / (1 / 0.25 + 1 / 9.25), abs=0.01)
    assert weighed.variance[0] > plain.variance[0]  # an answer to come is known no better than those that came


def test_two_blocks_at_a_time_say_what_one_after_the_other_says(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, _ = ladder(LADDER, 80, FROM_THE_TOP)
    chain, of = fitted(scores), np.arange(len(scores))
    monkeypatch.setattr("sciagent.scheduling.law.gaussian_process_chain.BLOCK", len(scores) // 40)
    together = list(chain.forecast(of))
    monkeypatch.setattr("sciagent.scheduling.law.gaussian_process_chain.MIN_THREADED_BLOCKS", len(scores))
    alone = list(chain.forecast(of))
    assert len(together) == len(alone) > 20
    for (places, told), (others, other) in zip(together, alone, strict=True):
        assert np.array_equal(places, others) and told.missing == other.missing
        assert np.array_equal(told.mean, other.mean) and np.array_equal(told.covariance, other.covariance)


def test_an_earlier_campaign_that_looked_far_from_the_limit_does_not_blur_the_law_near_it() -> None:
    """Where it looked, the lower rung says nothing, and the noise is ten times as large."""
    rng = np.random.default_rng(1)
    x = np.concatenate([np.linspace(-3, -1.5, 30), rng.uniform(0, 1, 8), np.linspace(0, 2, 40)])
    scores = np.column_stack([x, TRUTH.centre + np.where(x < -0.5, -3.0, x - 1)])
    scores[:, -1] += np.where(x < -0.5, 1.0, 0.1) * rng.normal(size=len(x))
    asked = np.arange(38, 78)
    scores[asked, -1] = np.nan
    (mean, variance), (unaware, blurred) = (
        forecasts(Chain(scores, TRUTH, None, earlier=earlier), asked) for earlier in (30, 0)
    )
    assert np.abs(mean - (x[asked] - 1)).mean() < np.abs(unaware - (x[asked] - 1)).mean()
    assert np.sqrt(variance).mean() < 0.5 * np.sqrt(blurred).mean()
