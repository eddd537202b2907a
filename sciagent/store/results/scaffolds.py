"""Families of candidates in the ledger, such as the scaffolds of molecules, and the latest candidates. Every query is
served by an index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.database.parts import WHOLE, CandidatePart

_C = t.candidate.c


def known(connection: Connection, hashes: Iterable[str]) -> set[str]:
    """Returns those of the hashes of families that occur in the ledger."""
    query = sa.select(_C.scaffold_hash).where(among(connection, _C.scaffold_hash, sorted(set(hashes)))).distinct()
    return set(connection.execute(query).scalars())


def without(connection: Connection, limit: int) -> list[tuple[int, str, str]]:
    """(id, kind, text) of candidates whose family is not computed yet, oldest first."""
    query = sa.select(_C.id, _C.kind, _C.text).where(_C.scaffold_hash.is_(None)).order_by(_C.id).limit(limit)
    return [(id_, kind, text) for id_, kind, text in connection.execute(query)]


def write(connection: Connection, hashes: Mapping[int, str]) -> None:
    """Store families. hashes: {candidate id: hash of the family}."""
    if hashes:
        statement = t.candidate.update().where(_C.id == sa.bindparam("of")).values(scaffold_hash=sa.bindparam("is_"))
        connection.execute(statement, [{"of": id_, "is_": hashes[id_]} for id_ in sorted(hashes)])


def latest(connection: Connection, kind: str, n: int) -> dict[int, str]:
    """{ledger id: text} of the candidates of a kind among the last n of the ledger, latest first."""
    query = sa.select(_C.id, _C.kind, _C.text).order_by(_C.id.desc()).limit(n)
    return {id_: text for id_, its, text in connection.execute(query) if its == kind}


def alike(connection: Connection, campaign_id: int, family_hash: str, formula: str, most: int) -> list[int]:
    """Ledger ids of the first candidates of a campaign with this family and formula."""
    cc = t.campaign_candidate.c
    query = sa.select(_C.id).join(t.campaign_candidate, cc.candidate_id == _C.id)
    query = query.where(_C.scaffold_hash == family_hash, _C.formula == formula, cc.campaign_id == campaign_id)
    return list(connection.execute(query.order_by(_C.id).limit(most)).scalars())


class Tried(NamedTuple):
    """The candidates that share a family."""

    n: int
    dropped: int
    """Number of candidates that a rung rejected."""
    hits: int
    best: float | None
    """The best score; None if no candidate has one."""
    first: int
    """Ledger id of the first candidate."""
    text: str
    """Its text."""


def tried(connection: Connection, campaign_id: int, latest: int, most: int, part: CandidatePart = WHOLE) -> list[Tried]:
    """Results of the latest candidates in a part of a campaign by family: the most frequent ones, sorted by best
    score."""
    cc = t.campaign_candidate.c
    recent = (
        sa.select(cc.candidate_id, cc.standing, cc.is_hit, cc.score)
        .where(cc.campaign_id == campaign_id, part.condition)
        .order_by(cc.seq.desc())
        .limit(latest)
        .subquery()
    )
    r, n = recent.c, sa.func.count()
    grouped = (
        sa.select(
            n.label("n"),
            sa.func.sum(sa.case((r.standing == "dropped", 1), else_=0)).label("dropped"),
            sa.func.sum(sa.case((r.is_hit, 1), else_=0)).label("hits"),
            sa.func.max(r.score).label("best"),
            sa.func.min(r.candidate_id).label("first"),
        )
        .select_from(recent.join(t.candidate, _C.id == r.candidate_id))
        .where(_C.scaffold_hash.is_not(None))
        .group_by(_C.scaffold_hash)
        .order_by(n.desc(), sa.func.min(r.candidate_id))
        .limit(most)
        .subquery()
    )
    g = grouped.c
    query = sa.select(g.n, g.dropped, g.hits, g.best, g.first, _C.text).join(t.candidate, _C.id == g.first)
    rows = connection.execute(query.order_by(g.best.desc().nulls_last(), g.n.desc(), g.first)).all()
    return [Tried(*row) for row in rows]
