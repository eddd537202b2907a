"""Costs in the ledger: what is reserved, booked and given back."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts, reservations_and_bookings
from sciagent.store.job_queue.reservations_and_bookings import Bill


def test_what_is_given_back_is_dated_like_what_was_booked(ledger: Ledger, row: CampaignRow) -> None:
    cost = {"lab_slots": 1.0, "money": 40.0}
    with ledger.begin() as connection:
        first, second = (attempts.begin(connection, "anna", campaign_id=row.id, rung_id=None) for _ in range(2))
        reservations_and_bookings.book_many(
            connection, [Bill(row.id, None, first, cost), Bill(row.id, None, second, cost)]
        )
        reservations_and_bookings.book_opposite(connection, first)
    with ledger.read() as connection:
        s = t.spend.c
        sums = sa.select(s.attempt_id, s.resource, sa.func.sum(s.amount), sa.func.count(s.at.distinct()))
        found = connection.execute(sums.group_by(s.attempt_id, s.resource).order_by(s.attempt_id, s.resource)).all()
    expected = [
        (first, "lab_slots", 0, 1),
        (first, "money", 0, 1),
        (second, "lab_slots", 1, 1),
        (second, "money", 40, 1),
    ]
    assert [tuple(each) for each in found] == expected
