"""Answers with all replicates pooled, as verdicts, the law and the report read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy.engine import Connection

from sciagent.domain.outcomes import Outcome
from sciagent.domain.pooling import pooled_measured, pooled_quantity
from sciagent.domain.properties import properties
from sciagent.domain.quantities import Quantity
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import CHUNK, among
from sciagent.store.results.evidence import CENSORED, RecordedEvidence, all_of, property_names, reusable


def pooled_answers(
    connection: Connection, candidate_ids: Sequence[int], verifier: str, version: str, settings_hash: str
) -> dict[int, RecordedEvidence]:
    """What `find_reusable` would find, with all replicates pooled: the first that gave an answer, with their values."""
    replicates: dict[int, list[RecordedEvidence]] = {}
    for one in all_of(connection, reusable(verifier, version, settings_hash), candidate_ids):
        replicates.setdefault(one.candidate_id, []).append(one)
    return {id_: pooled_evidence(same) for id_, same in replicates.items()}


def replicated(
    connection: Connection, candidate_ids: Sequence[int], verifier: str, version: str, settings_hash: str
) -> set[int]:
    """Candidates of which `find_reusable` would find more replicates than the first."""
    e = t.current_evidence.c
    asked = reusable(verifier, version, settings_hash).with_only_columns(e.candidate_id).where(e.replicate > 0)
    return set(connection.execute(asked.where(among(connection, e.candidate_id, candidate_ids))).scalars())


def pooled_evidence(replicates: Sequence[RecordedEvidence]) -> RecordedEvidence:
    """Replicates of one verification as one answer."""
    answered = [one for one in replicates if one.outcome is Outcome.OK] or [replicates[0]]
    if len(answered) == 1:
        return answered[0]
    return replace(answered[0], measured=pooled_measured(one.measured for one in answered))


Values = dict[str, Quantity]  # by property, with all replicates pooled


def values_of(
    connection: Connection, candidate_ids: Sequence[int], verifier: str, version: str, settings_hash: str
) -> dict[int, Values | None]:
    """The values of `pooled_answers` in few words, in canonical units; None where no replicate gave an answer."""
    e, q = t.current_evidence.c, t.quantity.c
    found: dict[int, dict[str, list[Quantity]] | None] = {}
    asked = reusable(verifier, version, settings_hash).with_only_columns(
        e.candidate_id, e.outcome, q.property_id, q.value, q.uncertainty, q.censoring
    )
    asked = asked.select_from(t.current_evidence.outerjoin(t.quantity, q.evidence_id == e.id))
    names: dict[int, str] = {}
    for start in range(0, len(candidate_ids), CHUNK):
        some = among(connection, e.candidate_id, candidate_ids[start : start + CHUNK])
        rows = connection.execute(asked.where(some).order_by(e.replicate, e.id, q.id)).all()
        names |= property_names(connection, {row[2] for row in rows if row[2] is not None} - names.keys())
        for candidate_id, outcome, property_, value, uncertainty, censoring in rows:
            mine = found.setdefault(candidate_id, None)
            if outcome != Outcome.OK:
                continue
            if mine is None:
                mine = found[candidate_id] = {}
            if property_ is not None:
                name = names[property_]
                quantity = Quantity(value, properties()[name].unit, uncertainty, CENSORED[censoring])
                mine.setdefault(name, []).append(quantity)
    return {
        id_: None if values is None else {name: pooled_quantity(same) for name, same in values.items()}
        for id_, values in found.items()
    }
