from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.errors import UnknownNameError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import versioned_rewards
from sciagent.store.learning.versioned_rewards import RewardRow
from tests.support.talked import Talker

SPEC = {"prices": {"core_seconds": 0.1}}


def test_a_version_is_read_as_it_was_written_and_cannot_be_changed(ledger: Ledger, tmp_path: Path) -> None:
    made = Talker(ledger, tmp_path)
    trajectory = made.begin("alpha", 1)
    made.say(trajectory, 0, "CCO")
    shown = {"key": "k", "value": None, "cost": {"core_seconds": 2.0}, "settled": False}
    written = [
        RewardRow(trajectory, None, None, None, None, {}, []),
        RewardRow(trajectory, made.turn, -0.25, -0.25, None, {"evidence": None, "cost": -0.25}, [shown]),
    ]
    more = {"spec_hash": "1" * 64, "spec": SPEC, "watermark": 7, "law": None, "guards": {}}
    with ledger.begin() as connection:
        first = versioned_rewards.write_version(connection, made.row.id, **more, previous_id=None)
        versioned_rewards.write(connection, first, written)
        second = versioned_rewards.write_version(connection, made.row.id, **more, previous_id=first)
    with ledger.read() as connection:
        assert versioned_rewards.of_version(connection, first) == written
        last = versioned_rewards.last(connection, made.row.id, "1" * 64)
        assert last is not None
        assert (last.id, last.number, last.previous_id, last.spec) == (second, 1, first, SPEC)
        assert versioned_rewards.places(connection, made.row.id)[made.turn] == (1, 0)
        with pytest.raises(UnknownNameError, match=str(second)):
            versioned_rewards.get(connection, second + 1)
    with pytest.raises(sa.exc.DatabaseError), ledger.begin() as connection:
        connection.execute(sa.update(t.reward).values(value=1.0))
