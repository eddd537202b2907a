"""The order in which a batch of purchases goes out."""

from __future__ import annotations

import numpy as np

from sciagent.campaign.pricing.purchasing_interface import in_order_of_start
from sciagent.domain.rung_positions_and_tiers import PaidIndex
from sciagent.scheduling.candidate_pool import Purchase

SECONDS = np.array([0.001, 60.0, np.inf])  # the last rung takes money, too: nobody knows how long


def purchases(rung: int, *rows: int) -> list[Purchase]:
    """Most urgent first."""
    return [Purchase(row, PaidIndex(rung), 9.0 - place) for place, row in enumerate(rows)]


def test_what_goes_out_within_seconds_goes_by_rows_and_the_rest_by_urgency() -> None:
    assert [one.row for one in in_order_of_start(purchases(0, 7, 3, 5, 3), SECONDS)] == [3, 3, 5, 7]
    slow = purchases(1, 7, 3, 5)
    assert in_order_of_start(slow, SECONDS) == slow
    pupil = [*purchases(0, 4), *purchases(1, 4, 2)]
    assert in_order_of_start(pupil, SECONDS) == pupil and in_order_of_start([], SECONDS) == []


def test_jobs_that_take_more_than_time_keep_their_order_of_urgency() -> None:
    licensed = purchases(2, 7, 3, 5)
    assert in_order_of_start(licensed, SECONDS) == licensed
    assert [one.row for one in in_order_of_start([*purchases(0, 9, 8), *licensed], SECONDS)] == [8, 9, 7, 3, 5]
