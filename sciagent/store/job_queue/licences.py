"""Licences: counted resources that all workers share. The number in use is the sum over running attempts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs import needs
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now


@dataclass(frozen=True)
class Licence:
    """A licence, and how many of it running attempts use."""

    name: str
    total: int
    """How many may be in use at once."""
    used: int
    who: str
    """The person who set the total last."""
    at: datetime
    """When the total was set."""


def put(connection: Connection, name: str, total: int, who: str) -> None:
    """Set how many of this licence there are; running jobs are left to finish.

    Raises ValueError for an invalid name or number.
    """
    needs.check({name: max(total, 1)})
    if name in (needs.CORES, needs.GPU):
        raise ValueError(f"{name} belong to a worker: sciagent worker says how many it has")
    values = {"total": total, "who": who, "at": db_now(connection)}
    changed = connection.execute(sa.update(t.licence).where(t.licence.c.name == name).values(values))
    if not changed.rowcount:
        connection.execute(sa.insert(t.licence).values(name=name, **values))


def remove(connection: Connection, name: str) -> bool:
    """Remove the licence from the ledger; False where it was not there."""
    return connection.execute(sa.delete(t.licence).where(t.licence.c.name == name)).rowcount == 1


def every(connection: Connection) -> list[Licence]:
    """All licences, sorted by name."""
    c = t.licence.c
    rows = connection.execute(sa.select(c.name, c.total, c.who, c.at).order_by(c.name)).all()
    used = in_use(live(connection)) if rows else {}
    return [Licence(row.name, row.total, used.get(row.name, 0), row.who, row.at) for row in rows]


def totals(connection: Connection) -> dict[str, int]:
    return {str(name): int(n) for name, n in connection.execute(sa.select(t.licence.c.name, t.licence.c.total)).all()}


def locked(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """{licence: total} of the names that are licences, with their rows locked until the transaction ends."""
    c = t.licence.c
    query = sa.select(c.name, c.total).where(c.name.in_(names)).order_by(c.name).with_for_update()
    return {str(name): int(n) for name, n in connection.execute(query).all()} if names else {}


def live(connection: Connection) -> list[tuple[str, Mapping[str, Any]]]:
    """(lease owner, resources held) of each running attempt that holds more than a core."""
    a = t.attempt.c
    query = sa.select(a.owner, a.holds).where(a.holds.is_not(None), a.ended_at.is_(None))
    return [(str(owner), dict(holds)) for owner, holds in connection.execute(query).all()]


def in_use(held: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, int]:
    """{resource: how many} in total. held: (lease owner, resources held) of each attempt."""
    used = dict[str, int]()
    for _, holds in held:
        for name, n in holds.items():
            used[name] = used.get(name, 0) + (len(n) if isinstance(n, list) else int(n))
    return used
