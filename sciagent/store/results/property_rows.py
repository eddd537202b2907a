"""Rows of properties and levels. A row is inserted when a value needs it for the first time."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import asdict

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import Measured
from sciagent.domain.properties import Kind, Level, Property, properties
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.candidates import insert_or_ignore


def ids_of_names(connection: Connection, measured: Sequence[Measured]) -> tuple[dict[str, int], dict[Level, int]]:
    """Returns ({property: id}, {level: id}). A single statement reads the known ones; the others are inserted."""
    names, levels = {m.property for m in measured}, {level.hash: level for level in {m.level for m in measured}}
    known = _known(connection, names, levels.keys()) if measured else {}
    if len(known) < len(names) + len(levels):
        _enter(connection, [properties()[name] for name in sorted(names)], [levels[key] for key in sorted(levels)])
        known = _known(connection, names, levels.keys())
    return {name: known[True, name] for name in names}, {level: known[False, key] for key, level in levels.items()}


def _enter(connection: Connection, new: Sequence[Property], levels: Sequence[Level]) -> None:
    """Insert the rows that the ledger lacks. Both arguments are sorted, so that two writers cannot deadlock."""
    rows = [{"name": p.name, "unit": p.unit, "kind": p.kind, "description": p.description} for p in new]
    insert_or_ignore(connection, t.property_, rows)
    specs = [{"hash": level.hash, "label": level.label, "spec": asdict(level)} for level in levels]
    insert_or_ignore(connection, t.level, specs)


def _known(connection: Connection, names: Set[str], hashes: Set[str]) -> dict[tuple[bool, str], int]:
    """{(True, name of a property) or (False, hash of a level): id}."""
    p, level = t.property_.c, t.level.c
    query = sa.union_all(
        sa.select(sa.literal(True), p.name, p.id).where(among(connection, p.name, sorted(names))),
        sa.select(sa.literal(False), level.hash, level.id).where(among(connection, level.hash, sorted(hashes))),
    )
    return {(bool(is_name), key): id_ for is_name, key, id_ in connection.execute(query).all()}


def know_properties(connection: Connection) -> None:
    """Register properties of the ledger that no package of this process defines, such as those of a notebook."""
    p = t.property_.c
    for name, unit, kind, description in connection.execute(sa.select(p.name, p.unit, p.kind, p.description)):
        if name not in properties():
            properties().add(Property(name, (unit,), description, Kind(kind)), "the ledger")
