"""Comparisons: values of the same candidates from two rungs, or imported and from a rung; what two campaigns share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.comparison import SharedCandidates, ValueSpread
from sciagent.domain.answers.values import CandidateName
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.evidence import IMPORT
from sciagent.store.views.report_candidates import of_rung

_CC = t.campaign_candidate.c
CHUNK = 500
FIRST = 10  # number of shared hits that are named


class Replicates(NamedTuple):
    """One source's values of one property of a candidate, at one level, in the property's canonical unit."""

    level_id: int
    values: list[tuple[float, float | None]]
    """(value, standard uncertainty or None if unknown) of each replicate."""
    is_censored: bool
    """Whether one of the values is only a limit."""


def pairs(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, property_name: str
) -> Iterator[tuple[Replicates, Replicates, bool]]:
    """Yields (values of `lower`, values of `upper`, whether it is a hit) for candidates with values of both sources.

    lower: a rung, or None for imported values; these count beside all values of `upper`, whichever campaign paid for
    them. A candidate has one pair for each combination of levels.
    """
    e = t.current_evidence.c
    from_files = sa.exists().where(e.candidate_id == _CC.candidate_id, e.verifier == IMPORT)
    candidates = sa.select(_CC.candidate_id, _CC.is_hit).where(
        _CC.campaign_id == row.id,
        _CC.is_hit.in_([True, False]),
        from_files if lower is None else _CC.depth >= upper.position,
    )
    for rows in connection.execute(candidates, execution_options={"yield_per": CHUNK}).partitions():
        hits = dict(map(tuple, rows))
        xs = _replicates(connection, lower, property_name, list(hits))
        for candidate_id, ys in _replicates(connection, upper, property_name, list(xs)).items():
            for x, y in product(xs[candidate_id], ys):
                yield x, y, bool(hits[candidate_id])


def _replicates(
    connection: Connection, rung: RungRow | None, property_name: str, ids: Sequence[int]
) -> dict[int, list[Replicates]]:
    """Current values of a rung, or imported values, by candidate.

    There are two queries, since for a single one the database may first read every value of the property.
    """
    e, q, p = t.current_evidence.c, t.quantity.c, t.property_.c
    of_source = (e.verifier == IMPORT,) if rung is None else of_rung(rung)
    evidence = sa.select(e.id, e.candidate_id).where(among(connection, e.candidate_id, ids), *of_source)
    owner = dict(map(tuple, connection.execute(evidence.order_by(e.id))))
    values = (
        sa.select(q.evidence_id, q.level_id, q.value, q.uncertainty, q.censoring)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .where(among(connection, q.evidence_id, list(owner)))
        .order_by(q.evidence_id, q.id)
    )
    groups: dict[int, dict[int, list[Any]]] = {}
    for evidence_id, level_id, *value in connection.execute(values):
        groups.setdefault(owner[evidence_id], {}).setdefault(level_id, []).append(value)
    return {
        candidate_id: [
            Replicates(level_id, [(v, u) for v, u, _ in values], any(censoring != "none" for *_, censoring in values))
            for level_id, values in by_level.items()
        ]
        for candidate_id, by_level in groups.items()
    }


def imported_properties(connection: Connection, row: CampaignRow) -> list[str]:
    """Names of the properties for which candidates of the campaign have imported values."""
    e, q, p = t.current_evidence.c, t.quantity.c, t.property_.c
    query = (
        sa.select(p.name)
        .distinct()
        .select_from(t.campaign_candidate)
        .join(t.current_evidence, sa.and_(e.candidate_id == _CC.candidate_id, e.verifier == IMPORT))
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, p.id == q.property_id)
        .where(_CC.campaign_id == row.id)
        .order_by(p.name)
    )
    return list(connection.execute(query).scalars())


def levels(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    """{level id: label}."""
    query = sa.select(t.level.c.id, t.level.c.label).where(t.level.c.id.in_(ids))
    return dict(map(tuple, connection.execute(query)))


def shared(connection: Connection, first: CampaignRow, second: CampaignRow) -> SharedCandidates:
    """The candidates and hits that two campaigns share, and the first of the shared hits."""
    a, b = t.campaign_candidate.alias("a"), t.campaign_candidate.alias("b")
    joined = a.join(b, sa.and_(b.c.candidate_id == a.c.candidate_id, b.c.campaign_id == second.id))
    both_hit = sa.and_(a.c.is_hit, b.c.is_hit)
    sums = (sa.func.coalesce(sa.func.sum(sa.case((hit, 1), else_=0)), 0) for hit in (both_hit, a.c.is_hit, b.c.is_hit))
    counted = sa.select(sa.func.count(), *sums).select_from(joined).where(a.c.campaign_id == first.id)
    n, both, hits_of_first, hits_of_second = connection.execute(counted).one()
    query = (
        sa.select(t.candidate.c.key, t.candidate.c.text)
        .select_from(joined.join(t.candidate, t.candidate.c.id == a.c.candidate_id))
        .where(a.c.campaign_id == first.id, both_hit)
        .order_by(a.c.seq)
        .limit(FIRST)
    )
    return SharedCandidates(
        both=n,
        hits_of_both=both,
        hits_of_first_known_to_second=hits_of_first,
        hits_of_second_known_to_first=hits_of_second,
        shared_hits=tuple(CandidateName(key=key, smiles=text) for key, text in connection.execute(query)),
    )


def spreads(connection: Connection, row: CampaignRow, rung: RungRow, name: str) -> tuple[ValueSpread, ...]:
    """Statistics of a rung's values of a property, by level; usually there is one level.

    Only candidates that the campaign itself took to the rung count; the ledger may have values of others.
    """
    e, q, p, level = t.current_evidence.c, t.quantity.c, t.property_.c, t.level.c
    statistics = (sa.func.count(), sa.func.min(q.value), sa.func.avg(q.value), sa.func.max(q.value))
    query = (
        sa.select(level.label, q.unit, *statistics)
        .select_from(t.campaign_candidate)
        .join(t.current_evidence, e.candidate_id == _CC.candidate_id)
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == name))
        .join(t.level, level.id == q.level_id)
        .where(_CC.campaign_id == row.id, _CC.depth >= rung.position, *of_rung(rung), q.censoring == "none")
        .group_by(level.label, q.unit)
    )
    fit = rung.fits.get(name)
    return tuple(
        ValueSpread(
            level=fit.level_of(label) if fit else label,
            unit=unit,
            n=n,
            **{
                key: fit.value(value) if fit else value for key, value in (("low", low), ("mean", mean), ("high", high))
            },
        )
        for label, unit, n, low, mean, high in connection.execute(query)
    )
