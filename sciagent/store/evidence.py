"""Evidence: recorded once, never changed, superseded by revisions, found again for reuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence import EvidenceKey, Finding, Measured
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level, properties
from sciagent.domain.quantities import Censoring, Quantity, convert
from sciagent.errors import EvidenceConflictError, LedgerError
from sciagent.store import tables as t
from sciagent.store.candidates import insert_or_ignore
from sciagent.store.clock import db_now


@dataclass(frozen=True)
class NewEvidence:
    """A finding on its way into the ledger. artifacts: (name, sha256, size, media type) already in the store.

    source: `computed` or the name of an imported file. supersedes: the evidence this revision replaces.
    """

    finding: Finding
    key: EvidenceKey
    candidate_id: int
    attempt_id: int | None = None
    proposal_id: int | None = None
    versions: dict[str, str] = field(default_factory=dict)
    artifacts: tuple[tuple[str, str, int, str], ...] = ()
    source: str = "computed"
    who: str = "sciagent"
    why: str | None = None
    supersedes: int | None = None
    reusable: bool = True


@dataclass(frozen=True)
class Recorded:
    """Evidence as it stands in the ledger."""

    id: int
    key: str
    candidate_id: int
    outcome: Outcome
    reason: Reason | None
    detail: str
    watermark: int
    measured: tuple[Measured, ...] = ()
    diagnostics: dict[str, Any] = field(default_factory=dict)


def next_watermark(connection: Connection) -> int:
    """Take the next number; the row stays locked until commit, so the order of numbers is the order of commits."""
    statement = sa.update(t.watermark).where(t.watermark.c.id == 1).values(value=t.watermark.c.value + 1)
    return int(connection.execute(statement.returning(t.watermark.c.value)).scalar_one())


def read_watermark(connection: Connection) -> int:
    return int(connection.execute(sa.select(t.watermark.c.value).where(t.watermark.c.id == 1)).scalar_one())


def record(connection: Connection, new: Sequence[NewEvidence]) -> list[int]:
    """Record all of it or nothing; returns evidence ids in order.

    Raises EvidenceConflictError if one of the keys stands already: the caller decides whether to keep the first
    (`find`) or to write a revision. Raises LedgerError for an outcome that is no evidence, or a value of an
    unregistered property.
    """
    ids: list[int] = []
    now = db_now(connection)
    for one in new:
        finding = one.finding
        if not finding.outcome.rule.is_evidence:
            raise LedgerError(f"outcome {finding.outcome} is no evidence; it belongs to the attempt")
        mark = next_watermark(connection)
        values = {
            "key": one.key.hash, "candidate_id": one.candidate_id, "proposal_id": one.proposal_id,
            "verifier": one.key.verifier, "verifier_version": one.key.verifier_version,
            "settings_hash": one.key.settings_hash, "inputs_hash": one.key.inputs_hash,
            "replicate": one.key.replicate, "revision": one.key.revision, "supersedes_id": one.supersedes,
            "outcome": finding.outcome, "reason": finding.reason, "detail": finding.detail[:4000],
            "reusable": one.reusable and finding.outcome.rule.reusable, "diagnostics": finding.diagnostics,
            "versions": one.versions, "source": one.source, "who": one.who, "why": one.why,
            "attempt_id": one.attempt_id, "watermark": mark, "at": now,
        }  # fmt: skip
        try:
            with connection.begin_nested():
                evidence_id = connection.execute(
                    sa.insert(t.evidence).values(values).returning(t.evidence.c.id)
                ).scalar_one()
        except sa.exc.IntegrityError as error:
            raise EvidenceConflictError(f"evidence {one.key.hash[:12]} ({one.key.verifier}) stands already") from error
        _write_quantities(connection, evidence_id, finding.measured)
        if one.artifacts:
            connection.execute(
                sa.insert(t.artifact),
                [
                    {"evidence_id": evidence_id, "name": n, "sha256": h, "size": s, "media_type": m}
                    for n, h, s, m in one.artifacts
                ],
            )
        ids.append(evidence_id)
    return ids


def _write_quantities(connection: Connection, evidence_id: int, measured: Sequence[Measured]) -> None:
    rows = []
    for one in measured:
        prop = properties()[one.property]
        quantity = convert(one.quantity, prop)
        rows.append(
            {
                "evidence_id": evidence_id, "property_id": property_id(connection, one.property),
                "level_id": level_id(connection, one.level), "value": quantity.value,
                "uncertainty": quantity.uncertainty, "unit": quantity.unit, "censoring": quantity.censoring,
                "n": quantity.n, "as_typed": quantity.as_typed,
            }
        )  # fmt: skip
    if rows:
        connection.execute(sa.insert(t.quantity), rows)


def property_id(connection: Connection, name: str) -> int:
    prop = properties()[name]
    query = sa.select(t.property_.c.id).where(t.property_.c.name == name)
    if (found := connection.execute(query).scalar()) is None:
        row = {"name": name, "unit": prop.unit, "kind": prop.kind, "description": prop.description}
        insert_or_ignore(connection, t.property_, [row])
        found = connection.execute(query).scalar_one()
    return int(found)


def level_id(connection: Connection, level: Level) -> int:
    query = sa.select(t.level.c.id).where(t.level.c.hash == level.hash)
    if (found := connection.execute(query).scalar()) is None:
        insert_or_ignore(connection, t.level, [{"hash": level.hash, "label": level.label, "spec": asdict(level)}])
        found = connection.execute(query).scalar_one()
    return int(found)


def find_reusable(
    connection: Connection,
    candidate_ids: Sequence[int],
    verifier: str,
    version: str,
    settings_hash: str,
    replicate: int = 0,
) -> dict[int, Recorded]:
    """Current reusable evidence by candidate id; the settings must be the same to the letter."""
    e = t.current_evidence.c
    query = sa.select(t.current_evidence).where(
        e.candidate_id.in_(candidate_ids),
        e.verifier == verifier,
        e.verifier_version == version,
        e.settings_hash == settings_hash,
        e.replicate == replicate,
        e.reusable == sa.true(),
    )
    rows = connection.execute(query).mappings().all()
    values = measured_of(connection, [r["id"] for r in rows])
    return {r["candidate_id"]: _recorded(r, values.get(r["id"], ())) for r in rows}


def get(connection: Connection, evidence_id: int) -> Recorded:
    row = connection.execute(sa.select(t.evidence).where(t.evidence.c.id == evidence_id)).mappings().one()
    return _recorded(row, measured_of(connection, [evidence_id]).get(evidence_id, ()))


def by_key(connection: Connection, key: str) -> Recorded | None:
    row = connection.execute(sa.select(t.evidence).where(t.evidence.c.key == key)).mappings().one_or_none()
    return None if row is None else _recorded(row, measured_of(connection, [row["id"]]).get(row["id"], ()))


def measured_of(connection: Connection, evidence_ids: Sequence[int]) -> dict[int, tuple[Measured, ...]]:
    found: dict[int, list[Measured]] = {}
    q = t.quantity.c
    for start in range(0, len(evidence_ids), 500):
        rows = connection.execute(
            sa.select(
                q.evidence_id,
                t.property_.c.name,
                t.level.c.spec,
                q.value,
                q.uncertainty,
                q.unit,
                q.censoring,
                q.n,
                q.as_typed,
            )
            .join(t.property_, t.property_.c.id == q.property_id)
            .join(t.level, t.level.c.id == q.level_id)
            .where(q.evidence_id.in_(evidence_ids[start : start + 500]))
            .order_by(q.id)
        )
        for evidence_id, name, spec, value, uncertainty, unit, censoring, n, typed in rows:
            quantity = Quantity(value, unit, uncertainty, Censoring(censoring), n, typed)
            found.setdefault(evidence_id, []).append(Measured(name, Level(**spec), quantity))
    return {k: tuple(v) for k, v in found.items()}


def _recorded(row: Any, measured: tuple[Measured, ...]) -> Recorded:
    return Recorded(
        row["id"], row["key"], row["candidate_id"], Outcome(row["outcome"]),
        Reason(row["reason"]) if row["reason"] else None, row["detail"] or "", row["watermark"], measured,
        row["diagnostics"] or {},
    )  # fmt: skip
