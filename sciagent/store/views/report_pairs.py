"""Values of one property of the same candidates, from two sources: two rungs, or files and a rung."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.views.queries import IMPORT

_CC = t.campaign_candidate.c
CHUNK = 500


class Replicates(NamedTuple):
    """What one source says of one property of a candidate, at one level, in the property's canonical unit."""

    level_id: int
    """The level of all of them."""
    values: list[tuple[float, float | None]]
    """Each value with its standard uncertainty, None where nobody knows it."""
    is_censored: bool
    """Whether one of them is only a limit."""


def pairs(
    connection: Connection, row: CampaignRow, lower: RungRow | None, upper: RungRow, property_name: str
) -> Iterator[tuple[Replicates, Replicates, bool]]:
    """Per candidate of which both sources know the property: what `lower` says, what `upper` says, whether it is a hit.

    lower: a rung, or None for what files say. A candidate has one pair for each two levels. Streamed.
    """
    candidates = sa.select(_CC.candidate_id, _CC.is_hit).where(
        _CC.campaign_id == row.id, _CC.is_hit.in_([True, False]), _CC.depth >= upper.position
    )
    found = iter(connection.execute(candidates, execution_options={"yield_per": CHUNK}))
    while chunk := dict(tuple(one) for one in islice(found, CHUNK)):
        xs = _replicates(connection, lower, property_name, list(chunk))
        ys = _replicates(connection, upper, property_name, list(xs))
        for candidate_id, said in ys.items():
            for x, y in product(xs[candidate_id], said):
                yield x, y, bool(chunk[candidate_id])


def _replicates(
    connection: Connection, rung: RungRow | None, property_name: str, ids: Sequence[int]
) -> dict[int, list[Replicates]]:
    """Current values by candidate: under one rung, or from files. Two questions, for a join of all that is asked here
    tempts a database to begin with every value of the property."""
    e, q, p = t.current_evidence.c, t.quantity.c, t.property_.c
    by = (
        sa.and_(
            e.verifier == rung.verifier,
            e.verifier_version == rung.verifier_version,
            e.settings_hash == rung.settings_hash,
        )
        if rung is not None
        else e.verifier == IMPORT
    )
    evidence = sa.select(e.id, e.candidate_id).where(e.candidate_id.in_(ids), by).order_by(e.id)
    owner = {int(i): int(c) for i, c in connection.execute(evidence)}
    values = (
        sa.select(q.evidence_id, q.level_id, q.value, q.uncertainty, q.censoring)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .where(q.evidence_id.in_(list(owner)))
        .order_by(q.evidence_id, q.id)
    )
    groups: dict[int, dict[int, list[Any]]] = {}
    for evidence_id, level_id, *value in connection.execute(values):
        groups.setdefault(owner[evidence_id], {}).setdefault(level_id, []).append(value)
    return {
        candidate_id: [
            Replicates(level_id, [(v, u) for v, u, _ in said], any(censoring != "none" for *_, censoring in said))
            for level_id, said in by_level.items()
        ]
        for candidate_id, by_level in groups.items()
    }


def imported_properties(connection: Connection, row: CampaignRow) -> list[str]:
    """Names of the properties that files know of candidates of the campaign."""
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
    return [str(name) for name in connection.execute(query).scalars()]


def levels(connection: Connection, ids: Sequence[int]) -> dict[int, str]:
    query = sa.select(t.level.c.id, t.level.c.label).where(t.level.c.id.in_(ids))
    return {int(i): str(label) for i, label in connection.execute(query)}
