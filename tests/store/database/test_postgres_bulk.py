"""What PostgreSQL is given as JSON comes back as it was written."""

from __future__ import annotations

import math

import numpy as np
import sqlalchemy as sa

from sciagent.domain.cost import Cost
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import execute_many
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import spend
from tests.store.database.test_bulk import everything, laid_up
from tests.support import rows


def test_what_a_database_has_no_word_for_is_written_as_sqlalchemy_would(ledger: Ledger) -> None:
    odd = [
        laid_up(key="nan", payload={"x": math.nan, "y": [-math.inf]}),
        laid_up(key="none", payload=None),
        laid_up(key="\U0001f9ea", text="\ud800 \0 \\u0000 \u00e9", payload={"\ud800": "\U0001f9ea"}),
        laid_up(key="cost", payload=Cost(core_seconds=np.float64(1.5))),
    ]
    with ledger.begin() as connection:
        execute_many(connection, t.candidate, odd)
    mine = everything(ledger)
    with ledger.begin() as connection:
        connection.execute(sa.delete(t.candidate))
        connection.execute(sa.insert(t.candidate), odd)
    assert mine == everything(ledger)


def test_numbers_come_back_to_the_last_digit(ledger: Ledger) -> None:
    values = [0.1 + 0.2, 1e-310, -0.0, 2.0**53 + 1, 1.7976931348623157e308]
    with ledger.begin() as connection:
        rows.campaign(connection)
        for one in values:
            spend.book_many(connection, [spend.Bill(1, None, None, {"core_seconds": one})])
        found = connection.execute(sa.select(t.spend.c.amount).order_by(t.spend.c.id)).scalars().all()
    assert found == [one for one in values if one]
