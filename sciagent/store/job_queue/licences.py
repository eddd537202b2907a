"""Licences: what all workers share, counted by name. How many are in use is what the attempts that run hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain import needs
from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now


@dataclass(frozen=True)
class Licence:
    """total: that may be in use at once. used: by what runs."""

    name: str
    total: int
    used: int
    who: str
    at: datetime


def put(connection: Connection, name: str, total: int, who: str) -> None:
    """So many there are from now on; what runs is left to finish. Raises ValueError for a name or a number that cannot
    be."""
    needs.check({name: max(total, 1)})
    if name in (needs.CORES, needs.GPU):
        raise ValueError(f"{name} belong to a worker: sciagent worker says how many it has")
    values = {"total": total, "who": who, "at": db_now(connection)}
    changed = connection.execute(sa.update(t.licence).where(t.licence.c.name == name).values(values))
    if not changed.rowcount:
        connection.execute(sa.insert(t.licence).values(name=name, **values))


def remove(connection: Connection, name: str) -> bool:
    """It is no licence of the ledger any more; False where it was none."""
    return connection.execute(sa.delete(t.licence).where(t.licence.c.name == name)).rowcount == 1


def every(connection: Connection) -> list[Licence]:
    """All there are, by name."""
    c = t.licence.c
    found = connection.execute(sa.select(c.name, c.total, c.who, c.at).order_by(c.name)).all()
    used = in_use(live(connection)) if found else {}
    return [Licence(one.name, one.total, used.get(one.name, 0), one.who, one.at) for one in found]


def totals(connection: Connection) -> dict[str, int]:
    return {str(name): int(n) for name, n in connection.execute(sa.select(t.licence.c.name, t.licence.c.total)).all()}


def locked(connection: Connection, names: Sequence[str]) -> dict[str, int]:
    """How many there are of those among these names that are licences. Nobody else counts them until the transaction
    ends."""
    c = t.licence.c
    query = sa.select(c.name, c.total).where(c.name.in_(names)).order_by(c.name).with_for_update()
    return {str(name): int(n) for name, n in connection.execute(query).all()} if names else {}


def live(connection: Connection) -> list[tuple[str, Mapping[str, Any]]]:
    """(owner, what it holds) of each attempt that runs and holds more than a core."""
    a = t.attempt.c
    query = sa.select(a.owner, a.holds).where(a.holds.is_not(None), a.ended_at.is_(None))
    return [(str(owner), dict(holds)) for owner, holds in connection.execute(query).all()]


def in_use(held: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, int]:
    """{name: how many} of all that is held."""
    found = dict[str, int]()
    for _, holds in held:
        for name, n in holds.items():
            found[name] = found.get(name, 0) + (len(n) if isinstance(n, list) else int(n))
    return found
