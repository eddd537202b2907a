"""Comparisons: values of the same candidates from two rungs, or imported and from a rung; what two campaigns share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.comparison import SharedCandidates, ValueSpread
from sciagent.domain.answers.values import CandidateName
from sciagent.domain.chosen_units import Units, shown_quantity
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.results.evidence import IMPORT
from sciagent.store.results.names import names_of
from sciagent.store.views.candidates import of_rung

_CC = t.campaign_candidate.c
CHUNK = 500
FIRST = 10  # number of shared hits that are named
_LITERAL: sa.ColumnElement[str] = sa.literal_column(
    f"'{IMPORT}'"
)  # the index of imported evidence serves no bound parameter on SQLite


class Replicates(NamedTuple):
    """One source's values of one property of a candidate, at one level, in the unit that the campaign chose."""

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
        xs = _replicates(connection, lower, property_name, list(hits), row.units)
        for candidate_id, ys in _replicates(connection, upper, property_name, list(xs), row.units).items():
            for x, y in product(xs[candidate_id], ys):
                yield x, y, bool(hits[candidate_id])


def _replicates(
    connection: Connection, rung: RungRow | None, property_name: str, ids: Sequence[int], units: Units
) -> dict[int, list[Replicates]]:
    """Current values of a rung, or imported values, by candidate.

    There are two queries, since for a single one the database may first read every value of the property.
    """
    e, q, p = t.current_evidence.c, t.quantity.c, t.property_.c
    of_source = e.verifier == IMPORT if rung is None else of_rung(rung)
    evidence = sa.select(e.id, e.candidate_id).where(among(connection, e.candidate_id, ids), of_source)
    owner = dict(map(tuple, connection.execute(evidence.order_by(e.id))))
    values = (
        sa.select(q.evidence_id, q.level_id, q.value, q.unit, q.uncertainty, q.censoring)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .where(among(connection, q.evidence_id, list(owner)))
        .order_by(q.evidence_id, q.id)
    )
    groups: dict[int, dict[int, list[Quantity]]] = {}
    for evidence_id, level_id, value, unit, spread, censoring in connection.execute(values):
        quantity = shown_quantity(property_name, Quantity(value, unit, spread, Censoring(censoring)), units)
        groups.setdefault(owner[evidence_id], {}).setdefault(level_id, []).append(quantity)
    return {
        candidate_id: [
            Replicates(
                level_id,
                [(q.value, q.uncertainty) for q in values],
                any(q.censoring is not Censoring.NONE for q in values),
            )
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
        .join(t.current_evidence, sa.and_(e.candidate_id == _CC.candidate_id, e.verifier == _LITERAL))
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, p.id == q.property_id)
        .where(_CC.campaign_id == row.id)
        .order_by(p.name)
    )
    return list(connection.execute(query).scalars())


def experimental_levels(connection: Connection, ids: Sequence[int]) -> set[int]:
    """Those of the levels that are experiments: they have neither a basis set nor a computed geometry."""
    rows = connection.execute(sa.select(t.level.c.id, t.level.c.spec).where(t.level.c.id.in_(ids)))
    return {int(id_) for id_, spec in rows if not (spec.get("basis") or spec.get("geometry"))}


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
        sa.select(t.candidate.c.id, t.candidate.c.key, t.candidate.c.kind, t.candidate.c.text)
        .select_from(joined.join(t.candidate, t.candidate.c.id == a.c.candidate_id))
        .where(a.c.campaign_id == first.id, both_hit)
        .order_by(a.c.seq)
        .limit(FIRST)
    )
    hits = connection.execute(query).all()
    names = names_of(connection, [hit.id for hit in hits], [first.id, second.id])
    return SharedCandidates(
        both=n,
        hits_of_both=both,
        hits_of_first_known_to_second=hits_of_first,
        hits_of_second_known_to_first=hits_of_second,
        shared_hits=tuple(
            CandidateName(key=key, kind=kind, text=text, names=names.get(id_, {})) for id_, key, kind, text in hits
        ),
    )


def spreads(
    connection: Connection, row: CampaignRow, rung: RungRow, name: str, units: Units
) -> tuple[ValueSpread, ...]:
    """Statistics of a rung's values of a property, by level; usually there is one level.

    Only candidates that the campaign itself took to the rung count; the ledger may have values of others.
    units: units of the answer, by property.
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
        .where(_CC.campaign_id == row.id, _CC.depth >= rung.position, of_rung(rung), q.censoring == "none")
        .group_by(level.label, q.unit)
    )
    fit, found = rung.fits.get(name), []
    for label, unit, n, *numbers in connection.execute(query):
        low, mean, high = (Quantity(fit.value(number) if fit else number, unit) for number in numbers)
        level_label = fit.level_of(label) if fit else label
        found.append(ValueSpread(level=level_label, **_spread(name, mean, low, high, units), n=n))
    return tuple(found)


def _spread(name: str, mean: Quantity, low: Quantity, high: Quantity, units: Units) -> dict[str, Any]:
    """Returns the unit, the lowest, mean and highest value in the unit in which the property is shown."""
    shown = shown_quantity(name, mean, units)
    lowest, highest = sorted(shown_quantity(name, end, units).value for end in (low, high))
    return {"unit": shown.unit, "low": lowest, "mean": shown.value, "high": highest}
