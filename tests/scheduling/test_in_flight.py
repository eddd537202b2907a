"""Tasks that are out count against a goal."""

from __future__ import annotations

import pytest

from sciagent.scheduling.in_flight import enough


@pytest.mark.parametrize(("count", "hits", "verified"), [(2, 0, 0), (10, 0, 0), (10, 5, 10), (1, 0, 20), (3, 2, 2)])
def test_as_many_tasks_are_out_as_the_share_of_hits_asks_for(count: int, hits: int, verified: int) -> None:
    p, n = (hits + 1) / (verified + 2), enough(count, hits, verified)
    assert hits + n * p >= count - 1e-6 > hits + (n - 1) * p


def test_a_goal_that_is_reached_needs_no_more_tasks() -> None:
    assert enough(2, 2, 5) == enough(2, 3, 5) == 0
