"""Evidence: recorded once, never changed, superseded by revisions, and looked up for reuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.derived import DERIVED_VERIFIER, VERSION
from sciagent.domain.evidence import (
    UNCERTAINTY_KIND,
    Computation,
    EvidenceKey,
    Finding,
    Measured,
    with_uncertainty_kinds,
)
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Kind, Level, Property, properties
from sciagent.domain.quantities import Censoring, Quantity, convert
from sciagent.domain.text import storable
from sciagent.errors import EvidenceConflictError, LedgerError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, execute_many, insert_many, insert_or_ignore
from sciagent.store.database.engine import db_now


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
    source: str = "computed"
    """`computed` or the name of an imported file."""
    who: str = "sciagent"
    why: str | None = None
    supersedes: int | None = None
    """Id of the evidence that this revision replaces."""
    reusable: bool = True


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


IMPORT = "import"  # the verifier of imported values
UNKNOWN = "the evidence names a candidate, attempt, proposal or revision that is not in the ledger"
CENSORED = {str(censoring): censoring for censoring in Censoring}
_MEASURED = tuple(
    t.quantity.c[name]
    for name in ("property_id", "level_id", "value", "uncertainty", "unit", "censoring", "n", "as_typed")
)
_OF_KEY = ("verifier", "verifier_version", "settings_hash", "inputs_hash", "replicate", "revision")
_OF_EVIDENCE = ("candidate_id", "proposal_id", "versions", "source", "why", "attempt_id")
_key_values = attrgetter(*_OF_KEY)
_evidence_values = attrgetter(*_OF_EVIDENCE)
_RECORDED = ("id", "key", "candidate_id", "outcome", "reason", "detail", "watermark")


def next_watermark(connection: Connection, n: int = 1) -> int:
    """Take the next n watermarks and return the last.

    The row stays locked until commit, so that the order of the numbers is the order of the commits.
    """
    statement = sa.update(t.watermark).where(t.watermark.c.id == 1).values(value=t.watermark.c.value + n)
    return int(connection.execute(statement.returning(t.watermark.c.value)).scalar_one())


def read_watermark(connection: Connection) -> int:
    return int(connection.execute(sa.select(t.watermark.c.value).where(t.watermark.c.id == 1)).scalar_one())


def record(connection: Connection, new: Sequence[NewEvidence]) -> list[int]:
    """Record all of the evidence or nothing; returns evidence ids in order.

    Raises EvidenceConflictError if a key is already recorded, or if the superseded evidence has another revision. The
    caller then keeps the first evidence or writes a revision, in the same transaction. Raises LedgerError for an
    outcome that is not evidence, or a value given twice; UnknownNameError for an unregistered property; UnitError for
    a wrong unit. Nothing is written if an error is raised.
    """
    revised = [evidence.supersedes for evidence in new if evidence.supersedes is not None]
    try:
        with connection.begin_nested():
            ids = {recorded.id for recorded in record_once(connection, new) if isinstance(recorded, RecordedEvidence)}
            if len(ids) < len(new):
                raise EvidenceConflictError(f"evidence of {new[0].key.verifier} stands already under one of these keys")
            return sorted(ids)  # ids ascend in the order of the evidence
    except LedgerError as error:
        e = t.evidence.c
        later = sa.select(e.supersedes_id).where(among(connection, e.supersedes_id, revised))
        if (id_ := connection.execute(later).scalar()) is not None:
            text = f"evidence {id_} has been superseded; revise its latest revision"
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
    last = next_watermark(connection, len(new))
    existing = ids_by_key(connection, [evidence.key.hash for evidence in new])
    fresh = {evidence.key.hash: evidence for evidence in new if evidence.key.hash not in existing}
    if surplus := len(new) - len(fresh):
        last = next_watermark(connection, -surplus)
    try:
        recorded = _record(connection, list(fresh.values()), [measured[key] for key in fresh], last)
    except sa.exc.IntegrityError as error:
        raise LedgerError(UNKNOWN) from error
    by_hash = dict(zip(fresh, recorded, strict=True))
    return [by_hash[key] if (key := evidence.key.hash) in by_hash else existing[key] for evidence in new]


def ids_by_key(connection: Connection, keys: Sequence[str]) -> dict[str, int]:
    """{evidence key: id} of the keys that are recorded."""
    e = t.evidence.c
    return {key: id_ for key, id_ in connection.execute(sa.select(e.key, e.id).where(among(connection, e.key, keys)))}


def _checked(evidence: NewEvidence) -> tuple[Measured, ...]:
    """The measured values as they will be read. Raises LedgerError if a value is given twice."""
    finding = evidence.finding
    if not finding.outcome.rule.is_evidence:
        raise LedgerError(f"outcome {finding.outcome} is no evidence; it belongs to the attempt")
    if len(finding.measured) > 1:
        places = [(m.property, m.level) for m in finding.measured]
        if len(set(places)) != len(places):
            names = sorted(name for name, _ in places)
            raise LedgerError(f"{evidence.key.verifier} gives a property twice at one level: {names}")
    return tuple(_as_read(m) for m in finding.measured)


_QUANTITY = ("value", "unit", "uncertainty", "censoring", "n", "as_typed")
"""The fields of a quantity that are columns. The kind of its uncertainty is in the diagnostics of the evidence."""


def _as_read(measured: Measured) -> Measured:
    """The value in its canonical unit, with numbers and texts as the database returns them."""
    q = convert(measured.quantity, properties()[measured.property])
    plain = q.uncertainty is None and q.as_typed is None and q.n == 1 and q.censoring is Censoring.NONE
    if plain and q is measured.quantity and type(q.value) is float:
        return measured  # the usual case
    typed = None if q.as_typed is None else storable(q.as_typed)
    uncertainty = None if q.uncertainty is None else float(q.uncertainty)
    quantity = Quantity(float(q.value), q.unit, uncertainty, Censoring(q.censoring), q.n, typed)
    return Measured(measured.property, measured.level, quantity)


def _record(
    connection: Connection, new: Sequence[NewEvidence], measured: Sequence[tuple[Measured, ...]], last: int
) -> list[RecordedEvidence]:
    """Write the evidence with a single statement per table. last: the watermark of the last evidence."""
    rows = [_row(evidence, last - len(new) + 1 + i) for i, evidence in enumerate(new)]
    ids = insert_many(connection, t.evidence, rows, {"at": db_now(connection)})
    property_ids, level_ids = ids_of_names(connection, list(chain.from_iterable(measured)))
    quantities = []
    for id_, mine in zip(ids, measured, strict=True):
        for m in mine:
            quantities.append(
                {
                    "evidence_id": id_,
                    "property_id": property_ids[m.property],
                    "level_id": level_ids[m.level],
                    **{name: getattr(m.quantity, name) for name in _QUANTITY},
                }
            )
    execute_many(connection, t.quantity, quantities)
    artifacts = []
    for id_, evidence in zip(ids, new, strict=True):
        for name, sha256, size, media_type in evidence.artifacts:
            named = {"evidence_id": id_, "name": name}
            artifacts.append({**named, "sha256": sha256, "size": size, "media_type": media_type})
    execute_many(connection, t.artifact, artifacts)
    told = [
        with_uncertainty_kinds(mine, row["diagnostics"].get(UNCERTAINTY_KIND))
        for row, mine in zip(rows, measured, strict=True)
    ]
    return [
        _recorded((id_, *map(row.__getitem__, _RECORDED[1:])), mine)
        for id_, row, mine in zip(ids, rows, told, strict=True)
    ]


def ids_of_names(connection: Connection, measured: Sequence[Measured]) -> tuple[dict[str, int], dict[Level, int]]:
    """Returns ({property: id}, {level: id}). A single statement reads the known ones; the others are inserted.

    Properties and levels are inserted in order, so that two writers cannot deadlock.
    """
    names = sorted({m.property for m in measured})
    levels = {level.hash: level for level in {m.level for m in measured}}
    known = _known(connection, names, sorted(levels)) if measured else {}
    if len(known) < len(names) + len(levels):
        new = map(properties().__getitem__, names)
        rows = [{"name": p.name, "unit": p.unit, "kind": p.kind, "description": p.description} for p in new]
        insert_or_ignore(connection, t.property_, rows)
        specs = [{"hash": key, "label": levels[key].label, "spec": asdict(levels[key])} for key in sorted(levels)]
        insert_or_ignore(connection, t.level, specs)
        known = _known(connection, names, sorted(levels))
    return {name: known[True, name] for name in names}, {level: known[False, key] for key, level in levels.items()}


def _known(connection: Connection, names: Sequence[str], hashes: Sequence[str]) -> dict[tuple[bool, str], int]:
    """{(True, name of a property) or (False, hash of a level): id}."""
    p = t.property_.c
    level = t.level.c
    query = sa.union_all(
        sa.select(sa.literal(True), p.name, p.id).where(among(connection, p.name, names)),
        sa.select(sa.literal(False), level.hash, level.id).where(among(connection, level.hash, hashes)),
    )
    return {(bool(is_name), key): id_ for is_name, key, id_ in connection.execute(query).all()}


def _row(evidence: NewEvidence, watermark: int) -> dict[str, Any]:
    finding = evidence.finding
    key = evidence.key
    return {
        "key": key.hash,
        **dict(zip(_OF_KEY, _key_values(key), strict=True)),
        **dict(zip(_OF_EVIDENCE, _evidence_values(evidence), strict=True)),
        "supersedes_id": evidence.supersedes,
        "outcome": finding.outcome,
        "reason": finding.reason,
        "detail": storable(finding.detail[:4000]),
        "reusable": evidence.reusable,
        "diagnostics": finding.diagnostics,
        "who": evidence.who[:200],
        "watermark": watermark,
    }


def find_reusable(
    connection: Connection, candidate_ids: Sequence[int], computation: Computation, replicate: int = 0
) -> dict[int, RecordedEvidence]:
    """{candidate id: current reusable evidence} with identical settings."""
    query = reusable(computation).where(t.current_evidence.c.replicate == replicate)
    return {evidence.candidate_id: evidence for evidence in all_of(connection, query, candidate_ids)}


def reusable(
    computation: Computation, derived: Collection[str] = (), source: sa.FromClause = t.current_evidence
) -> sa.Select[Any]:
    """A query for reusable evidence. derived: as in `under`. source: the evidence that counts, as from
    `evidence_as_of`."""
    e = source.c
    query = sa.select(*(e[name] for name in _RECORDED)).where(e.reusable == sa.true())
    return query.where(under(computation, derived, source))


def under(
    computation: Computation, derived: Collection[str] = (), source: sa.FromClause = t.current_evidence
) -> sa.ColumnElement[bool]:
    """A condition that selects the evidence of a computation. derived: settings hashes of derived properties whose
    evidence is selected, too."""
    e = source.c
    of = (e.verifier, e.verifier_version, e.settings_hash)
    own = sa.and_(*(column == value for column, value in zip(of, computation, strict=True)))
    if not derived:
        return own
    also = sa.and_(e.verifier == DERIVED_VERIFIER, e.verifier_version == VERSION, e.settings_hash.in_(sorted(derived)))
    return sa.or_(own, also)


def latest(
    connection: Connection, candidate_ids: Sequence[int], computation: Computation, replicate: int = 0
) -> dict[int, tuple[RecordedEvidence, int]]:
    """{candidate id: (current reusable evidence of a replicate, its revision)}."""
    found = find_reusable(connection, candidate_ids, computation, replicate)
    e = t.evidence.c
    query = sa.select(e.id, e.revision).where(among(connection, e.id, [recorded.id for recorded in found.values()]))
    revisions = dict(map(tuple, connection.execute(query))) if found else {}
    return {id_: (recorded, revisions[recorded.id]) for id_, recorded in found.items()}


def evidence_as_of(watermark: int) -> sa.Subquery:
    """The evidence that was current at a watermark, with the columns of `current_evidence`."""
    e = t.evidence.c
    later = t.evidence.alias("later")
    superseded = sa.exists().where(later.c.supersedes_id == e.id, later.c.watermark <= watermark)
    return sa.select(*t.evidence.c).where(e.watermark <= watermark, ~superseded).subquery("evidence_as_of")


def all_of(
    connection: Connection,
    query: sa.Select[Any],
    candidate_ids: Sequence[int],
    source: sa.FromClause = t.current_evidence,
) -> list[RecordedEvidence]:
    """The evidence of these candidates that a query selects from `source`, with its values."""
    e = source.c
    q = t.quantity.c
    width = len(_RECORDED)
    query = query.add_columns(*_MEASURED).select_from(source.outerjoin(t.quantity, q.evidence_id == e.id))
    query = query.where(among(connection, e.candidate_id, candidate_ids)).order_by(e.replicate, e.id, q.id)
    rows = connection.execute(query).all()
    measured = _measured(connection, [(row[0], *row[width:]) for row in rows if row[width] is not None])
    return [_recorded(row, measured.get(row[0], ())) for row in {row[0]: row[:width] for row in rows}.values()]


def by_key(connection: Connection, key: str) -> RecordedEvidence | None:
    """The evidence with this key; None if there is none."""
    columns = (t.evidence.c[name] for name in _RECORDED)
    row = connection.execute(sa.select(*columns).where(t.evidence.c.key == key)).one_or_none()
    return None if row is None else _recorded(row, measured_of(connection, [row[0]]).get(row[0], ()))


def measured_of(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, tuple[Measured, ...]]:
    """{evidence id: values}."""
    q = t.quantity.c
    query = sa.select(q.evidence_id, *_MEASURED).where(among(connection, q.evidence_id, evidence_ids)).order_by(q.id)
    return _measured(connection, connection.execute(query).all())


def _uncertainty_kinds(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, object]:
    """{evidence id: {property: kind of its uncertainty}} of the evidence that states it."""
    e = t.evidence.c
    kinds = e.diagnostics[UNCERTAINTY_KIND]
    rows = connection.execute(sa.select(e.id, kinds).where(among(connection, e.id, evidence_ids)))
    return {int(id_): stated for id_, stated in rows}


def _measured(connection: Connection, rows: Sequence[Sequence[Any]]) -> dict[int, tuple[Measured, ...]]:
    """Values by evidence id, with the kinds of their uncertainties. rows: (evidence id, columns `_MEASURED`)."""
    names = property_names(connection, {row[1] for row in rows})
    levels = _levels(connection, {row[2] for row in rows})
    by_evidence: dict[int, list[Measured]] = {}
    uncertain = set()
    for evidence_id, property_id, level_id, value, uncertainty, unit, censoring, n, typed in rows:
        quantity = Quantity(value, unit, uncertainty, CENSORED[censoring], n, typed)
        by_evidence.setdefault(evidence_id, []).append(Measured(names[property_id], levels[level_id], quantity))
        if uncertainty:
            uncertain.add(evidence_id)
    kinds = _uncertainty_kinds(connection, sorted(uncertain)) if uncertain else {}
    return {id_: with_uncertainty_kinds(values, kinds.get(id_)) for id_, values in by_evidence.items()}


def stored_units(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    """{property: canonical unit} of those of the properties that the ledger knows."""
    p = t.property_.c
    query = sa.select(p.name, p.unit).where(p.name.in_(names))
    return {str(name): str(unit) for name, unit in connection.execute(query)} if names else {}


def property_names(connection: Connection, property_ids: Set[int]) -> dict[int, str]:
    """{property id: name}."""
    p = t.property_.c
    query = sa.select(p.id, p.name).where(p.id.in_(sorted(property_ids)))
    return {int(id_): str(name) for id_, name in connection.execute(query)} if property_ids else {}


def _levels(connection: Connection, level_ids: Set[int]) -> dict[int, Level]:
    """{level id: level}."""
    query = sa.select(t.level.c.id, t.level.c.spec).where(t.level.c.id.in_(sorted(level_ids)))
    return {int(id_): Level(**spec) for id_, spec in connection.execute(query)} if level_ids else {}


def _recorded(row: Sequence[Any], measured: tuple[Measured, ...]) -> RecordedEvidence:
    id_, key, candidate_id, outcome, reason, detail, watermark = row
    why = Reason(reason) if reason else None
    return RecordedEvidence(id_, key, candidate_id, Outcome(outcome), why, detail or "", watermark, measured)


def know_properties(connection: Connection) -> None:
    """Register properties of the ledger that no package of this process defines, such as those of a notebook."""
    p = t.property_.c
    for name, unit, kind, description in connection.execute(sa.select(p.name, p.unit, p.kind, p.description)):
        if name not in properties():
            properties().add(Property(name, (unit,), description, Kind(kind)), "the ledger")
