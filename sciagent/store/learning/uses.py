"""Uses of turns in training: which policy was trained on which turn, with which version of rewards."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, insert_or_ignore
from sciagent.store.database.clock import db_now
from sciagent.store.database.feature_tables import training_use


def write(connection: Connection, policy_id: int, reward_version: int, turn_ids: Sequence[int]) -> None:
    """Writes the uses by which a policy came about; those that are in the ledger stay as they are."""
    now = db_now(connection)
    alike = {"policy_id": policy_id, "reward_version_id": reward_version, "at": now}
    insert_or_ignore(connection, training_use, [{**alike, "turn_id": id_} for id_ in turn_ids])


def of_groups(connection: Connection, group_ids: Sequence[int]) -> list[tuple[int, int, int]]:
    """(group id, id of the policy, id of the version of rewards) of each use of a turn of these groups, in order."""
    u, j = training_use.c, t.trajectory.c
    query = sa.select(j.group_id, u.policy_id, u.reward_version_id)
    query = query.select_from(training_use.join(t.turn, t.turn.c.id == u.turn_id).join(t.trajectory))
    rows = connection.execute(query.where(among(connection, j.group_id, group_ids)).order_by(u.id))
    return [(int(group), int(policy), int(version)) for group, policy, version in rows]
