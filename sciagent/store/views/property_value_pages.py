"""Values in the ledger with their provenance, read in pages; imported ones also by level and candidate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.display_units import Units, quantity_in_chosen_unit
from sciagent.domain.evidence_keys_and_pooled_replicates import file_of, pooled_quantity
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Censoring, Quantity
from sciagent.errors import UnknownNameError
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.results.evidence import CENSORING_BY_TEXT, IMPORT_VERIFIER

PAGE_SIZE = 1000  # values on a page


@dataclass(frozen=True)
class ValueFilter:
    """Selects values; None does not restrict."""

    property: str | None = None
    """Name of a property."""
    campaign: str | None = None
    """Name of a campaign; selects all values of its candidates, even if another campaign paid for them."""
    verifier: str | None = None
    """Name of a verifier, `import` for values from files."""
    key: str | None = None
    """Key of a candidate."""


@dataclass(frozen=True)
class LedgerValue:
    """One value of the ledger, of the current revision of its evidence."""

    key: str
    """Key of the candidate."""
    text: str
    """SMILES of a molecule, name of a crystal."""
    property: str
    """Name of the property."""
    value: float
    """The value, in `unit`."""
    uncertainty: float | None
    """Standard uncertainty, k = 1, in `unit`; None if unknown."""
    unit: str
    """Unit of a campaign that selects the values, if its author chose one; else the canonical unit."""
    censoring: str
    """`none`, or on which side of `value` the true value lies: `below`, `above`."""
    level: str
    """The method, basis, phase and geometry of the value, as one text."""
    verifier: str
    """Name of the verifier; `import` for a value from a file."""
    version: str
    """Version of the verifier."""
    replicate: int
    """Number of the repetition, from 0."""
    campaign: str | None
    """The campaign that paid; None for `verify` and for files."""
    source: str
    """`computed`, or the name of a file."""
    who: str
    """Person or program that recorded the value."""
    at: datetime
    """Time at which the value was recorded, UTC."""


def require_known_names(connection: Connection, wanted: ValueFilter) -> None:
    """Raises UnknownNameError for a property or a campaign that the ledger does not have."""
    for kind, table, name in (("property", t.property_, wanted.property), ("campaign", t.campaign, wanted.campaign)):
        if name is not None:
            known = set(connection.execute(sa.select(table.c.name)).scalars())
            if name not in known:
                raise UnknownNameError(kind, name, known)


def count(connection: Connection, wanted: ValueFilter) -> int:
    """Number of values that the filter selects."""
    return int(connection.execute(_selected(sa.select(sa.func.count()), wanted)).scalar_one())


def page(
    connection: Connection, wanted: ValueFilter, after: int = 0, n: int = PAGE_SIZE
) -> tuple[list[LedgerValue], int]:
    """The next n values in the order of writing, and the cursor for the next page; an empty list at the end.

    after: the cursor of the previous page; 0 for the first page.
    """
    q = t.quantity.c
    c = t.candidate.c
    p = t.property_.c
    e = t.current_evidence.c
    value = (c.key, c.text, p.name, q.value, q.uncertainty, q.unit, q.censoring, t.level.c.label)
    provenance = (e.verifier, e.verifier_version, e.replicate, t.campaign.c.name, e.source, e.who, e.at)
    query = _selected(sa.select(q.id, *value, *provenance), wanted).where(q.id > after).order_by(q.id).limit(n)
    rows: list[Any] = list(connection.execute(query))
    campaign = campaigns.find(connection, wanted.campaign) if wanted.campaign else None
    units = campaign.units if campaign else {}
    values = [_in_units(LedgerValue(*row[1:]), units) for row in rows]
    cursor = rows[-1].id if rows else after
    return values, cursor


def _in_units(row: LedgerValue, units: Units) -> LedgerValue:
    if row.property not in units:
        return row
    quantity = Quantity(row.value, row.unit, row.uncertainty, Censoring(row.censoring))
    shown = quantity_in_chosen_unit(row.property, quantity, units)
    stated = {name: getattr(shown, name) for name in ("value", "unit", "uncertainty")}
    return replace(row, **stated, censoring=str(shown.censoring))


def all_pages(connection: Connection, wanted: ValueFilter) -> Iterator[list[LedgerValue]]:
    """Yields all values, one page at a time."""
    rows, after = page(connection, wanted)
    while rows:
        yield rows
        rows, after = page(connection, wanted, after)


def _selected(query: sa.Select[Any], wanted: ValueFilter) -> sa.Select[Any]:
    """The query with the tables that values come from, restricted to the wanted values."""
    q = t.quantity.c
    e = t.current_evidence.c
    a = t.attempt.c
    query = (
        query.select_from(t.quantity)
        .join(t.current_evidence, e.id == q.evidence_id)
        .join(t.candidate, t.candidate.c.id == e.candidate_id)
        .join(t.property_, t.property_.c.id == q.property_id)
        .join(t.level, t.level.c.id == q.level_id)
        .outerjoin(t.attempt, a.id == e.attempt_id)
        .outerjoin(t.campaign, t.campaign.c.id == a.campaign_id)
    )
    if wanted.property is not None:
        query = query.where(t.property_.c.name == wanted.property)
    if wanted.verifier is not None:
        query = query.where(e.verifier == wanted.verifier)
    if wanted.key is not None:
        query = query.where(t.candidate.c.key == wanted.key)
    if wanted.campaign is None:
        return query
    cc = t.campaign_candidate.c
    # the campaign in the joins above is the one that paid
    named = t.campaign.alias("named")
    members = sa.select(cc.candidate_id).join(named, named.c.id == cc.campaign_id)
    return query.where(e.candidate_id.in_(members.where(named.c.name == wanted.campaign)))


class ImportedLevel(NamedTuple):
    """The imported values of one property at one level."""

    values: dict[int, float]
    """{candidate id: value in the canonical unit}; replicates are pooled, and bounds are left out."""
    files: tuple[str, ...]
    """Names of the files that they come from; the file with the most values is first."""
    phase: str
    """The phase of the level, such as `water`."""


def imported_levels(connection: Connection, property_name: str) -> dict[str, ImportedLevel]:
    """{label of the level: imported values of the property}."""
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    level = t.level.c
    query = (
        sa.select(level.label, level.spec, e.candidate_id, e.source, q.value, q.uncertainty, q.censoring)
        .select_from(t.current_evidence)
        .join(t.quantity, q.evidence_id == e.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == property_name))
        .join(t.level, level.id == q.level_id)
        .where(e.verifier == IMPORT_VERIFIER)
        .order_by(level.label, e.candidate_id, e.id)
    )
    unit = properties()[property_name].unit
    replicates: dict[str, dict[int, list[Quantity]]] = {}  # by level and candidate
    files: dict[str, dict[str, int]] = {}  # numbers of values, by level and file
    phases: dict[str, str] = {}
    for label, spec, candidate_id, source, value, uncertainty, censoring in connection.execute(query):
        phases[label] = spec["phase"]
        quantity = Quantity(value, unit, uncertainty, CENSORING_BY_TEXT[censoring])
        replicates.setdefault(label, {}).setdefault(candidate_id, []).append(quantity)
        file = file_of(source)
        counts = files.setdefault(label, {})
        counts[file] = counts.get(file, 0) + 1
    levels = {}
    for label, by_candidate in replicates.items():
        values = {}
        for id_, quantities in by_candidate.items():
            pooled = pooled_quantity(quantities)
            if pooled is not None and pooled.censoring is Censoring.NONE:
                values[id_] = pooled.value
        values_by_file = files[label]
        files_in_order = sorted(values_by_file, key=lambda file: (-values_by_file[file], file))
        levels[label] = ImportedLevel(values, tuple(files_in_order), phases[label])
    return levels
