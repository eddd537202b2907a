"""One clock for everybody: the database's."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection


def db_now(connection: Connection) -> datetime:
    """UTC. PostgreSQL's own clock; for SQLite the machine's, since all its users share it."""
    if connection.dialect.name == "postgresql":
        return connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one().astimezone(UTC)  # type: ignore[no-any-return]
    return datetime.now(UTC)
