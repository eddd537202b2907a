"""Roles of policies: names such as `production`, each of which points to a version, the policy of its last row."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.errors import UnknownNameError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.learning import policies
from sciagent.store.learning.policies import PolicyRow

_R = t.policy_role.c


class RoleChange(NamedTuple):
    """One row: a promotion, or a rollback that takes one back."""

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
    points = current(connection)
    if named in points:
        return policies.get(connection, points[named].policy_id)
    try:
        return policies.find(connection, named)
    except UnknownNameError:
        names = [row.name.partition("@")[0] for row in policies.rows(connection)]
        raise UnknownNameError("role or policy", named, {*points, *names}) from None


def promote(
    connection: Connection, role: str, policy_id: int, *, evaluation_id: int | None, who: str, why: str
) -> RoleChange:
    """Lets a role point to a policy. Raises UsageError if it does already."""
    before = changes(connection, role)
    if before and before[-1].policy_id == policy_id:
        raise UsageError(f'"{role}" points to this policy already')
    return _append(connection, role, policy_id, None, evaluation_id, who, why)


def rollback(connection: Connection, role: str, *, who: str, why: str) -> RoleChange:
    """Takes back the last promotion of a role that was not taken back. Raises UnknownNameError, and UsageError if there
    is no version before."""
    history = changes(connection, role)
    if not history:
        raise UnknownNameError("role", role, current(connection))
    stack: list[RoleChange] = []
    for change in history:
        if change.undoes_id is None:
            stack.append(change)
        else:
            stack.pop()
    if len(stack) < 2:
        raise UsageError(f'"{role}" has had no version before this one')
    return _append(connection, role, stack[-2].policy_id, stack[-1].id, stack[-2].evaluation_id, who, why)


def _append(
    connection: Connection,
    role: str,
    policy_id: int,
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
