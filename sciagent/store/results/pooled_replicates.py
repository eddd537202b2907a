"""Answers with all replicates pooled, for verdicts, for reports, and for the law by which a scheduler decides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import Computation, pooled_measured, pooled_quantity
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome
from sciagent.domain.properties_and_levels import Level, comparable_phase, phase_named, properties
from sciagent.domain.quantities import Quantity
from sciagent.domain.rung_calibration_on_measurements import Fits, calibrated_quantities
from sciagent.domain.states_and_needs import JobState
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.results.evidence import (
    CENSORING_BY_TEXT,
    IMPORT_VERIFIER,
    RecordedEvidence,
    property_names,
    reusable_query,
    selected_evidence,
)


def pooled_answers(
    connection: Connection,
    candidate_ids: Sequence[int],
    computation: Computation,
    derived: Collection[str] = (),
    source: sa.FromClause = t.current_evidence,
) -> dict[int, RecordedEvidence]:
    """Like `find_reusable`, with replicates pooled: the first replicate with an answer gets the values of all.

    derived: settings hashes of the derived properties that are known after the rung; their values are included.
    source: the evidence that counts, as from `evidence_as_of`.
    """
    replicates: dict[int, list[RecordedEvidence]] = {}
    query = reusable_query(computation, derived, source)
    for replicate in selected_evidence(connection, query, candidate_ids, source):
        replicates.setdefault(replicate.candidate_id, []).append(replicate)
    pooled = {}
    for id_, of_candidate in replicates.items():
        answered = [replicate for replicate in of_candidate if replicate.outcome is Outcome.OK]
        # if no replicate has an answer, the first one tells why
        first = answered[0] if answered else of_candidate[0]
        if len(answered) > 1:
            first = replace(first, measured=pooled_measured(replicate.measured for replicate in answered))
        pooled[id_] = first
    return pooled


def ids_with_replicates(connection: Connection, candidate_ids: Sequence[int], computation: Computation) -> set[int]:
    """Ids of the candidates that have reusable evidence of more than one replicate."""
    e = t.current_evidence.c
    query = reusable_query(computation).with_only_columns(e.candidate_id).where(e.replicate > 0)
    return set(connection.execute(query.where(among(connection, e.candidate_id, candidate_ids))).scalars())


def answered_replicates(
    connection: Connection, candidate_ids: Sequence[int], computation: Computation
) -> dict[int, dict[int, int]]:
    """{candidate id: {number of a measurement: id of its reusable evidence}}, whichever campaign has asked for it.

    An answer that leaves a quantity open is none as long as its task is not over.
    """
    e = t.current_evidence.c
    j = t.job.c
    r = t.rung.c
    unfinished = (JobState.QUEUED, JobState.RUNNING)
    part = (
        sa.select(j.id)
        .join(t.lab_task, t.lab_task.c.job_id == j.id)
        .join(t.rung, r.id == j.rung_id)
        .where(j.candidate_id == e.candidate_id, j.replicate == e.replicate, j.state.in_(unfinished))
        .where(t.lab_task.c.open_quantities.is_not(None), r.verifier == e.verifier)
        .where(r.verifier_version == e.verifier_version, r.settings_hash == e.settings_hash)
    )
    query = reusable_query(computation).with_only_columns(e.candidate_id, e.replicate, e.id)
    query = query.where(
        among(connection, e.candidate_id, candidate_ids), ~sa.exists(part.correlate(t.current_evidence))
    )
    answered: dict[int, dict[int, int]] = {}
    for candidate_id, replicate, evidence_id in connection.execute(query.order_by(e.candidate_id, e.replicate)):
        answered.setdefault(candidate_id, {})[replicate] = evidence_id
    return answered


def experimental_values(
    connection: Connection,
    candidate_ids: Sequence[int],
    phases: Mapping[str, str],
    source: sa.FromClause = t.current_evidence,
) -> dict[int, PooledValues]:
    """{candidate id: imported experimental values by property}, in canonical units, replicates and levels pooled.

    phases: the wanted properties, each with the phase of the values that the measured ones stand beside; see
    `comparable_phase`. source: the evidence that counts, as from `evidence_as_of`.
    """
    e = source.c
    q = t.quantity.c
    p = t.property_.c
    query = (
        sa.select(e.candidate_id, p.name, t.level.c.spec, q.value, q.uncertainty, q.censoring)
        .select_from(source.join(t.quantity, q.evidence_id == e.id))
        .join(t.property_, p.id == q.property_id)
        .join(t.level, t.level.c.id == q.level_id)
        .where(among(connection, e.candidate_id, candidate_ids), e.verifier == IMPORT_VERIFIER)
        .where(p.name.in_(sorted(phases)))
        .order_by(e.id, q.id)
    )
    replicates: dict[tuple[int, str], dict[str, list[Quantity]]] = {}  # by candidate and property, then by phase
    for candidate_id, name, spec, value, uncertainty, censoring in connection.execute(query):
        level = Level(**spec)
        if level.is_experiment:
            quantity = Quantity(value, properties()[name].unit, uncertainty, CENSORING_BY_TEXT[censoring])
            replicates.setdefault((candidate_id, name), {}).setdefault(phase_named(level.phase), []).append(quantity)
    pooled: dict[int, PooledValues] = {}
    for (candidate_id, name), by_phase in replicates.items():
        phase = comparable_phase(by_phase, phases[name])
        value = None if phase is None else pooled_quantity(by_phase[phase])
        if value is not None:
            pooled.setdefault(candidate_id, {})[name] = value
    return pooled


PooledValues = dict[str, Quantity]  # {property: value pooled from all replicates}


def answered_until(
    connection: Connection, candidate_ids: Sequence[int], computation: Computation, until: datetime
) -> list[int]:
    """The candidates among these of which a computation had evidence at a time, sorted."""
    e = t.current_evidence.c
    name, version, settings_hash = computation
    query = sa.select(e.candidate_id).distinct().where(among(connection, e.candidate_id, candidate_ids))
    query = query.where(e.verifier == name, e.verifier_version == version, e.settings_hash == settings_hash)
    return list(connection.execute(query.where(e.at <= until).order_by(e.candidate_id)).scalars())


def values_of(
    connection: Connection,
    candidate_ids: Sequence[int],
    computation: Computation,
    derived: Collection[str] = (),
    fits: Fits | None = None,
) -> dict[int, PooledValues | None]:
    """Only the values of `pooled_answers`, in canonical units; None if no replicate gave an answer. fits: calibrations
    to apply."""
    e = t.current_evidence.c
    q = t.quantity.c
    query = reusable_query(computation, derived).with_only_columns(
        e.candidate_id, e.outcome, q.property_id, q.value, q.uncertainty, q.censoring
    )
    query = query.select_from(t.current_evidence.outerjoin(t.quantity, q.evidence_id == e.id))
    query = query.where(among(connection, e.candidate_id, candidate_ids)).order_by(e.replicate, e.id, q.id)
    rows = connection.execute(query).all()
    names = property_names(connection, {row[2] for row in rows if row[2] is not None})
    replicates: dict[int, dict[str, list[Quantity]] | None] = {}  # None until a replicate with an answer is read
    for candidate_id, outcome, property_id, value, uncertainty, censoring in rows:
        values = replicates.setdefault(candidate_id, None)
        if outcome != Outcome.OK:
            continue
        if values is None:
            values = {}
            replicates[candidate_id] = values
        # an answer without values has one row, in which the property is NULL
        if property_id is not None:
            name = names[property_id]
            quantity = Quantity(value, properties()[name].unit, uncertainty, CENSORING_BY_TEXT[censoring])
            values.setdefault(name, []).append(quantity)
    pooled: dict[int, dict[str, Quantity] | None] = {}
    for candidate_id, values in replicates.items():
        if values is None:
            pooled[candidate_id] = None
            continue
        means = {}
        for name, quantities in values.items():
            mean = pooled_quantity(quantities)
            if mean is not None:
                means[name] = mean
        pooled[candidate_id] = calibrated_quantities(means, fits or {})
    return pooled
