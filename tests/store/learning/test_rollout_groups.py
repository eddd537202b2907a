"""Groups of rollouts in the ledger: numbered in their campaign, and changed in nothing but their state."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.store.campaign_state import proposer_trajectories
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles, rollout_groups
from tests.support import rows


def test_groups_are_numbered_and_only_their_state_changes(ledger: Ledger) -> None:
    with ledger.begin() as connection:
        campaign_id = rows.campaign(connection).id
        pins = {
            "tool_set_id": policies_and_roles.enter_tool_set(connection, {"tools": []}),
            "policy_id": policies_and_roles.enter(connection, PolicyIdentity("tiny", "in process", "a" * 64)),
        }
        seen = {
            "task": {"turns": 2},
            "snapshot": {"board": []},
            "watermark": 7,
            "seq": 3,
            "opening": [{"role": "user"}],
        }
        made = [
            rollout_groups.open_(connection, campaign_id, **seen, **pins, seed=seed, size=2, purpose="rollout")
            for seed in (5, 6)
        ]
        for sibling in (1, 0):
            proposer_trajectories.open_(
                connection,
                campaign_id,
                10 + sibling,
                proposer="tiny",
                settings={},
                seed=sibling,
                purpose="rollout",
                group_id=made[0].id,
                sibling=sibling,
            )
        rollout_groups.set_state(connection, made[0].id, "broken")
    with ledger.read() as connection:
        assert [row.number for row in rollout_groups.of_campaign(connection, campaign_id)] == [1, 2]
        assert rollout_groups.of_campaign(connection, campaign_id, "open") == [made[1]]
        assert made[1].snapshot == {"board": []} and (made[1].snapshot_watermark, made[1].snapshot_seq) == (7, 3)
        assert [row.number for row in rollout_groups.siblings(connection, made[0].id)] == [10, 11]
        assert rollout_groups.counts(connection, [made[0].id]) == {
            made[0].id: rollout_groups.GroupCounts("broken", 0, 0, 0)
        }
    with pytest.raises(sa.exc.DatabaseError), ledger.begin() as connection:
        connection.execute(sa.update(t.rollout_group).values(snapshot={}))
