"""Evidence: recorded once, never changed, superseded by revisions, and looked up for reuse.

Each piece of evidence has the next watermark, a number in the order of the commits, which serves as the ledger's clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.derived_properties import DERIVED_VERIFIER, VERSION
from sciagent.domain.evidence_keys_and_pooled_replicates import (
    ISOMER,
    UNCERTAINTY_KIND,
    Computation,
    EvidenceKey,
    Finding,
    Measured,
    with_kinds_and_isomer,
)
from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.properties_and_levels import Kind, Level, Property, properties
from sciagent.domain.quantities import Censoring, Quantity, to_canonical
from sciagent.domain.safe_text_and_durations import storable
from sciagent.errors import EvidenceConflictError, LedgerError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many, insert_many, insert_or_ignore
from sciagent.store.database.engine import db_now
from sciagent.store.database.evidence_secret import secret_of
from sciagent.store.results.evidence_seals import COMPUTED, EvidenceContent, SealedQuantity, level_hash


@dataclass(frozen=True)
class NewEvidence:
    """A finding to be recorded."""

    finding: Finding
    key: EvidenceKey
    candidate_id: int
    attempt_id: int | None = None
    proposal_id: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[tuple[str, str, int, str], ...] = ()
    """(name, sha256, size, media type) of files already in the store."""
    source: str = COMPUTED
    """`computed`, the task that a person answered, or the name of an imported file."""
    who: str = "sciagent"
    why: str | None = None
    supersedes: int | None = None
    """Id of the evidence that this revision replaces."""
    reusable: bool = True
    """Whether it may answer later questions for the same computation. An answer of people that leaves a quantity open
    may not; its last revision, which is complete, may."""


@dataclass(frozen=True)
class RecordedEvidence:
    """Evidence as read from the ledger."""

    id: int
    key: str
    candidate_id: int
    outcome: Outcome
    reason: Reason | None
    detail: str
    watermark: int
    measured: tuple[Measured, ...] = ()
    unobtained: Mapping[str, Reason] = field(default_factory=dict)
    """Reasons by property for which people could not obtain a quantity, although others have values."""


IMPORT_VERIFIER = "import"  # the verifier of imported values
UNKNOWN_REFERENCE = "the evidence names a candidate, attempt, proposal or revision that is not in the ledger"
CENSORING_BY_TEXT = {str(censoring): censoring for censoring in Censoring}
"""The kinds of censoring by their text in the ledger; a look-up is faster than a call of the enum."""
_MEASURED_COLUMNS = tuple(
    t.quantity.c[name]
    for name in ("property_id", "level_id", "value", "uncertainty", "unit", "censoring", "n", "as_typed")
)
_KEY_COLUMNS = ("verifier", "verifier_version", "settings_hash", "inputs_hash", "replicate", "revision")
_NEW_EVIDENCE_COLUMNS = ("candidate_id", "proposal_id", "versions", "source", "why", "attempt_id")
_RECORDED_COLUMNS = ("id", "key", "candidate_id", "outcome", "reason", "detail", "watermark", "unobtained")


def next_watermark(connection: Connection, n: int = 1) -> int:
    """Take the next n watermarks and return the last.

    The row stays locked until commit, so that the order of the numbers is the order of the commits.
    """
    statement = sa.update(t.watermark).where(t.watermark.c.id == 1).values(value=t.watermark.c.value + n)
    return int(connection.execute(statement.returning(t.watermark.c.value)).scalar_one())


def lock_watermark(connection: Connection) -> int:
    """The last watermark. Nobody else can take one until the commit, so that all higher ones are this transaction's."""
    return next_watermark(connection, 0)


def read_watermark(connection: Connection) -> int:
    """The watermark of the last evidence that was committed."""
    return int(connection.execute(sa.select(t.watermark.c.value).where(t.watermark.c.id == 1)).scalar_one())


def answered_by_others(
    connection: Connection, campaign_id: int, computations: Collection[Computation], watermark: int
) -> list[int]:
    """Ids of the candidates that have new evidence of one of the computations by an attempt outside the campaign.

    watermark: evidence above it is new.
    """
    e = t.evidence.c
    a = t.attempt.c
    query = (
        sa.select(e.candidate_id, e.verifier, e.verifier_version, e.settings_hash)
        .select_from(t.evidence)
        .outerjoin(t.attempt, a.id == e.attempt_id)
        .where(e.watermark > watermark, a.campaign_id.is_distinct_from(campaign_id))
    )
    return [id_ for id_, *computation in connection.execute(query) if Computation(*computation) in computations]


def record(connection: Connection, new: Sequence[NewEvidence]) -> list[int]:
    """Record all of the evidence or nothing; returns evidence ids in order.

    Raises EvidenceConflictError if a key is already recorded, or if the superseded evidence has another revision. The
    caller then keeps the first evidence or writes a revision, in the same transaction. Raises LedgerError for an
    outcome that is not evidence, a value given twice, or computed evidence without the secret that seals it;
    UnknownNameError for an unregistered property; UnitError for
    a wrong unit. Nothing is written if an error is raised.
    """
    revised = [evidence.supersedes for evidence in new if evidence.supersedes is not None]
    try:
        with connection.begin_nested():
            recorded = record_once(connection, new)
            # an entry that is only an id stands for evidence that existed under the key
            new_ids = {entry.id for entry in recorded if isinstance(entry, RecordedEvidence)}
            if len(new_ids) < len(new):
                raise EvidenceConflictError(f"evidence of {new[0].key.verifier} stands already under one of these keys")
            return sorted(new_ids)  # ids ascend in the order of the evidence
    except LedgerError as error:
        # the insert also fails if evidence is superseded for the second time
        e = t.evidence.c
        query = sa.select(e.supersedes_id).where(among(connection, e.supersedes_id, revised))
        superseded_id = connection.execute(query).scalar()
        if superseded_id is not None:
            text = f"evidence {superseded_id} has been superseded; revise its latest revision"
            raise EvidenceConflictError(text) from error
        raise


def record_once(connection: Connection, new: Sequence[NewEvidence]) -> list[RecordedEvidence | int]:
    """Record evidence whose key is new. Returns the evidence as it will be read, or the id of existing evidence.

    On PostgreSQL a query before the write is not enough: another writer's row may become visible in between. So the
    watermark is taken first; from then on no other writer can record, and no savepoint is needed. After a LedgerError
    the transaction cannot go on.
    """
    if not new:
        return []
    measured = {evidence.key.hash: _checked(evidence) for evidence in new}
    last_watermark = next_watermark(connection, len(new))
    existing_ids = ids_by_key(connection, [evidence.key.hash for evidence in new])
    unrecorded = {evidence.key.hash: evidence for evidence in new if evidence.key.hash not in existing_ids}
    n_unused_watermarks = len(new) - len(unrecorded)
    if n_unused_watermarks:
        last_watermark = next_watermark(connection, -n_unused_watermarks)  # a negative number gives them back
    try:
        measured_values = [measured[key] for key in unrecorded]
        recorded = _insert(connection, list(unrecorded.values()), measured_values, last_watermark)
    except sa.exc.IntegrityError as error:
        raise LedgerError(UNKNOWN_REFERENCE) from error
    recorded_by_key = dict(zip(unrecorded, recorded, strict=True))
    answers: list[RecordedEvidence | int] = []
    for evidence in new:
        key = evidence.key.hash
        answers.append(recorded_by_key[key] if key in recorded_by_key else existing_ids[key])
    return answers


def ids_by_key(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """{evidence key: id} of the keys that are recorded."""
    e = t.evidence.c
    query = sa.select(e.key, e.id).where(among(connection, e.key, keys))
    return {key: id_ for key, id_ in connection.execute(query)}


def _checked(evidence: NewEvidence) -> tuple[Measured, ...]:
    """The measured values as they will be read. Raises LedgerError if a value is given twice, or if the outcome is not
    evidence."""
    finding = evidence.finding
    if not finding.outcome.rule.is_evidence:
        raise LedgerError(f"outcome {finding.outcome} is no evidence; it belongs to the attempt")
    if len(finding.measured) > 1:
        places = [(m.property, m.level) for m in finding.measured]
        if len(set(places)) != len(places):
            names = sorted(name for name, _ in places)
            raise LedgerError(f"{evidence.key.verifier} gives a property twice at one level: {names}")
    return tuple(_as_read(m) for m in finding.measured)


_QUANTITY_COLUMNS = ("value", "unit", "uncertainty", "censoring", "n", "as_typed")
"""The fields of a quantity that are columns. The kind of its uncertainty and the computed isomer are in the diagnostics
of the evidence."""


def _as_read(measured: Measured) -> Measured:
    """The value in its canonical unit, with numbers and texts as the database returns them."""
    q = to_canonical(measured.quantity, properties()[measured.property])
    is_plain = q.uncertainty is None and q.as_typed is None and q.n == 1 and q.censoring is Censoring.NONE
    # the usual case; a number of NumPy is no plain float
    if is_plain and q is measured.quantity and type(q.value) is float:
        return measured
    as_typed = None if q.as_typed is None else storable(q.as_typed)
    uncertainty = None if q.uncertainty is None else float(q.uncertainty)
    quantity = Quantity(float(q.value), q.unit, uncertainty, Censoring(q.censoring), q.n, as_typed)
    return Measured(measured.property, measured.level, quantity)


def _insert(
    connection: Connection, new: Sequence[NewEvidence], measured: Sequence[tuple[Measured, ...]], last_watermark: int
) -> list[RecordedEvidence]:
    """Write the evidence with a single statement per table.

    measured: the values of each piece of evidence. last_watermark: the watermark of the last piece.
    """
    first_watermark = last_watermark - len(new) + 1
    rows = [_evidence_row(evidence, watermark) for watermark, evidence in enumerate(new, start=first_watermark)]
    superseded_keys = _superseded_keys(connection, new)
    for evidence, row, values in zip(new, rows, measured, strict=True):
        superseded = "" if evidence.supersedes is None else superseded_keys[evidence.supersedes]
        row["seal"] = _seal(connection, evidence, row, values, superseded)
    ids = insert_many(connection, t.evidence, rows, {"at": db_now(connection)})
    property_ids, level_ids = ids_of_names(connection, list(chain.from_iterable(measured)))
    quantities = []
    for id_, values in zip(ids, measured, strict=True):
        for m in values:
            quantities.append(
                {
                    "evidence_id": id_,
                    "property_id": property_ids[m.property],
                    "level_id": level_ids[m.level],
                    **{name: getattr(m.quantity, name) for name in _QUANTITY_COLUMNS},
                }
            )
    execute_many(connection, t.quantity, quantities)
    artifacts = []
    for id_, evidence in zip(ids, new, strict=True):
        for name, sha256, size, media_type in evidence.artifacts:
            artifacts.append(
                {"evidence_id": id_, "name": name, "sha256": sha256, "size": size, "media_type": media_type}
            )
    execute_many(connection, t.artifact, artifacts)
    recorded = []
    for id_, row, values in zip(ids, rows, measured, strict=True):
        columns = [row[name] for name in _RECORDED_COLUMNS if name != "id"]
        values_as_read = with_kinds_and_isomer(values, row["diagnostics"])
        recorded.append(_recorded([id_, *columns], values_as_read))
    return recorded


def _superseded_keys(connection: Connection, new: Sequence[NewEvidence]) -> dict[int, str]:
    """Returns {id: key} of the evidence that new evidence supersedes. Raises LedgerError if one is not recorded."""
    ids = [evidence.supersedes for evidence in new if evidence.supersedes is not None]
    if not ids:
        return {}
    e = t.evidence.c
    found = {id_: key for id_, key in connection.execute(sa.select(e.id, e.key).where(among(connection, e.id, ids)))}
    if not found.keys() >= set(ids):
        raise LedgerError(UNKNOWN_REFERENCE)
    return found


def _seal(
    connection: Connection, new: NewEvidence, row: Mapping[str, Any], measured: Sequence[Measured], superseded: str
) -> str | None:
    """The seal of computed evidence; None for evidence that people answer for. Raises LedgerError without the secret.

    row: the columns as they are written. measured: the values as they are written. superseded: the key of the evidence
    that this one supersedes, or empty.
    """
    if new.source != COMPUTED:
        return None
    quantities = []
    for m in measured:
        q = m.quantity
        quantities.append(
            SealedQuantity(
                m.property, level_hash(m.level), q.value, q.unit, q.uncertainty, q.censoring, q.n, q.as_typed
            )
        )
    content = EvidenceContent(
        row["key"],
        row["revision"],
        superseded,
        row["outcome"],
        row["reason"],
        row["source"],
        storable(row["who"]),
        row["diagnostics"],
        quantities,
        row["unobtained"] or {},
        [(storable(name), sha256) for name, sha256, _, _ in new.artifacts],
    )
    return secret_of(connection).keys().seal(content.text)


def ids_of_names(connection: Connection, measured: Sequence[Measured]) -> tuple[dict[str, int], dict[Level, int]]:
    """Returns ({property: id}, {level: id}) of the measured values. Unknown properties and levels are inserted.

    Properties and levels are inserted in order, so that two writers cannot deadlock.
    """
    if not measured:
        return {}, {}
    names = sorted({m.property for m in measured})
    levels = {level.hash: level for level in {m.level for m in measured}}
    property_ids, level_ids = _known_ids(connection, names, sorted(levels))
    if len(property_ids) < len(names) or len(level_ids) < len(levels):
        registered = [properties()[name] for name in names]
        rows = [{"name": p.name, "unit": p.unit, "kind": p.kind, "description": p.description} for p in registered]
        insert_or_ignore(connection, t.property_, rows)
        specs = [{"hash": key, "label": levels[key].label, "spec": asdict(levels[key])} for key in sorted(levels)]
        insert_or_ignore(connection, t.level, specs)
        property_ids, level_ids = _known_ids(connection, names, sorted(levels))
    return property_ids, {level: level_ids[key] for key, level in levels.items()}


def _known_ids(
    connection: Connection, names: Sequence[str], hashes: Sequence[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """({property: id}, {hash of a level: id}) of the properties and levels that are recorded, from a single query."""
    p = t.property_.c
    level = t.level.c
    query = sa.union_all(
        sa.select(sa.literal(True), p.name, p.id).where(among(connection, p.name, names)),
        sa.select(sa.literal(False), level.hash, level.id).where(among(connection, level.hash, hashes)),
    )
    property_ids = {}
    level_ids = {}
    for is_property, key, id_ in connection.execute(query).all():
        if is_property:
            property_ids[key] = id_
        else:
            level_ids[key] = id_
    return property_ids, level_ids


def _evidence_row(evidence: NewEvidence, watermark: int) -> dict[str, Any]:
    finding = evidence.finding
    key = evidence.key
    return {
        "key": key.hash,
        **{name: getattr(key, name) for name in _KEY_COLUMNS},
        **{name: getattr(evidence, name) for name in _NEW_EVIDENCE_COLUMNS},
        "supersedes_id": evidence.supersedes,
        "outcome": finding.outcome,
        "reason": finding.reason,
        "detail": storable(finding.detail[:4000]),
        "reusable": evidence.reusable,
        "diagnostics": finding.diagnostics,
        "unobtained": {name: str(reason) for name, reason in finding.unobtained.items()} or None,
        "who": evidence.who[:200],
        "watermark": watermark,
    }


def find_reusable(
    connection: Connection, candidate_ids: Sequence[int], computation: Computation, replicate: int = 0
) -> dict[int, RecordedEvidence]:
    """{candidate id: its current reusable evidence from this computation}."""
    query = reusable_query(computation).where(t.current_evidence.c.replicate == replicate)
    return {evidence.candidate_id: evidence for evidence in selected_evidence(connection, query, candidate_ids)}


def reusable_query(
    computation: Computation, derived: Collection[str] = (), source: sa.FromClause = t.current_evidence
) -> sa.Select[Any]:
    """A query for the reusable evidence of a computation.

    derived: settings hashes of derived properties whose evidence is selected, too. source: the table of the evidence
    that counts, such as `evidence_as_of` returns.
    """
    e = source.c
    query = sa.select(*(e[name] for name in _RECORDED_COLUMNS)).where(e.reusable == sa.true())
    return query.where(is_of_computation(computation, derived, source))


def is_of_computation(
    computation: Computation, derived: Collection[str] = (), source: sa.FromClause = t.current_evidence
) -> sa.ColumnElement[bool]:
    """A condition that selects the evidence of a computation in `source`.

    derived: settings hashes of derived properties whose evidence is selected, too.
    """
    e = source.c
    is_own = sa.and_(
        e.verifier == computation.verifier,
        e.verifier_version == computation.version,
        e.settings_hash == computation.settings_hash,
    )
    if not derived:
        return is_own
    is_derived = sa.and_(
        e.verifier == DERIVED_VERIFIER, e.verifier_version == VERSION, e.settings_hash.in_(sorted(derived))
    )
    return sa.or_(is_own, is_derived)


def latest_with_revision(
    connection: Connection, candidate_ids: Sequence[int], computation: Computation, replicate: int = 0
) -> dict[int, tuple[RecordedEvidence, int]]:
    """{candidate id: (current evidence of a replicate, its revision)}, also where people have left a quantity open."""
    e = t.current_evidence.c
    query = sa.select(*(e[name] for name in _RECORDED_COLUMNS))
    query = query.where(is_of_computation(computation), e.replicate == replicate)
    found = selected_evidence(connection, query, candidate_ids)
    if not found:
        return {}
    by_candidate = {recorded.candidate_id: recorded for recorded in found}
    e = t.evidence.c
    evidence_ids = [recorded.id for recorded in by_candidate.values()]
    query = sa.select(e.id, e.revision).where(among(connection, e.id, evidence_ids))
    revisions = {id_: revision for id_, revision in connection.execute(query)}
    return {id_: (recorded, revisions[recorded.id]) for id_, recorded in by_candidate.items()}


def evidence_as_of(watermark: int) -> sa.Subquery:
    """The evidence that was current at a watermark, with the columns of `current_evidence`."""
    e = t.evidence.c
    later = t.evidence.alias("later")
    superseded = sa.exists().where(later.c.supersedes_id == e.id, later.c.watermark <= watermark)
    return sa.select(*t.evidence.c).where(e.watermark <= watermark, ~superseded).subquery("evidence_as_of")


def selected_evidence(
    connection: Connection,
    query: sa.Select[Any],
    candidate_ids: Sequence[int],
    source: sa.FromClause = t.current_evidence,
) -> list[RecordedEvidence]:
    """The evidence of these candidates that a query selects from `source`, with its values.

    query: selects the columns `_RECORDED_COLUMNS`, as from `reusable_query`.
    """
    e = source.c
    q = t.quantity.c
    n_columns = len(_RECORDED_COLUMNS)
    query = query.add_columns(*_MEASURED_COLUMNS).select_from(source.outerjoin(t.quantity, q.evidence_id == e.id))
    query = query.where(among(connection, e.candidate_id, candidate_ids)).order_by(e.replicate, e.id, q.id)
    rows = connection.execute(query).all()
    evidence_rows = {}
    value_rows = []
    for row in rows:  # evidence with several values has several rows; evidence without values has one, of nulls
        evidence_id = row[0]
        evidence_rows[evidence_id] = row[:n_columns]
        value_columns = row[n_columns:]
        if value_columns[0] is not None:
            value_rows.append((evidence_id, *value_columns))
    measured = _measured(connection, value_rows)
    return [_recorded(row, measured.get(id_, ())) for id_, row in evidence_rows.items()]


def by_key(connection: Connection, key: str) -> RecordedEvidence | None:
    """The evidence with this key; None if there is none."""
    columns = (t.evidence.c[name] for name in _RECORDED_COLUMNS)
    row = connection.execute(sa.select(*columns).where(t.evidence.c.key == key)).one_or_none()
    return None if row is None else _recorded(row, measured_of(connection, [row[0]]).get(row[0], ()))


def measured_of(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, tuple[Measured, ...]]:
    """{evidence id: values}."""
    q = t.quantity.c
    query = (
        sa.select(q.evidence_id, *_MEASURED_COLUMNS)
        .where(among(connection, q.evidence_id, evidence_ids))
        .order_by(q.id)
    )
    return _measured(connection, connection.execute(query).all())


def _kinds_and_isomers(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, Mapping[str, object]]:
    """{evidence id: the diagnostics on the kinds of uncertainties and on the computed isomer}."""
    e = t.evidence.c
    query = sa.select(e.id, e.diagnostics[UNCERTAINTY_KIND], e.diagnostics[ISOMER])
    rows = connection.execute(query.where(among(connection, e.id, evidence_ids)))
    return {int(id_): {UNCERTAINTY_KIND: kinds, ISOMER: isomer} for id_, kinds, isomer in rows}


def _measured(connection: Connection, rows: Sequence[Sequence[Any]]) -> dict[int, tuple[Measured, ...]]:
    """{evidence id: values}, with the kinds of their uncertainties and the computed isomers.

    rows: (evidence id, then the columns `_MEASURED_COLUMNS`).
    """
    names = property_names(connection, {row[1] for row in rows})
    levels = levels_of(connection, {row[2] for row in rows})
    by_evidence: dict[int, list[Measured]] = {}
    uncertain_ids = set()
    for evidence_id, property_id, level_id, value, uncertainty, unit, censoring, n, as_typed in rows:
        quantity = Quantity(value, unit, uncertainty, CENSORING_BY_TEXT[censoring], n, as_typed)
        by_evidence.setdefault(evidence_id, []).append(Measured(names[property_id], levels[level_id], quantity))
        # a value without uncertainty has no kind of it, and was computed on no geometry
        if uncertainty:
            uncertain_ids.add(evidence_id)
    diagnostics = _kinds_and_isomers(connection, sorted(uncertain_ids)) if uncertain_ids else {}
    return {id_: with_kinds_and_isomer(values, diagnostics.get(id_, {})) for id_, values in by_evidence.items()}


def stored_units(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """{property: canonical unit} of the properties that the ledger knows."""
    p = t.property_.c
    query = sa.select(p.name, p.unit).where(p.name.in_(names))
    return {str(name): str(unit) for name, unit in connection.execute(query)} if names else {}


def property_names(connection: Connection, property_ids: Set[int]) -> dict[int, str]:
    """{property id: name}."""
    p = t.property_.c
    query = sa.select(p.id, p.name).where(p.id.in_(sorted(property_ids)))
    return {int(id_): str(name) for id_, name in connection.execute(query)} if property_ids else {}


def levels_of(connection: Connection, level_ids: Set[int]) -> dict[int, Level]:
    """{level id: level}."""
    query = sa.select(t.level.c.id, t.level.c.spec).where(t.level.c.id.in_(sorted(level_ids)))
    return {int(id_): Level(**spec) for id_, spec in connection.execute(query)} if level_ids else {}


def _recorded(row: Sequence[Any], measured: tuple[Measured, ...]) -> RecordedEvidence:
    """The evidence as read. row: the columns `_RECORDED_COLUMNS`."""
    id_, key, candidate_id, outcome, reason, detail, watermark, unobtained = row
    known_reason = Reason(reason) if reason else None
    reasons = {name: Reason(text) for name, text in unobtained.items()} if unobtained else {}
    return RecordedEvidence(
        id_, key, candidate_id, Outcome(outcome), known_reason, detail or "", watermark, measured, reasons
    )


def register_ledger_properties(connection: Connection) -> None:
    """Register the ledger's properties that no package of this process defines, such as a notebook's own property."""
    p = t.property_.c
    for name, unit, kind, description in connection.execute(sa.select(p.name, p.unit, p.kind, p.description)):
        if name not in properties():
            properties().add(Property(name, (unit,), description, Kind(kind)), "the ledger")
