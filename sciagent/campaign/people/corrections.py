"""Imported values that differ from those of files with other names: they are corrections or replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import EvidenceKey, Finding, Measured, file_of
from sciagent.domain.outcomes import Outcome
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.results import evidence
from sciagent.store.results.evidence import IMPORT_VERIFIER, NewEvidence


class Differing(NamedTuple):
    """Evidence of another file with another value of a property, at the same level."""

    id: int
    candidate_id: int
    key: EvidenceKey
    source: str
    old: tuple[Measured, ...]
    """The differing values."""
    new: tuple[Measured, ...]
    """The new values of the same properties."""
    rest: tuple[Measured, ...]
    """The other values of the evidence."""


def differing(
    connection: Connection, candidate_id: int, settings_hash: str, measured: Sequence[Measured]
) -> list[Differing]:
    """Returns current imported evidence from files of other names that contradicts these values.

    settings_hash: that of the new values, which holds the name of their file.
    """
    e = t.current_evidence.c
    fields = (e.verifier, e.verifier_version, e.settings_hash, e.inputs_hash, e.replicate, e.revision)
    query = sa.select(e.id, e.source, t.candidate.c.key, *fields).join(t.candidate, t.candidate.c.id == e.candidate_id)
    others = (e.candidate_id == candidate_id, e.verifier == IMPORT_VERIFIER, e.settings_hash != settings_hash)
    rows = connection.execute(query.where(*others).order_by(e.id)).all()
    recorded_ids = [row.id for row in rows]
    values = evidence.measured_of(connection, recorded_ids) if recorded_ids else {}
    given = {(m.property, m.level): m for m in measured}
    found = []
    for id_, source, *key in rows:
        recorded = values.get(id_, ())
        old = tuple(m for m in recorded if (m.property, m.level) in given and _differ(m, given[m.property, m.level]))
        if old:
            rest = tuple(m for m in recorded if m not in old)
            new = tuple(given[m.property, m.level] for m in old)
            found.append(Differing(id_, candidate_id, EvidenceKey(*key), source, old, new, rest))
    return found


def _differ(old: Measured, new: Measured) -> bool:
    a = old.quantity
    b = new.quantity
    return (a.value, a.censoring) != (b.value, b.censoring)


def superseded(
    connection: Connection, others: Sequence[Differing], smiles: str, file: str, revise: str | None, who: str
) -> int | None:
    """Returns the id of the evidence that the new values supersede; None if there is none.

    If that evidence has further values, it is revised under its own file's name to hold only these. Raises UsageError
    without a reason for the revision, and for several replicates, since it is not known which one is wrong.
    """
    if not others:
        return None
    first = others[0]
    name = file_of(others[0].source)
    if revise is None:
        new, old = (m[0].quantity.as_typed or str(m[0].quantity) for m in (first.new, first.old))
        raise UsageError(
            f"{smiles}: {first.new[0].property} is {new} in {file}, and {old} in {name}, which was imported before. "
            'A correction: --revise "why it changed" supersedes the old value. A second measurement: --replicate keeps '
            "both (nothing was imported)"
        )
    if len(others) > 1:
        files = ", ".join(dict.fromkeys(file_of(other.source) for other in others))
        raise UsageError(
            f"{smiles}: the ledger has {len(others)} earlier values of {first.new[0].property}, from {files}; "
            "correct the file with the wrong value and import it again under its name with --revise (nothing was "
            "imported)"
        )
    if not first.rest:
        return first.id
    key = replace(first.key, revision=first.key.revision + 1)
    finding = Finding(first.key.subject, Outcome.OK, measured=first.rest)
    kept = NewEvidence(finding, key, first.candidate_id, source=first.source, who=who, why=revise, supersedes=first.id)
    evidence.record(connection, [kept])
    return None
