"""What named edits did to measured molecules, read from a ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.chemistry.editing.named_edits import NAMED_EDITS
from sciagent.domain.evidence_keys_and_pooled_replicates import Computation
from sciagent.store.database import tables as t
from sciagent.store.results import pooled_replicates

PROPERTIES = ("homo_lumo_gap", "dipole")
VERIFIER = "xtb.singlepoint"
MODIFY = "modify: "


@dataclass(frozen=True)
class Lesson:
    """One verified edit."""

    parent: str
    """SMILES."""
    before: Mapping[str, float]
    """The parent's values by property."""
    edit: str
    what: str
    """What the edit put in; empty if it needs none."""
    after: Mapping[str, float]
    """The child's values."""


def lessons_of(connection: Connection) -> list[Lesson]:
    """Returns each edit of a ledger once whose parent and child were both measured, in the order of the proposals."""
    p = t.candidate_parent.c
    parent = t.candidate.alias("parent")
    query = (
        sa.select(parent.c.text, p.parent_id, p.candidate_id, p.operation)
        .join(parent, parent.c.id == p.parent_id)
        .where(p.operation.startswith(MODIFY))
        .order_by(p.id)
    )
    rows = list(dict.fromkeys(map(tuple, connection.execute(query))))
    values = _values(connection, sorted({id_ for _, *ids, _ in rows for id_ in ids}))
    return [
        Lesson(text, values[before], *_edit(operation), values[after])
        for text, before, after, operation in rows
        if before in values and after in values
    ]


def _edit(operation: str) -> tuple[str, str]:
    """Returns the edit of an operation, and what it put in."""
    said = operation.removeprefix(MODIFY)
    edit = max((name for name in NAMED_EDITS if said.startswith(name)), key=len)
    return edit, said.removeprefix(edit).strip()


def _values(connection: Connection, ids: list[int]) -> dict[int, Mapping[str, float]]:
    """Returns the values of candidates by id, where all properties were measured."""
    e = t.current_evidence.c
    query = sa.select(e.verifier, e.verifier_version, e.settings_hash).where(e.verifier == VERIFIER).distinct()
    found: dict[int, Mapping[str, float]] = {}
    for row in connection.execute(query):
        for id_, known in pooled_replicates.values_of(connection, ids, Computation(*row)).items():
            if known is not None and set(PROPERTIES) <= set(known):
                found[id_] = {name: known[name].value for name in PROPERTIES}
    return found
