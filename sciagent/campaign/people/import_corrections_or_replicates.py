"""Imported values that differ from values of files with other names: they are corrections or replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import EvidenceKey, Finding, Measured, file_of
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.results import evidence
from sciagent.store.results.evidence import IMPORT_VERIFIER, NewEvidence


class Differing(NamedTuple):
    """Evidence of another file with another value of a property, at the same level."""

    id: int
    """Id of the evidence."""
    candidate_id: int
    key: EvidenceKey
    source: str
    """Name and hash of the other file."""
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

    settings_hash: settings hash of the new values, which depends on the name of their file.
    """
    e = t.current_evidence.c
    fields = (e.verifier, e.verifier_version, e.settings_hash, e.inputs_hash, e.replicate, e.revision)
    query = sa.select(e.id, e.source, t.candidate.c.key, *fields).join(t.candidate, t.candidate.c.id == e.candidate_id)
    others = (e.candidate_id == candidate_id, e.verifier == IMPORT_VERIFIER, e.settings_hash != settings_hash)
    rows = connection.execute(query.where(*others).order_by(e.id)).all()
    recorded_ids = [row.id for row in rows]
    values = evidence.measured_of(connection, recorded_ids) if recorded_ids else {}
    new_values = {(m.property, m.level): m for m in measured}
    differing_evidence = []
    for id_, source, *key_fields in rows:
        old = []
        new = []
        rest = []
        for value in values.get(id_, ()):
            new_value = new_values.get((value.property, value.level))
            if new_value is not None and _differ(value, new_value):
                old.append(value)
                new.append(new_value)
            else:
                rest.append(value)
        if old:
            evidence_key = EvidenceKey(*key_fields)  # candidate key, then the columns in `fields`
            differing_evidence.append(
                Differing(id_, candidate_id, evidence_key, source, tuple(old), tuple(new), tuple(rest))
            )
    return differing_evidence


def _differ(old: Measured, new: Measured) -> bool:
    """Whether two values of a property differ in number or censoring."""
    return old.quantity.value != new.quantity.value or old.quantity.censoring != new.quantity.censoring


def _as_stated(measured: Measured) -> str:
    """Returns a value as it was typed; without such a text, as a quantity."""
    return measured.quantity.as_typed or str(measured.quantity)


def id_to_supersede(
    connection: Connection, others: Sequence[Differing], smiles: str, file: str, revise: str | None, who: str
) -> int | None:
    """Returns the id of the evidence that the new values supersede; None if there is none.

    If the old evidence has other values besides, it is revised here instead: its new revision keeps the name of its
    file and holds only the other values, and nothing is left to supersede. smiles, file: the candidate and the new
    file, for messages. revise: the reason for the revision. Raises UsageError without a reason, and for several
    replicates, since it is not known which one is wrong.
    """
    if not others:
        return None
    first = _to_revise(others, smiles, file, revise)
    if not first.rest:
        return first.id
    _write_revision(connection, first, first.rest, first.source, revise, who)
    return None


def correct_in_place(
    connection: Connection,
    others: Sequence[Differing],
    smiles: str,
    file: str,
    source: str,
    revise: str | None,
    who: str,
) -> None:
    """Writes a revision of the other evidence that holds the new values beside its other ones.

    source: name and hash of the new file. The other parameters and the errors are those of `id_to_supersede`.
    """
    first = _to_revise(others, smiles, file, revise)
    _write_revision(connection, first, (*first.rest, *first.new), source, revise, who)


def _write_revision(
    connection: Connection, old: Differing, measured: tuple[Measured, ...], source: str, why: str | None, who: str
) -> None:
    """Writes a revision of evidence with these values. source: name and hash of its file."""
    key = replace(old.key, revision=old.key.revision + 1)
    finding = Finding(old.key.subject, Outcome.OK, measured=measured)
    revised = NewEvidence(finding, key, old.candidate_id, source=source, who=who, why=why, supersedes=old.id)
    evidence.record(connection, [revised])


def _to_revise(others: Sequence[Differing], smiles: str, file: str, revise: str | None) -> Differing:
    """Returns the one piece of evidence that differs from the new values. Raises UsageError as `id_to_supersede`."""
    first = others[0]
    name = file_of(others[0].source)
    if revise is None:
        new = _as_stated(first.new[0])
        old = _as_stated(first.old[0])
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
    return first
