"""Recall and costs of runs made by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sciagent.scheduling.candidate_pool import CandidatePool, Purchase
from sciagent_bench.replay_once import Replay, Truth, simulate
from sciagent_bench.replay_score import Curve, index_order, recall, summarised

# four candidates, two rungs of cost 1 and 10; the exhaustive cost is 40; hits are 0 and 2
TRUTH = Truth(
    np.array([[1.0, 9.0], [2.0, 1.0], [3.0, 8.0], [4.0, 2.0]]),
    np.tile([1.0, 10.0], (4, 1)),
    np.array([True, False, True, False]),
)


def ran(*purchases: tuple[int, int, float]) -> Replay:
    """(candidate, rung, index) each."""
    run = Replay()
    for of, rung, index in purchases:
        run.of.append(of)
        run.rung.append(rung)
        run.index.append(index)
        run.cost.append(float(TRUTH.costs[of, rung]))
        run.hit.append(rung == 1 and bool(TRUTH.hit[of]))
    return run


def test_a_pool_is_read_in_its_own_order() -> None:
    run = ran((0, 0, 0.1), (1, 1, 0.2), (0, 1, 0.9), (2, 1, 0.3))
    curve = Curve.of(run, TRUTH)
    assert curve.spent == pytest.approx([1 / 40, 11 / 40, 21 / 40, 31 / 40])
    assert curve.recall == pytest.approx([0, 0, 0.5, 1])
    assert curve.cost_to(0.5) == pytest.approx(21 / 40)
    assert curve.cost_to(0.51) == pytest.approx(31 / 40)
    assert recall(run, TRUTH) == 1


def test_a_recall_that_was_not_reached_has_no_cost() -> None:
    curve = Curve.of(ran((0, 1, 0.5)), TRUTH)
    assert curve.cost_to(0.5) == pytest.approx(0.25)
    assert curve.cost_to(0.8) is None
    assert Curve.of(ran(), TRUTH).cost_to(0.5) is None


def test_a_streams_purchases_stand_by_falling_index() -> None:
    run = ran((0, 1, 0.3), (1, 1, 0.1), (2, 1, 0.8), (3, 1, 0.2))
    assert list(index_order(run)) == [2, 0, 3, 1]
    curve = Curve.of(run, TRUTH, stream=True)
    assert curve.cost_to(0.5) == pytest.approx(10 / 40)
    assert curve.cost_to(1.0) == pytest.approx(20 / 40)


def test_a_purchase_counts_with_the_smallest_index_of_its_candidate_so_far() -> None:
    """What led to a purchase comes before it, however large the later index was."""
    run = ran((0, 0, 0.2), (0, 1, 0.9), (1, 1, 0.5), (2, 1, 0.1))
    assert list(index_order(run)) == [2, 0, 1, 3]
    assert Curve.of(run, TRUTH, stream=True).cost_to(0.5) == pytest.approx(21 / 40)


def test_infinite_indices_come_first_in_their_order_and_do_not_pull_what_follows_forward() -> None:
    run = ran((0, 0, math.inf), (0, 1, 0.1), (2, 0, math.inf), (2, 1, 0.4))
    assert list(index_order(run)) == [0, 2, 3, 1]
    assert Curve.of(run, TRUTH, stream=True).spent == pytest.approx([1 / 40, 2 / 40, 12 / 40, 22 / 40])


def test_equal_indices_keep_the_runs_order() -> None:
    assert list(index_order(ran((3, 1, 0.2), (1, 1, 0.2), (2, 1, 0.2)))) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(5))
def test_reordering_counts_every_purchase_once(seed: int) -> None:
    rng = np.random.default_rng(seed)
    run = ran(*[(of, rung, float(rng.random())) for of in range(4) for rung in range(2)])
    pool, stream = (Curve.of(run, TRUTH, stream) for stream in (False, True))
    assert stream.spent[-1] == pytest.approx(pool.spent[-1]) == pytest.approx(run.spent / TRUTH.exhaustive)
    assert stream.recall[-1] == pool.recall[-1] == 1
    order = list(index_order(run))
    assert sorted(order) == list(range(8))
    assert all(order.index(2 * of) < order.index(2 * of + 1) for of in range(4)), "a candidate's own order stays"


class InTurn:
    """Buys the terminal rung of one candidate after the other, twice over."""

    def choose(self, pool: CandidatePool, left: float) -> list[Purchase]:
        return [Purchase(of, 1, float(-of)) for of in range(len(pool.out)) for _ in range(2)]


@pytest.mark.parametrize("stream", [0, 2])
def test_a_candidate_that_is_asked_for_twice_is_paid_and_found_once(stream: int) -> None:
    run = simulate(TRUTH, InTurn(), 1.0, stream)
    curve = Curve.of(run, TRUTH, stream > 0)
    assert curve.spent[-1] == pytest.approx(run.spent / 40)
    assert recall(run, TRUTH) == curve.recall[-1] == 1
    assert curve.cost_to(1.0) == pytest.approx(30 / 40)


def test_an_interval_is_students() -> None:
    mean, low, high = summarised([1.0, 2.0, 3.0, 4.0]) or (0, 0, 0)
    half = 3.18245 * np.std([1, 2, 3, 4], ddof=1) / 2  # t of 3 degrees of freedom
    assert (mean, low, high) == pytest.approx((2.5, 2.5 - half, 2.5 + half), abs=1e-4)


def test_one_seed_has_no_interval_and_a_seed_that_did_not_get_there_leaves_no_mean() -> None:
    assert summarised([0.3]) == (0.3, None, None)
    assert summarised([0.3, None, 0.4]) is None
    assert summarised([None]) is None
    assert summarised([]) is None
