"""An audit's propensities are what they say, cost what they may, and go where missed hits are likely."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sciagent.scheduling.audit_of_dropped import FLOOR, MIN_P_HIT, lots, propensities
from tests.scheduling.draws import draw

Array = NDArray[np.float64]

seeds = st.integers(0, 10_000)
shares = st.floats(1e-4, 1.5)


def dropped(seed: int, n: int = 60) -> tuple[Array, Array]:
    """p_hit over many orders of magnitude, some exactly 0 or 1, and costs."""
    rng = np.random.default_rng(seed)
    p = 10 ** rng.uniform(-14, 0, n)
    p[:2] = 0.0, 1.0
    return p, np.exp(rng.normal(3, 1, n))


# Lots


def test_a_lot_belongs_to_its_candidate_and_to_the_seed() -> None:
    keys = [f"molecule-{i}" for i in range(50)]
    assert (lots(7, keys)[::-1] == lots(7, keys[::-1])).all()
    assert (lots(7, keys[:3]) == lots(7, keys)[:3]).all()
    assert not (lots(8, keys) == lots(7, keys)).any()
    assert len(lots(7, [])) == 0


def test_lots_are_uniform_and_independent_of_each_other_and_of_the_seed_before() -> None:
    drawn = np.array([lots(seed, map(str, range(200))) for seed in range(100)])
    assert drawn.min() > 0 and drawn.max() < 1
    counts = np.histogram(drawn, 50, (0, 1))[0]
    assert ((counts - 400) ** 2 / 400).sum() < 49 + 4 * np.sqrt(98)
    for other in (drawn[:, 1:], drawn[1:]):
        of = drawn[: len(other), : other.shape[1]]
        assert abs(np.corrcoef(of.ravel(), other.ravel())[0, 1]) < 4 / np.sqrt(other.size)


# One draw


@given(seeds, shares)
def test_the_expected_cost_is_the_budget(seed: int, share: float) -> None:
    p, cost = dropped(seed)
    budget = share * cost.sum()
    done = draw(p, cost, budget, np.full(len(p), 0.5))
    assert done.expected == pytest.approx(min(budget, cost.sum()), rel=1e-9)
    assert done.expected == pytest.approx(float(done.pi @ cost))


@given(seeds, shares)
def test_nobody_is_out_of_reach_and_the_promising_and_cheap_are_reached_first(seed: int, share: float) -> None:
    p, cost = dropped(seed)
    pi = draw(p, cost, share * cost.sum(), np.full(len(p), 0.5)).pi
    assert (pi >= min(FLOOR * share, 1) * (1 - 1e-12)).all() and (pi <= 1).all()
    merit = np.sqrt(np.maximum(p, MIN_P_HIT) / cost)
    order = np.argsort(merit)
    assert (np.diff(pi[order]) >= -1e-12).all()
    free = (pi > pi.min() * (1 + 1e-9)) & (pi < 1)
    assert pi[free] == pytest.approx(merit[free] * (pi[free] / merit[free]).mean() if free.any() else [])


def test_with_a_right_law_missed_hits_are_counted_better_than_by_an_even_audit() -> None:
    rng = np.random.default_rng(5)
    p, cost = rng.beta(0.1, 2, 2000), np.exp(rng.normal(0, 0.7, 2000))
    budget = 0.05 * cost.sum()

    def variance(pi: Array) -> float:
        return float((p * (1 - pi) / pi).sum())

    ours = propensities(p, cost, budget, np.zeros(2000))
    assert variance(ours) < 0.6 * variance(np.full(2000, 0.05))


def test_without_a_floor_no_other_audit_of_the_same_cost_has_less_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sciagent.scheduling.audit_of_dropped.FLOOR", 1e-6)
    rng = np.random.default_rng(6)
    p, cost = rng.beta(0.5, 4, 300), np.exp(rng.normal(0, 0.7, 300))
    pi = propensities(p, cost, 0.1 * cost.sum(), np.zeros(300))
    least = (p / pi).sum()
    for _ in range(200):
        i, j = rng.choice(300, 2, replace=False)
        other = pi.copy()
        other[i] += 1e-3 / cost[i]
        other[j] -= 1e-3 / cost[j]
        if other[j] > 0 and other[i] <= 1:
            assert (p / other).sum() > least


def test_the_surest_to_be_drawn_come_first() -> None:
    lot = np.array([0.09, 0.01, 0.9, 0.05])
    done = draw(np.full(4, 0.2), np.ones(4), 0.4, lot)
    assert done.places.tolist() == [1, 3, 0]


# Draws in sequence


@given(seeds, st.lists(st.tuples(st.integers(1, 20), shares), min_size=1, max_size=5))
def test_in_any_sequence_a_candidate_is_drawn_once_and_just_when_its_propensity_has_reached_its_lot(
    seed: int, calls: list[tuple[int, float]]
) -> None:
    n = sum(some for some, _ in calls)
    p, cost = dropped(seed, max(n, 2))
    lot = lots(seed, map(str, range(len(p))))
    before, drawn, size, budget = np.zeros(0), list[int](), 0, 0.0
    for some, share in calls:
        size, budget = size + some, budget + share * cost.mean()
        before = np.concatenate([before, np.zeros(some)])
        done = draw(p[:size], cost[:size], budget, lot[:size], before)
        assert (done.pi >= before).all() and (done.pi > 0).all() and (done.pi <= 1).all()
        drawn += done.places.tolist()
        before = done.pi
    assert sorted(drawn) == np.flatnonzero(lot[:size] < before).tolist()


def test_candidates_dropped_over_time_are_audited_as_often_as_the_last_propensity_says() -> None:
    """Sixty candidates dropped in three lots, each with its own budget: 3,000 seeds."""
    p, cost = dropped(11)
    keys = [f"c{i}" for i in range(60)]
    times = np.zeros(60)
    pi = np.zeros(60)
    for seed in range(3000):
        lot, before = lots(seed, keys), np.zeros(0)
        for size, share in ((20, 0.3), (45, 0.15), (60, 0.2)):
            before = np.concatenate([before, np.zeros(size - len(before))])
            done = draw(p[:size], cost[:size], share * cost[:size].sum(), lot[:size], before)
            times[done.places] += 1
            before = done.pi
        pi = before
    sure = pi == 1
    assert (times[sure] == 3000).all() and not sure.all()
    z = (times - 3000 * pi)[~sure] / np.sqrt(3000 * pi * (1 - pi))[~sure]
    assert np.abs(z).max() < 4.5 and (z**2).sum() < len(z) + 4 * np.sqrt(2 * len(z))


def test_a_growing_budget_in_many_small_steps_ends_where_one_step_would() -> None:
    p, cost = dropped(3)
    whole = 0.2 * cost.sum()
    before = np.zeros(60)
    for part in np.linspace(0.02, 1, 50):
        before = propensities(p, cost, part * whole, before)
    assert before == pytest.approx(propensities(p, cost, whole, np.zeros(60)), rel=1e-9)


def test_where_old_propensities_claim_more_than_the_budget_new_candidates_still_get_the_floor() -> None:
    early = draw(np.full(4, 0.1), np.ones(4), 3.0, np.full(4, 0.5))
    done = draw(np.full(104, 0.1), np.ones(104), 3.2, np.full(104, 0.5), np.concatenate([early.pi, np.zeros(100)]))
    assert (done.pi[:4] == early.pi).all()
    assert done.pi[4:] == pytest.approx(FLOOR * 3.2 / 104)
    assert done.expected > 3.2


def test_nobody_dropped_nobody_drawn() -> None:
    done = draw(np.zeros(0), np.zeros(0), 1.0, np.zeros(0))
    assert len(done.pi) == len(done.places) == 0 and done.expected == 0
