"""Properties that a ledger holds and no package of this process defines, such as those of a notebook's function."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.properties import Kind, Property, properties
from sciagent.store.database import tables as t


def know_properties(connection: Connection) -> None:
    """Register these properties with the unit that the ledger has."""
    p = t.property_.c
    for name, unit, kind, description in connection.execute(sa.select(p.name, p.unit, p.kind, p.description)):
        if name not in properties():
            properties().add(Property(name, (unit,), description, Kind(kind)), "the ledger")
