"""Attempts, their ends, and the watermarks of both."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.domain.states_and_needs import AttemptState
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue import attempts
from sciagent.store.job_queue.attempts import AttemptEnd
from sciagent.store.results import evidence


def row(connection: sa.Connection, id_: int) -> Any:
    return connection.execute(sa.select(t.attempt).where(t.attempt.c.id == id_)).one()


def test_the_cost_of_a_lost_attempt_is_kept_when_its_worker_comes_back(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        lost, open_ = (attempts.begin(connection, "me", campaign_id=None, rung_id=None) for _ in range(2))
        attempts.end_many(connection, [AttemptEnd(lost, AttemptState.LOST, {"core_seconds": 3.0}, 3.0)])
        attempts.mark_end(connection, [lost])
        before = row(connection, lost)
        attempts.end_many(connection, [AttemptEnd(lost, AttemptState.STALE, {"core_seconds": 5.0}, 5.0)])
        attempts.mark_late(connection, {lost: before.cost, open_: {}})
        after = row(connection, lost)
        assert (after.cost, after.cost_at_loss) == ({"core_seconds": 5.0}, {"core_seconds": 3.0})
        assert after.watermark == before.watermark < after.late_watermark == evidence.read_watermark(connection)
        assert row(connection, open_).late_watermark is None, "it had not ended before"
        attempts.mark_late(connection, {})
        assert evidence.read_watermark(connection) == after.late_watermark, "nothing to mark takes no number"


def test_attempts_that_were_made_elsewhere_have_ended(ledger: Ledger) -> None:
    costs = [{"money": float(n)} for n in range(1, 6)]
    with ledger.begin() as connection:
        ids = attempts.write_ended(connection, "import by Ada", costs)
        assert ids == sorted(ids) and attempts.write_ended(connection, "me", []) == []
        assert [row(connection, id_).cost for id_ in ids] == costs
        with pytest.raises(ValueError, match="done"):
            attempts.end_many(connection, [AttemptEnd(ids[0], AttemptState.FAILED, {}, None)])
