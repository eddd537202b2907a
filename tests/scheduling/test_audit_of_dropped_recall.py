"""The interval of the missed hits, and so of the recall, holds for any law, and a bad law widens it little."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import binom, gamma, poisson

from sciagent.domain.answers.status_and_comparison import EstimateWithInterval
from sciagent.scheduling.audit_of_dropped import ENOUGH, missed_hits
from tests.scheduling.draws import draw

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

MANY = 1_000_000  # candidates not audited


def test_hits_that_were_certain_to_be_audited_widen_nothing() -> None:
    few = missed_hits(np.full(6, 0.1), 0.05, MANY)
    more = missed_hits(np.concatenate([np.ones(100), np.full(6, 0.1)]), 0.05, MANY)
    assert more.high == few.high + 100 and more.estimate == pytest.approx(few.estimate + 100)


@given(st.lists(st.floats(1e-4, 1), min_size=5, max_size=40), st.floats(1e-4, 0.99), st.integers(1, 10_000))
def test_the_estimate_lies_in_the_interval_and_the_interval_in_what_can_be(
    pi: list[float], least: float, left: int
) -> None:
    missed = missed_hits(np.array(pi), least, left)
    assert len(pi) <= missed.low <= missed.estimate <= missed.high + 1 <= len(pi) + left + 1


# Against what is known


@pytest.mark.parametrize("pi", [0.01, 0.1, 0.3, 0.8])
@pytest.mark.parametrize("a", [5, 6, 9, 30])
def test_with_one_propensity_the_limits_are_those_of_the_inverted_binomial_tests(pi: float, a: int) -> None:
    total = np.arange(a, 100 + int(8 * a / pi))
    missed = missed_hits(np.full(a, pi), pi, MANY)
    assert missed.high == total[binom.cdf(a, total, pi) > 0.025].max()
    given_enough = binom.sf(a - 1, total, pi) / binom.sf(ENOUGH - 1, total, pi)
    assert missed.low == total[given_enough > 0.025].min()


@pytest.mark.parametrize("weights", [[1.0, 1, 1, 1, 1, 1], [1.0, 2, 2, 4, 4, 9], [3.0] * 9 + [20.0] * 3])
def test_with_small_propensities_the_upper_limit_is_that_of_fay_and_feuer(weights: list[float]) -> None:
    w = 1000 * np.array(weights)
    mean, variance = w.sum() + w.max(), (w**2).sum() + w.max() ** 2
    expected = gamma.ppf(0.975, mean**2 / variance, scale=variance / mean)
    assert missed_hits(1 / w, 1 / float(w.max()), MANY).high == pytest.approx(expected, rel=2e-3)


def test_five_hits_of_a_rare_kind_give_garwoods_limit() -> None:
    high = 1e-4 * missed_hits(np.full(5, 1e-4), 1e-4, MANY).high
    assert poisson.cdf(5, high) == pytest.approx(0.025, abs=1e-4)


# Coverage, exactly


@cache
def span(counts: tuple[int, ...], pi: tuple[float, ...]) -> EstimateWithInterval:
    return missed_hits(np.repeat(pi, counts), min(pi), MANY)


def errors(hits: tuple[int, ...], pi: tuple[float, ...]) -> tuple[float, float, float]:
    """Probability that the interval is given when so many hits of each propensity were missed; and, if it is, that its
    upper limit is too low and that its lower is too high. By enumeration."""
    chances = [binom.pmf(np.arange(m + 1), m, p) for m, p in zip(hits, pi, strict=True)]
    given, over, under = 0.0, 0.0, 0.0
    for counts in product(*(np.flatnonzero(chance > 1e-6).tolist() for chance in chances)):
        if sum(counts) >= ENOUGH:
            weight = float(np.prod([chance[k] for chance, k in zip(chances, counts, strict=True)]))
            found = span(counts, pi)
            given, over, under = (
                given + weight,
                over + weight * (found.high < sum(hits)),
                under + weight * (found.low > sum(hits)),
            )
    return (given, over / given, under / given) if given else (0.0, 0.0, 0.0)


@pytest.mark.parametrize("pi", [0.02, 0.1, 0.3, 0.7])
def test_with_one_propensity_each_limit_fails_at_most_once_in_forty_for_any_number_of_hits(pi: float) -> None:
    for expected in (0.5, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30):
        hits = max(ENOUGH, round(expected / pi))
        given, over, under = errors((hits,), (pi,))
        assert given > 0 and over <= 0.0251 and under <= 0.0251


@pytest.mark.parametrize("pi", [(0.9, 0.05), (0.5, 0.02), (0.3, 0.1), (0.2, 0.02)])
def test_hits_that_a_law_hides_where_it_hardly_audits_break_neither_limit(pi: tuple[float, float]) -> None:
    """Some missed hits where the law expects them, and as many as may go unnoticed where it does not."""
    worst = 0.0
    for seen, hidden in product((0.5, 2, 5, 9), (0.1, 1, 2, 3.4, 3.7, 5.5)):
        hits = (max(1, round(seen / pi[0])), max(1, round(hidden / pi[1])))
        given, over, under = errors(hits, pi)
        if given > 1e-3:
            assert over <= 0.0251 and under <= 0.0251
            worst = max(worst, over)
    assert worst > 0.01  # a narrower one would fail


# Campaigns

N, HITS, SPEND = 3000, 0.12, 0.14
LOADS = np.array([0.5, 0.8])  # correlations of two rungs with the truth
STEPS = (0.05, 0.1, 0.2, 0.4, 0.8)  # of the spend


@dataclass(frozen=True)
class Law:
    """probit(p_hit) is `slope` times what is true, and `shift`; swapped: the law takes the two rungs for each other."""

    slope: float = 1.0
    shift: float = 0.0
    swapped: bool = False

    def p_hit(self, scores: Array) -> Array:
        precision = 1 / (1 - LOADS**2)
        told = LOADS * precision
        within = 1 + float(LOADS @ told)
        mean = scores @ (told[::-1] if self.swapped else told) / within
        found: Array = ndtr(self.slope * (mean - ndtri(1 - HITS)) * np.sqrt(within) + self.shift)
        return found


LAWS = {
    "right": Law(),
    "over-confident": Law(slope=2.0),
    "under-confident": Law(slope=0.5),
    "too hopeful": Law(shift=0.8),
    "too gloomy": Law(shift=-0.8),
    "wrong correlations": Law(swapped=True),
}


@dataclass
class Record:
    """One entry a campaign in which the interval was given."""

    covered: list[bool] = field(default_factory=list)
    width: list[float] = field(default_factory=list)

    def add(self, found: int, missed: EstimateWithInterval, truth: float) -> None:
        """found: hits by the law's choice. truth: the recall, whose interval follows from that of the missed hits."""
        low, high = found / (found + missed.high), found / (found + missed.low)
        self.covered.append(low <= truth <= high)
        self.width.append(high - low)


@cache
def campaigns(name: str, runs: int = 400) -> dict[tuple[str, float | str], Record]:
    """The law buys what promises most for its cost and drops the rest; then it is audited by its own beliefs, and by
    those of a law that is right. Keys: who believes; share of the spend, or "five": the audit goes on in STEPS until it
    has five hits."""
    rng = np.random.default_rng(sum(map(ord, name)))
    records: dict[tuple[str, float | str], Record] = {}

    def record(who: str, when: float | str) -> Record:
        return records.setdefault((who, when), Record())

    for _ in range(runs):
        truth = rng.standard_normal(N)
        scores = LOADS * truth[:, None] + np.sqrt(1 - LOADS**2) * rng.standard_normal((N, 2))
        cost, hit = np.exp(0.5 * rng.standard_normal(N)), truth > ndtri(1 - HITS)
        p, right = LAWS[name].p_hit(scores), LAWS["right"].p_hit(scores)
        order = np.argsort(-p / cost)
        spend = SPEND * cost.sum()
        dropped = order[np.cumsum(cost[order]) > spend]
        found = int(hit.sum() - hit[dropped].sum())
        lot = rng.random(len(dropped))
        for who, belief in (("law", p), ("oracle", right)):
            before, five = np.zeros(len(dropped)), False
            for step in STEPS:
                if five and step > 0.1:
                    break
                done = draw(belief[dropped], cost[dropped], step * spend, lot, before)
                before, audited = done.pi, lot < done.pi
                known = hit[dropped] & audited
                enough = known.sum() >= ENOUGH
                missed = missed_hits(done.pi[known], float(done.pi[~audited].min()), int((~audited).sum()))
                if step <= 0.1:
                    record(who, step)
                    if enough:
                        record(who, step).add(found, missed, found / hit.sum())
                if enough and not five:
                    record(who, "five").add(found, missed, found / hit.sum())
                    five = True
    return records


@pytest.mark.parametrize("name", LAWS)
def test_the_interval_covers_the_truth_in_campaigns_under_any_law(name: str) -> None:
    for (_, when), record in campaigns(name).items():
        assert len(record.covered) >= 30 or when == 0.05  # of 400; five hits in so small an audit are luck
        if len(record.covered) >= 30:
            assert np.mean(record.covered) >= 0.93


@pytest.mark.parametrize("when", [0.05, 0.1, "five"])
def test_over_all_laws_it_covers_the_truth_in_19_campaigns_of_20_in_which_it_is_given(when: float | str) -> None:
    covered = [one for name in LAWS for one in campaigns(name)["law", when].covered]
    assert len(covered) >= 100 and np.mean(covered) >= 0.95


@pytest.mark.parametrize("name", LAWS)
def test_under_a_wrong_law_the_interval_is_little_wider_than_under_the_right_one(name: str) -> None:
    records = campaigns(name)
    for when in (0.1, "five"):
        ours, best = records["law", when].width, records["oracle", when].width
        assert len(ours) >= 40 and len(best) >= 40
        assert np.median(ours) <= 1.5 * np.median(best)
