"""Rows of properties and levels, entered when a value is recorded for the first time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import Measured
from sciagent.domain.properties import Level, properties
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.candidates import insert_or_ignore


def ids_of_names(connection: Connection, measured: Sequence[Measured]) -> tuple[dict[str, int], dict[Level, int]]:
    """({property: id}, {level: id}). A single statement reads all that are known; the rest are entered."""
    named, at = sorted({m.property for m in measured}), {level.hash: level for level in {m.level for m in measured}}
    if not named:
        return {}, {}
    p, level = t.property_.c, t.level.c
    query = sa.union_all(
        sa.select(sa.literal(True), p.name, p.id).where(among(connection, p.name, named)),
        sa.select(sa.literal(False), level.hash, level.id).where(among(connection, level.hash, sorted(at))),
    )
    known = {(bool(is_name), key): int(id_) for is_name, key, id_ in connection.execute(query).all()}
    property_ids = {name: known.get((True, name)) or _property_id(connection, name) for name in named}
    return property_ids, {at[key]: known.get((False, key)) or _level_id(connection, at[key]) for key in sorted(at)}


def _property_id(connection: Connection, name: str) -> int:
    prop = properties()[name]
    query = sa.select(t.property_.c.id).where(t.property_.c.name == name)
    if (id_ := connection.execute(query).scalar()) is None:
        row = {"name": name, "unit": prop.unit, "kind": prop.kind, "description": prop.description}
        insert_or_ignore(connection, t.property_, [row])
        id_ = connection.execute(query).scalar_one()
    return int(id_)


def _level_id(connection: Connection, level: Level) -> int:
    query = sa.select(t.level.c.id).where(t.level.c.hash == level.hash)
    if (id_ := connection.execute(query).scalar()) is None:
        insert_or_ignore(connection, t.level, [{"hash": level.hash, "label": level.label, "spec": asdict(level)}])
        id_ = connection.execute(query).scalar_one()
    return int(id_)
