"""The database's clock, which all processes share."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection

_read: WeakKeyDictionary[Connection, tuple[datetime, float]] = WeakKeyDictionary()  # server's time, local clock


def db_now(connection: Connection) -> datetime:
    """The present time in UTC.

    PostgreSQL's clock is read once per transaction; the time since then is counted by the local clock. SQLite uses the
    machine's clock, since all its users are on the same machine.
    """
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    if connection not in _read:
        now = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        _read[connection] = now.astimezone(UTC), time.monotonic()
    at, then = _read[connection]
    return at + timedelta(seconds=time.monotonic() - then)
