"""What an answer is worth, and how much a rung tells of it, agree with draws of everything that may be said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from sciagent.scheduling.aims_and_payoff import TAIL, Graded, Hits, normal, share_told, to_u, utility_payoff
from sciagent.scheduling.law.answer_transforms import TruthTransform

Array = NDArray[np.float64]

N = 400_000
ABOVE = TruthTransform(1.0, 2.0)
INSIDE = TruthTransform(0.0, 1.0, 1, -0.7, 0.4)
FREE = TruthTransform(0.0, 1.0, 1, -np.inf, np.inf)


def inside(truths: tuple[TruthTransform, ...]) -> Callable[[Array], Array]:
    """(q, n) to (n,): 1 where all lie within their limits."""
    return lambda y: np.all([(v >= t.low) & (v <= t.high) for v, t in zip(y, truths, strict=True)], axis=0).astype(
        float
    )


def drawn(of: Callable[[Array], Array], mean: Array, variance: Array, share: Array) -> tuple[float, float]:
    """E[payoff] and E[E[payoff | S]²], the latter as the mean product of the payoffs of two answers that have in common
    what S tells; (q,) each."""
    rng = np.random.default_rng(0)
    q = len(mean)
    known = mean[:, None] + np.sqrt(variance * share)[:, None] * rng.standard_normal((q, N))
    one, other = (of(known + np.sqrt(variance * (1 - share))[:, None] * rng.standard_normal((q, N))) for _ in range(2))
    return float((one.mean() + other.mean()) / 2), float((one * other).mean())


def of_one(mean: float, share: float, limits: TruthTransform) -> tuple[float, float]:
    """`Hits` of one property of variance 1."""
    first, second = Hits((limits,)).moments(np.array([[mean]]), np.ones((1, 1)), np.array([share]))
    return float(first[0]), float(second[0])


# Hits


@pytest.mark.parametrize(
    ("truths", "mean", "variance", "share"),
    [
        ((ABOVE,), [-0.7], [1.5], [0.4]),
        ((INSIDE,), [0.1], [0.5], [0.9]),
        ((INSIDE,), [-1.5], [2.0], [0.5]),
        ((ABOVE, INSIDE), [0.3, 0.1], [1.0, 0.5], [0.5, 0.95]),
        ((INSIDE, ABOVE, INSIDE), [-0.2, 0.6, 0.4], [0.3, 2.0, 0.4], [0.0, 0.8, 1.0]),
        ((ABOVE, FREE), [0.2, 5.0], [1.0, 3.0], [0.6, 0.6]),
    ],
)
def test_hits_have_the_moments_of_draws(
    truths: tuple[TruthTransform, ...], mean: list[float], variance: list[float], share: list[float]
) -> None:
    m, v, s = np.array(mean), np.array(variance), np.array(share)
    first, second = Hits(truths).moments(m[:, None], v[:, None], s)
    expected = drawn(inside(truths), m, v, s)
    assert first[0] == Hits(truths).expected(m[:, None], v[:, None])[0]
    assert (first[0], second[0]) == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(N), rel=0.01)


@pytest.mark.parametrize("width", [0.001, 0.03, 0.3, 3.0])
@pytest.mark.parametrize("share", [0.1, 0.9, 0.99, 0.9999])
def test_what_a_window_is_told_is_exact_however_narrow_it_is_and_however_much_is_told(
    width: float, share: float
) -> None:
    """Against an integral over what is told, fine enough to find the window."""
    limits = TruthTransform(0.0, 1.0, 1, -width, width)
    for mean in (0.0, 0.7, 3.0):
        sd, rest = np.sqrt(share), np.sqrt(1 - share)
        reach = width + 9 * rest
        at = np.linspace(max(mean - 9 * sd, -reach), min(mean + 9 * sd, reach), 400_001)  # what is known then
        chance = ndtr((width - at) / rest) - ndtr((-width - at) / rest)
        density = np.exp(-(((at - mean) / sd) ** 2) / 2) / (sd * np.sqrt(2 * np.pi))
        expected = np.sum(chance**2 * density) * (at[1] - at[0])
        assert of_one(mean, share, limits)[1] == pytest.approx(expected, rel=2e-3)


def test_far_from_a_window_moments_stay_between_those_of_nothing_and_of_everything_told() -> None:
    limits = TruthTransform(0.0, 1.0, 1, -0.2, 0.2)
    for mean in (-8.0, -5.0, 5.0, 8.0):
        first = of_one(mean, 0.0, limits)[0]
        seconds = [of_one(mean, share, limits)[1] for share in (0.0, 0.3, 0.8, 0.99, 1.0)]
        assert seconds[0] == pytest.approx(first**2, rel=1e-6)
        assert seconds[-1] == pytest.approx(first, rel=1e-9)
        assert (np.diff(seconds) > 0).all()
    assert of_one(60.0, 0.5, limits) == (0.0, 0.0)


def test_a_window_looks_the_same_from_both_sides() -> None:
    for share in (0.2, 0.8):
        assert of_one(1.3, share, TruthTransform(0, 1, 1, -0.5, 0.5)) == pytest.approx(
            of_one(-1.3, share, TruthTransform(0, 1, 1, -0.5, 0.5)), rel=1e-9
        )


# Told


@pytest.mark.parametrize("mean", [-3.0, -1.0, 0.0, 0.8, 2.0])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_of_one_limit_on_one_property_a_rung_tells_the_share_that_it_tells_of_the_answer(
    mean: float, share: float
) -> None:
    first, second = (np.array([x]) for x in of_one(mean, share, TruthTransform(0.0, 1.0)))
    assert share_told(first, second)[0] == pytest.approx(share, abs=1e-6)
    assert to_u(first)[0] == pytest.approx(mean, abs=1e-9)


def test_of_a_window_between_two_that_are_never_hit_a_rung_tells_nothing() -> None:
    first, second = (np.array([x]) for x in of_one(60.0, 0.9, INSIDE))
    assert share_told(first, second)[0] == pytest.approx(0.0, abs=1e-6)
    assert to_u(first)[0] == to_u(np.array([TAIL]))[0]


def test_more_told_is_more_told_and_more_rungs_tell_more() -> None:
    truths = (ABOVE, INSIDE)
    means, variances = np.array([[0.3, -1.0], [0.2, 1.0]]), np.ones((2, 2))
    found = [
        share_told(*Hits(truths).moments(means, variances, np.array(share)))
        for share in [(0.0, 0.0), (0.5, 0.0), (0.5, 0.5), (0.9, 0.5), (1.0, 1.0)]
    ]
    assert (np.diff(found, axis=0) > 0).all()
    assert found[0] == pytest.approx(0.0, abs=1e-6)
    assert found[-1] == pytest.approx(1.0, abs=1e-6)


# Graded


def ramp(value: Array) -> Array:
    clipped: Array = np.clip((value + 2) / 4, 0, 1)
    return clipped


@pytest.mark.parametrize("record", [0.0, 0.8])
@pytest.mark.parametrize("mean", [(0.0, 0.0), (1.0, 0.5), (0.3, 1.4), (-0.5, 0.3)])
@pytest.mark.parametrize("share", [(0.1, 0.1), (0.5, 0.0), (0.8, 0.8)])
def test_graded_payoffs_have_the_moments_of_draws(
    record: float, mean: tuple[float, float], share: tuple[float, float]
) -> None:
    """The expected payoff within 3 %, the second moment within 5 %, what is told within 0.03; where the payoff is
    below 0.001, which is when hardly a draw beats the record, the payoff within 0.0001 alone."""
    of = utility_payoff([ramp, ramp], [1.0, 2.0], record)
    m, v, s = np.array(mean), np.array([0.5, 0.3]), np.array(share)
    graded = Graded(of, 2)
    expected, second = drawn(of, m, v, s)
    first, found = graded.moments(m[:, None], v[:, None], s)
    for one in (first, graded.expected(m[:, None], v[:, None])):
        assert one[0] == pytest.approx(expected, rel=0.03, abs=1e-4)
    if expected > 0.001:
        assert found[0] == pytest.approx(second, rel=0.05)
        assert share_told(first, found)[0] == pytest.approx(
            share_told(np.array([expected]), np.array([second]))[0], abs=0.03
        )


@pytest.mark.parametrize("q", [1, 3, 5])
def test_graded_payoffs_of_few_and_many_properties_agree_with_draws(q: int) -> None:
    of = utility_payoff([ramp] * q, [1.0] * q, 0.6)
    m, v, s = np.linspace(0.2, 0.6, q), np.full(q, 0.5), np.full(q, 0.6)
    expected, second = drawn(of, m, v, s)
    first, found = Graded(of, q).moments(m[:, None], v[:, None], s)
    assert first[0] == pytest.approx(expected, rel=0.03)
    assert found[0] == pytest.approx(second, rel=0.05)


def test_every_candidate_meets_the_same_draws() -> None:
    """So that of two candidates the one with the larger means promises more, whatever the draws."""
    graded = Graded(utility_payoff([ramp, ramp], [1.0, 1.0], 0.7), 2)
    means = np.tile(np.linspace(-1, 1, 5000), (2, 1))
    found = graded.expected(means, np.full((2, 5000), 0.3))
    assert (np.diff(found) >= 0).all()
    assert found[1234] == graded.expected(means[:, 1234:1235], np.full((2, 1), 0.3))[0]


@pytest.mark.parametrize("q", [1, 2, 6])
def test_draws_weighed_are_standard_normal(q: int) -> None:
    draws, weights = normal(q, 4096)
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ draws == pytest.approx(0.0, abs=0.02)
    assert (weights[:, None] * draws).T @ draws == pytest.approx(np.eye(q), abs=0.04)


# Utilities


def test_a_utility_is_the_weighted_geometric_mean_with_a_floor() -> None:
    of = utility_payoff([lambda v: v, lambda v: v], [1.0, 3.0])
    assert of(np.array([[0.5], [0.2]])) == pytest.approx(0.5**0.25 * 0.2**0.75)
    assert of(np.array([[0.0], [1.0]])) == pytest.approx(1e-3**0.25)
    assert of(np.array([[1.0], [1.0]])) == pytest.approx(1.0)


def test_beyond_a_record_only_what_lies_above_it_counts() -> None:
    of = utility_payoff([lambda v: v], [1.0], 0.6)
    assert of(np.array([[0.5, 0.6, 0.8, 1.0]])) == pytest.approx([0.0, 0.0, 0.5, 1.0])
    assert utility_payoff([lambda v: v], [1.0], 1.0)(np.array([[1.0]])) == pytest.approx(0.0)
