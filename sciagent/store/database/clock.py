"""The database's clock, which all processes share."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_asked: WeakKeyDictionary[Connection, tuple[datetime, float]] = WeakKeyDictionary()  # and when, by our own clock


def db_now(connection: Connection) -> datetime:
    """The time in UTC.

    PostgreSQL's own clock, read once per transaction and counted on from there; for SQLite the machine's clock, since
    all its users are on the same machine.
    """
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    if connection not in _asked:
        now = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        _asked[connection] = now.astimezone(UTC), time.monotonic()
    at, then = _asked[connection]
    return at + timedelta(seconds=time.monotonic() - then)
