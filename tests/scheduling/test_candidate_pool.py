"""A pool grows, and nothing is lost."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.scheduling.candidate_pool import CandidatePool


def test_candidates_that_arrive_leave_the_others_as_they_were() -> None:
    pool = CandidatePool(np.array([[1.0, np.nan]]), np.array([[True, False]]), np.array([[1.0, 10.0]]))
    assert pool.out.tolist() == [False]
    pool.out[0] = True
    pool.add(np.array([[2.0, 20.0], [3.0, 30.0]]))
    assert pool.scores[0, 0] == 1.0
    assert np.isnan(pool.scores).sum() == 5
    assert pool.closed.tolist() == [[True, False], [False, False], [False, False]]
    assert pool.costs.tolist() == [[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]
    assert pool.out.tolist() == [True, False, False]


def test_many_arrivals_are_rarely_copied_and_never_lost() -> None:
    pool = CandidatePool(np.empty((0, 3)), np.empty((0, 2), dtype=bool), np.empty((0, 2)), (0, 0, 1))
    rng = np.random.default_rng(0)
    costs, rooms = [], set()
    for number in range(400):
        costs.append(rng.random((number % 7, 2)))
        pool.add(costs[-1])
        if len(pool.out):
            pool.scores[-1] = number
        rooms.add(id(pool.scores.base))
    whole = np.vstack(costs)
    assert pool.costs == pytest.approx(whole)
    assert pool.scores.shape == (len(whole), 3)
    assert np.isnan(pool.scores[:, 0]).sum() > 0
    assert np.nanmax(pool.scores) == 399
    assert not pool.closed.any() and len(pool.out) == len(pool.pending) == len(whole)
    assert len(rooms) < 80
    assert pool.scores.base.nbytes < 1.2 * pool.scores.nbytes


def test_an_array_that_was_put_in_another_s_place_stays_there() -> None:
    pool = CandidatePool(np.empty((0, 1)), np.empty((0, 1), dtype=bool), np.empty((0, 1)))
    pool.add(np.ones((3, 1)))
    whole = np.arange(10.0)[:, None]
    pool.costs = whole[:3]
    pool.add(np.full((1, 1), 7.0))
    assert pool.costs[:, 0].tolist() == [0.0, 1.0, 2.0, 7.0]
    assert whole[3] == 3.0, "what lies behind it is not ours"
    assert pool.answered(0).tolist() == [False] * 4
    pool.scores[2] = 1.0
    assert pool.answered(0, np.array([1, 2])).tolist() == [False, True]
