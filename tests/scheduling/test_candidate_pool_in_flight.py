"""Tasks that are out count against a goal."""

from __future__ import annotations

import pytest

from sciagent.scheduling.candidate_pool import tasks_for_missing_hits


@pytest.mark.parametrize(("count", "hits", "latest"), [(2, 0, ""), (10, 0, ""), (10, 5, "0101010101"), (3, 2, "11")])
def test_as_many_tasks_are_out_as_the_share_of_hits_asks_for(count: int, hits: int, latest: str) -> None:
    p, n = (
        (latest.count("1") + 1) / (len(latest) + 2),
        tasks_for_missing_hits(count, hits, [each == "1" for each in latest]),
    )
    assert hits + n * p >= count - 1e-6 > hits + (n - 1) * p


def test_a_goal_that_is_reached_needs_no_more_tasks() -> None:
    assert tasks_for_missing_hits(2, 2, [True, False]) == tasks_for_missing_hits(2, 3, [True]) == 0
