"""Policies in the ledger: models under the hash of their weights, their roles, and the tools that they were offered.

A row of a policy is written once and never changed. A role is a name such as `production` that points to the policy
named by the latest row of the role in `policy_role`. A tool set holds the tools as they were offered in a turn, and all
that restricted the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.domain.policy_identity import PolicyIdentity
from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, enter_by_hash, insert_or_ignore
from sciagent.store.database.engine import db_now


def enter(
    connection: Connection,
    identity: PolicyIdentity,
    *,
    parent_id: int | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> int:
    """Returns the id of the policy, and writes its row if it is new.

    parent_id: the policy from which it was trained. recipe: how it was trained. A known policy keeps the
    parent and the recipe of its row.
    """
    values: dict[str, Any] = {
        "name": identity.name[:200],
        "base_sha256": identity.base_sha256,
        "adapter_sha256": identity.adapter_sha256,
        "source": identity.source,
        "at": db_now(connection),
    }
    if parent_id is not None:
        values["parent_id"] = parent_id
    if recipe is not None:
        values["recipe"] = dict(recipe)
    return enter_by_hash(connection, t.policy, identity.hash, values)


class PolicyRow(NamedTuple):
    """One row of the table `policy`."""

    id: int
    name: str
    """Name and hash, such as `tiny@93a1…`."""
    base_sha256: str | None
    """None for a script, and for a server's model whose weights are unknown."""
    adapter_sha256: str | None
    parent_id: int | None
    recipe: Mapping[str, Any] | None
    source: str
    at: datetime


def rows(connection: Connection) -> list[PolicyRow]:
    """All policies, oldest first."""
    columns = [t.policy.c[name] for name in PolicyRow._fields]
    return [PolicyRow(*row) for row in connection.execute(sa.select(*columns).order_by(t.policy.c.id))]


def get(connection: Connection, policy_id: int) -> PolicyRow:
    """The policy with this id, which is in the ledger."""
    return next(row for row in rows(connection) if row.id == policy_id)


def find(connection: Connection, name: str) -> PolicyRow:
    """The policy of this name, which may be given with its hash or without. Of several policies, whole weights
    come before adapters, then the last one counts. Raises UnknownNameError."""
    known = rows(connection)
    found = [row for row in known if name in (row.name, row.name.partition("@")[0])]
    if not found:
        raise UnknownNameError("policy", name, [row.name for row in known])
    return max(found, key=lambda row: (row.adapter_sha256 is None, row.id))


def pin(connection: Connection, campaign_id: int, proposer: str, named: str, policy_id: int) -> None:
    """Writes the policy of a campaign's proposer; one that is written already stays.

    named: the role or the name by which the campaign's file calls the policy.
    """
    values = {"campaign_id": campaign_id, "proposer": proposer, "named": named, "policy_id": policy_id}
    insert_or_ignore(connection, t.campaign_policy, [values | {"at": db_now(connection)}])


def pinned(connection: Connection, campaign_id: int, proposer: str) -> PolicyRow | None:
    """The policy of a campaign's proposer; None if the campaign has not started."""
    c = t.campaign_policy.c
    query = sa.select(c.policy_id).where(c.campaign_id == campaign_id, c.proposer == proposer)
    id_ = connection.execute(query).scalar()
    return None if id_ is None else get(connection, id_)


class NamedPolicy(NamedTuple):
    """A policy as an episode names it."""

    name: str
    """The turn's `policy_version`: `name@hash`, or `unknown`."""
    hash: str | None
    """None if a script, and no model, made the first turn."""


def of_episodes(connection: Connection, trajectory_ids: Sequence[int]) -> dict[int, NamedPolicy]:
    """{trajectory id: the policy of its first turn}; episodes without a turn are left out."""
    turn = t.turn.c
    query = sa.select(turn.trajectory_id, turn.policy_version, t.policy.c.hash)
    query = query.select_from(t.turn.outerjoin(t.policy, t.policy.c.id == turn.policy_id))
    query = query.where(turn.number == 0, among(connection, turn.trajectory_id, trajectory_ids))
    return {int(id_): NamedPolicy(name or "unknown", hash_) for id_, name, hash_ in connection.execute(query)}


_R = t.policy_role.c


class RoleChange(NamedTuple):
    """One row of the table `policy_role`: a promotion, or a rollback that takes back a promotion."""

    id: int
    role: str
    policy_id: int
    """The policy that the role points to from then on."""
    undoes_id: int | None
    """The promotion that a rollback takes back; None for a promotion."""
    evaluation_id: int | None
    who: str
    why: str
    at: datetime


def changes(connection: Connection, role: str | None = None) -> list[RoleChange]:
    """All changes of a role, oldest first; None: of all roles."""
    query = sa.select(*(_R[name] for name in RoleChange._fields)).order_by(_R.id)
    query = query if role is None else query.where(_R.role == role)
    return [RoleChange(*row) for row in connection.execute(query)]


def current(connection: Connection) -> dict[str, RoleChange]:
    """{role: its last change}."""
    return {change.role: change for change in changes(connection)}


def resolved(connection: Connection, named: str) -> PolicyRow:
    """The policy that a role points to, or that has this name. Raises UnknownNameError."""
    last_changes = current(connection)
    if named in last_changes:
        return get(connection, last_changes[named].policy_id)
    try:
        return find(connection, named)
    except UnknownNameError:
        names = [row.name.partition("@")[0] for row in rows(connection)]
        raise UnknownNameError("role or policy", named, {*last_changes, *names}) from None


def promote(
    connection: Connection, role: str, policy_id: int, *, evaluation_id: int | None, who: str, why: str
) -> RoleChange:
    """Lets a role point to a policy. Raises UsageError if the role points to this policy already."""
    before = changes(connection, role)
    if before and before[-1].policy_id == policy_id:
        raise UsageError(f'"{role}" points to this policy already')
    return _append(connection, role, policy_id, undoes_id=None, evaluation_id=evaluation_id, who=who, why=why)


def rollback(connection: Connection, role: str, *, who: str, why: str) -> RoleChange:
    """Takes back the last promotion of a role that was not taken back. Raises UnknownNameError, and UsageError if there
    is no version before."""
    history = changes(connection, role)
    if not history:
        raise UnknownNameError("role", role, current(connection))
    promotions: list[RoleChange] = []  # promotions that no rollback has taken back
    for change in history:
        if change.undoes_id is None:
            promotions.append(change)
        else:
            promotions.pop()
    if len(promotions) < 2:
        raise UsageError(f'"{role}" has had no version before this one')
    last = promotions[-1]
    previous = promotions[-2]
    return _append(
        connection, role, previous.policy_id, undoes_id=last.id, evaluation_id=previous.evaluation_id, who=who, why=why
    )


def _append(
    connection: Connection,
    role: str,
    policy_id: int,
    *,
    undoes_id: int | None,
    evaluation_id: int | None,
    who: str,
    why: str,
) -> RoleChange:
    values = {
        "role": role,
        "policy_id": policy_id,
        "undoes_id": undoes_id,
        "evaluation_id": evaluation_id,
        "who": who,
        "why": why,
        "at": db_now(connection),
    }
    connection.execute(sa.insert(t.policy_role).values(values))
    return changes(connection, role)[-1]


def enter_tool_set(connection: Connection, content: Mapping[str, Any]) -> int:
    """Returns the id of the tool set, and writes its row if it is new."""
    return enter_by_hash(connection, t.tool_set, content_hash(dict(content)), {"content": dict(content)})


def tool_set_content(connection: Connection, tool_set_id: int) -> dict[str, Any]:
    return dict(connection.execute(sa.select(t.tool_set.c.content).where(t.tool_set.c.id == tool_set_id)).scalar_one())
