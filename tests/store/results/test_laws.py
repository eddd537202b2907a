"""A law is written once, and comes back as it was."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import laws
from tests.support import rows


def test_a_law_comes_back_and_equal_states_have_one_version(ledger: Ledger) -> None:
    state = {
        "weights": {"σ": 0.1, "b": 1e-300},
        "priced": None,
        "audit": {"passed": [[3, 0.25, 1.5, 0.1234567890123456]], "raised": [[0, 0.5]], "chosen": []},
    }
    with ledger.begin() as connection:
        rows.campaign(connection)
        first = laws.write(connection, 1, state)
        again = laws.write(connection, 1, {name: state[name] for name in reversed(state)})
        other = laws.write(connection, 1, state | {"priced": 1})
    assert first == again != other
    with ledger.read() as connection:
        last = laws.last(connection, 1)
        assert last is not None and last.version == other and last.state == state | {"priced": 1}
        kept = connection.execute(sa.select(t.law.c.state).order_by(t.law.c.id)).scalars().all()
        assert kept == [state, state, state | {"priced": 1}]
