"""The database's clock, which all processes share."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database.column_types import UtcDateTime

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


def now_column(connection: Connection) -> sa.ColumnElement[datetime]:
    """The present time for a statement that reads other things, too, so that the clock takes none of its own."""
    if connection.dialect.name != "postgresql":
        return sa.literal(datetime.now(UTC), UtcDateTime())
    return sa.func.clock_timestamp(type_=UtcDateTime())
