"""Answers that are yes or no in the law: against integrals over the hidden values, and against what is true."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

from sciagent.scheduling.array_types import Array
from sciagent.scheduling.law import gaussian_process_chain
from sciagent.scheduling.law.answer_transforms import TruthTransform
from sciagent.scheduling.law.binary_answers import choices_of, hidden_answers, is_yes_or_no, truncated_moments
from sciagent.scheduling.law.gaussian_process import CENTRES, Hyper, Process, Rows, covariance
from sciagent.scheduling.law.gaussian_process_chain import Chain
from sciagent.scheduling.law.stacked_laws_with_and_without_structure import Law, foretell

HYPER = Hyper(np.array([*CENTRES[:4], 0.0]))  # with a noise of 1, so that the hidden values are not too alike
LIMIT = TruthTransform(0.5, 0.5)  # of answers that are 0 or 1


def rows_of(z: Array, yes: Array) -> Rows:
    return Rows(z, np.where(yes, 1.0, -1.0), np.zeros(len(z)))


def noisy(z: Array) -> Array:
    """(n, n) covariance of the hidden values with their noise."""
    return covariance(HYPER, z, z, None) + HYPER.noise * np.eye(len(z))


def test_few_values_are_yes_or_no() -> None:
    assert is_yes_or_no(np.array([-1.0, 1.0, 1.0, 1.0]))
    assert is_yes_or_no(np.array([-1.0, 0.0, 0.0, 0.0])), "an answer at the limit is a hit"
    assert not is_yes_or_no(np.array([-1.0, 1.0, 1.0])), "three answers could be anything"
    assert not is_yes_or_no(np.array([-1.0, 1.0, 2.0, 1.0]))
    assert not is_yes_or_no(np.array([-2.0, -1.0, -1.0, -2.0])), "two values that are both no"
    assert choices_of(np.array([-1.0, 3.0, -1.0])) == (-1.0, 3.0)
    assert choices_of(np.full(4, 2.0)) == (-2.0, 2.0), "nobody has said no so far"
    assert choices_of(np.full(4, -2.0)) == (-2.0, 2.0)
    assert choices_of(np.zeros(4)) == (-1.0, 0.0)


@pytest.mark.parametrize("yes", [True, False])
def test_one_answer_has_the_moments_of_a_truncated_normal(yes: bool) -> None:
    z, expected = np.array([[0.4]]), np.array([0.7])
    told = hidden_answers(HYPER, Rows(z, np.array([1.0 if yes else -1.0]) - expected, np.zeros(1)), expected)
    variance = noisy(z)[0, 0]
    side = np.array([1 if yes else -1], dtype=np.int8)
    mean, sd = truncated_moments(expected, np.sqrt([variance]), np.zeros(1), side)
    share = variance / (variance + told.extra[0])
    assert expected[0] + share * told.y[0] == pytest.approx(mean[0], abs=2e-3)
    assert variance * (1 - share) == pytest.approx(sd[0] ** 2, rel=1e-2)


def test_the_chance_of_a_third_yes_is_that_of_the_integral() -> None:
    """Over two seen answers, one yes and one no, and over two yeses: orthant probabilities of three hidden values."""
    z = np.array([[-0.5], [1.0], [0.6]])
    joint = noisy(z)
    for yes in (np.array([False, True]), np.array([True, True])):
        told = hidden_answers(HYPER, rows_of(z[:2], yes), np.zeros(2))
        mean, variance, _ = Process(HYPER, told).foretell(z[2:])
        chance = ndtr(mean / np.sqrt(variance + HYPER.noise))[0]
        flip = np.diag([*np.where(yes, 1.0, -1.0), 1.0])
        all_three = multivariate_normal(cov=flip @ joint @ flip).cdf(np.zeros(3))
        of_two = multivariate_normal(cov=(flip @ joint @ flip)[:2, :2]).cdf(np.zeros(2))
        assert chance == pytest.approx(all_three / of_two, abs=0.015)


def test_an_answer_left_out_is_foretold_as_by_the_others_alone() -> None:
    rng = np.random.default_rng(3)
    z = rng.normal(size=(25, 2))
    yes = z[:, 0] + 0.5 * rng.normal(size=25) > 0
    told = hidden_answers(HYPER, rows_of(z, yes), np.zeros(25))
    mean, variance = Process(HYPER, told).leave_one_out
    chances = ndtr(mean / np.sqrt(variance - told.extra))
    for out in (0, 7, 19):
        rest = np.delete(np.arange(25), out)
        others = hidden_answers(HYPER, rows_of(z[rest], yes[rest]), np.zeros(24))
        middle, spread, _ = Process(HYPER, others).foretell(z[[out]])
        assert chances[out] == pytest.approx(ndtr(middle / np.sqrt(spread + HYPER.noise))[0], abs=0.03)


def _scores(n: int, seed: int) -> Array:
    """(n, 2) a lower rung, and a yes or no that rises with it: its probit has the slope 2."""
    rng = np.random.default_rng(seed)
    lower = rng.normal(size=n)
    return np.array([lower, 2 * lower + rng.normal(size=n) > 0]).T.astype(float)


def _loss(scores: Array, known: int) -> float:
    """Log loss per answer of those that the chain was not told."""
    told = scores.copy()
    told[known:, 1] = np.nan
    rest = np.arange(known, len(scores))
    [(of, forecast)] = Chain(told, LIMIT, None).forecast(rest)
    return LIMIT.log_loss(forecast.mean, np.sqrt(forecast.variance), LIMIT(scores[rest[of], 1])) / len(rest)


def test_chances_are_better_than_those_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mean over ten draws, against the log loss of the truth."""
    seeds = range(10)
    hidden = np.mean([_loss(_scores(300, seed), 15) for seed in seeds])
    true = np.mean([-np.log(ndtr((4 * y - 2) * x)).mean() for x, y in (_scores(300, seed).T for seed in seeds)])
    monkeypatch.setattr(gaussian_process_chain, "is_yes_or_no", lambda answers: False)
    numbers = np.mean([_loss(_scores(300, seed), 15) for seed in seeds])
    assert true < hidden < numbers
    assert hidden - true < 0.8 * (numbers - true)


def test_nearly_certain_answers_have_an_interval_without_width() -> None:
    scores = _scores(200, 0)
    scores[:4, 0], scores[:4, 1] = (-4.0, -0.1, 0.1, 4.0), np.nan
    law = Law(1.0, (Chain(scores, LIMIT, None),))
    told = foretell([law], 0, np.arange(4)).in_unit(LIMIT)
    assert told.low.tolist() == [0, 0, 0, 1]
    assert told.high.tolist() == [0, 1, 1, 1]
    assert (np.diff(told.mean) > 0).all()
    assert 0 <= told.mean[0] < 0.02 < 0.98 < told.mean[3] <= 1


def test_a_limit_that_is_the_yes_itself_changes_no_chance() -> None:
    """The limit is that of `min: 1`, with answers of 0 and 1."""
    scores = _scores(60, 2)
    scores[20:, 1] = np.nan
    chances = []
    for truth in (LIMIT, TruthTransform(1.0, 1.0)):
        [(_, forecast)] = Chain(scores, truth, None).forecast(np.arange(20, 60))
        chances.append(ndtr(forecast.mean / np.sqrt(forecast.variance)))
    assert chances[1] == pytest.approx(chances[0], abs=1e-6)
    assert chances[0].max() > 0.9


def test_a_window_or_a_third_value_makes_numbers_of_them() -> None:
    scores = _scores(40, 1)
    assert Chain(scores, LIMIT, None).choices == (-1.0, 1.0)
    assert Chain(scores, TruthTransform(0.5, 0.5, 1, -0.5, 2.0), None).choices is None
    scores[0, 1] = 0.5
    assert Chain(scores, LIMIT, None).choices is None
