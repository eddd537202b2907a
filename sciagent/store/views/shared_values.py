"""Imported values of one property, by level and candidate, from all files of the ledger."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import file_of
from sciagent.domain.pooling import pooled_quantity
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.store.database import tables as t
from sciagent.store.results.evidence import CENSORED, IMPORT


class ImportedLevel(NamedTuple):
    """The imported values of one property at one level."""

    values: dict[int, float]
    """{candidate id: value in the canonical unit}; replicates are pooled, and bounds are left out."""
    files: tuple[str, ...]
    """Names of the files that they come from, the largest first."""


def imported_levels(connection: Connection, property_name: str) -> dict[str, ImportedLevel]:
    """{label of the level: imported values of the property}."""
    e, q, p, level = t.current_evidence.c, t.quantity.c, t.property_.c, t.level.c
    query = (
        sa.select(level.label, e.candidate_id, e.source, q.value, q.uncertainty, q.censoring)
        .select_from(t.current_evidence)
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .join(t.level, level.id == q.level_id)
        .where(e.verifier == IMPORT)
        .order_by(level.label, e.candidate_id, e.id)
    )
    unit = properties()[property_name].unit
    replicates: dict[str, dict[int, list[Quantity]]] = {}
    files: dict[str, dict[str, int]] = {}
    for label, candidate_id, source, value, uncertainty, censoring in connection.execute(query):
        quantity = Quantity(value, unit, uncertainty, CENSORED[censoring])
        replicates.setdefault(label, {}).setdefault(candidate_id, []).append(quantity)
        file, counts = file_of(source), files.setdefault(label, {})
        counts[file] = counts.get(file, 0) + 1
    return {
        label: ImportedLevel(
            {
                id_: value.value
                for id_, same in by_candidate.items()
                if (value := pooled_quantity(same)).censoring is Censoring.NONE
            },
            tuple(sorted(files[label], key=lambda file: (-files[label][file], file))),
        )
        for label, by_candidate in replicates.items()
    }
