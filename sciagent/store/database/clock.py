"""One clock for everybody: the database's."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_asked: WeakKeyDictionary[Connection, tuple[datetime, float]] = WeakKeyDictionary()  # and when, by our own clock


def db_now(connection: Connection) -> datetime:
    """UTC. PostgreSQL's own clock, asked once a transaction and counted on from there; for SQLite the machine's, since
    all its users share it."""
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    if connection not in _asked:
        return set_now(connection, connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one())
    at, then = _asked[connection]
    return at + timedelta(seconds=time.monotonic() - then)


def set_now(connection: Connection, at: datetime) -> datetime:
    """What PostgreSQL's clock says, for who has heard it beside something else."""
    _asked[connection] = at.astimezone(UTC), time.monotonic()
    return _asked[connection][0]
