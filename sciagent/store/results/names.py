"""Names and remarks that candidates have in input files: an identifier, a supplier, a catalogue number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.candidate_names import Names
from sciagent.domain.text import storable
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, insert_or_ignore


def enter_names(
    connection: Connection, campaign_id: int | None, given: Iterable[tuple[int, Mapping[str, str]]]
) -> None:
    """Stores the names of candidates; names that are stored already are skipped.

    given: (candidate id, {field: text}) for each row of the file. campaign_id: None for an import of values; such names
    are shown in every campaign.
    """
    rows = {(id_, field, storable(text)): None for id_, names in given for field, text in names.items() if text}
    if campaign_id is None:  # a unique constraint does not compare NULL
        known = _rows(connection, sorted({id_ for id_, _, _ in rows}), ())
        rows = {row: None for row in rows if row not in known}
    columns = ("candidate_id", "field", "text")
    new = [{"campaign_id": campaign_id, **dict(zip(columns, row, strict=True))} for row in rows]
    insert_or_ignore(connection, t.candidate_name, new)


def names_of(connection: Connection, ids: Sequence[int], campaign_ids: Sequence[int]) -> dict[int, Names]:
    """Returns {candidate id: names} for the candidates that have names in these campaigns or from an import."""
    names: dict[int, dict[str, tuple[str, ...]]] = {}
    for id_, field, text in _rows(connection, ids, campaign_ids):
        fields = names.setdefault(id_, {})
        fields[field] = (*fields.get(field, ()), text)
    return dict(names)


def name_fields(connection: Connection, campaign_id: int) -> list[str]:
    """Returns the fields of the names that the candidates of a campaign have, the oldest first."""
    cc, c = t.campaign_candidate.c, t.candidate_name.c
    query = (
        sa.select(c.field, sa.func.min(c.id).label("first"))
        .join(t.campaign_candidate, sa.and_(cc.candidate_id == c.candidate_id, cc.campaign_id == campaign_id))
        .where(sa.or_(c.campaign_id.is_(None), c.campaign_id == campaign_id))
        .group_by(c.field)
        .order_by("first")
    )
    return [field for field, _ in connection.execute(query)]


def _rows(connection: Connection, ids: Sequence[int], campaign_ids: Sequence[int]) -> dict[tuple[int, str, str], None]:
    c = t.candidate_name.c
    query = sa.select(c.id, c.candidate_id, c.field, c.text).where(
        among(connection, c.candidate_id, ids), sa.or_(c.campaign_id.is_(None), c.campaign_id.in_(campaign_ids))
    )
    rows = sorted(connection.execute(query), key=lambda row: row.id)
    return {(id_, field, text): None for _, id_, field, text in rows}
