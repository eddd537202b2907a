"""Scaffolds of candidates in the ledger, and the candidates that came last. Every question stands on an index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store import tables as t

NONE = ""  # of what has no scaffold by its nature: crystals
CHUNK = 500

_C = t.candidate.c


def known(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Those of the scaffolds that a candidate of the ledger has."""
    wanted, found = sorted(set(hashes)), set[str]()
    for start in range(0, len(wanted), CHUNK):
        query = sa.select(_C.scaffold_hash).where(_C.scaffold_hash.in_(wanted[start : start + CHUNK])).distinct()
        found.update(connection.execute(query).scalars())
    return found


def without(connection: Connection, limit: int) -> list[tuple[int, str, str]]:
    """(id, kind, text) of candidates whose scaffold nobody has worked out yet, oldest first."""
    query = sa.select(_C.id, _C.kind, _C.text).where(_C.scaffold_hash.is_(None)).order_by(_C.id).limit(limit)
    return [(int(id_), kind, text) for id_, kind, text in connection.execute(query)]


def write(connection: Connection, hashes: Mapping[int, str]) -> None:
    """Give candidates, by id, their scaffold."""
    if hashes:
        statement = t.candidate.update().where(_C.id == sa.bindparam("of")).values(scaffold_hash=sa.bindparam("is_"))
        connection.execute(statement, [{"of": id_, "is_": hashes[id_]} for id_ in sorted(hashes)])


def latest(connection: Connection, n: int) -> list[str]:
    """Texts of the molecules among the last n candidates of the ledger, the last one first."""
    query = sa.select(_C.kind, _C.text).order_by(_C.id.desc()).limit(n)
    return [text for kind, text in connection.execute(query) if kind == "molecule"]
