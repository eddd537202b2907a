"""Policies in the ledger: models under the hash of their weights. A row is written once and never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.campaigns.policies import PolicyIdentity
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, id_of_hash
from sciagent.store.database.clock import db_now


def enter(
    connection: Connection,
    identity: PolicyIdentity,
    *,
    parent_id: int | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> int:
    """Returns the id of the policy, and writes its row if it is new.

    parent_id: the policy from which it was trained. recipe: how it was trained. A known policy keeps those of its row.
    """
    values: dict[str, Any] = {
        "name": identity.name[:200],
        "base_sha256": identity.base_sha256,
        "adapter_sha256": identity.adapter_sha256,
        "source": identity.source,
        "at": db_now(connection),
    }
    values |= {"parent_id": parent_id} if parent_id is not None else {}
    values |= {"recipe": dict(recipe)} if recipe is not None else {}
    return id_of_hash(connection, t.policy, identity.hash, values)


class NamedPolicy(NamedTuple):
    """A policy as an episode names it."""

    name: str
    hash: str | None
    """None if the ledger does not know the weights, as for episodes from before it kept policies."""


def of_episodes(connection: Connection, trajectory_ids: Sequence[int]) -> dict[int, NamedPolicy]:
    """{trajectory id: the policy of its first turn}; episodes without a turn are left out."""
    u = t.turn.c
    query = sa.select(u.trajectory_id, u.policy_version, t.policy.c.hash)
    query = query.select_from(t.turn.outerjoin(t.policy, t.policy.c.id == u.policy_id))
    query = query.where(u.number == 0, among(connection, u.trajectory_id, trajectory_ids))
    return {int(id_): NamedPolicy(name or "unknown", hash_) for id_, name, hash_ in connection.execute(query)}
