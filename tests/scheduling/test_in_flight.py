"""Tasks that are out count against a goal."""

from __future__ import annotations

import math

import pytest

from sciagent.scheduling.in_flight import enough


@pytest.mark.parametrize(("count", "hits", "verified"), [(2, 0, 0), (10, 0, 0), (10, 5, 10), (1, 0, 20), (3, 2, 2)])
def test_as_many_tasks_are_out_as_are_likely_to_bring_the_missing_hits(count: int, hits: int, verified: int) -> None:
    p = (hits + 1) / (verified + 2)

    def low(n: int) -> float:
        """Hits after n tasks, less one standard deviation."""
        return hits + n * p - math.sqrt(n * p * (1 - p))

    n = enough(count, hits, verified)
    assert low(n) >= count - 1e-6 > low(n - 1)


def test_a_goal_that_is_reached_needs_no_more_tasks() -> None:
    assert enough(2, 2, 5) == enough(2, 3, 5) == 0
