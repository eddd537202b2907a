"""The content of evidence as one canonical text, and the seal of computed evidence over this text.

The text is a JSON list without spaces, in ASCII:

    [form, key, revision, superseded, outcome, reason, source, who, kinds, isomer, quantities, unobtained, artifacts]

`form` is the number of this form. `superseded` is the key of the evidence that this revision supersedes, or empty.
`quantities` are lists `[property, hash of the level, value, unit, uncertainty, censoring, n, as typed]`, `unobtained`
are lists `[property, reason]`, and `artifacts` are lists `[name, SHA-256]`, all sorted. `kinds` and `isomer` are the
kinds of the uncertainties and the computed stereoisomer, which the diagnostics hold. A float is the shortest text that
gives the same double; both databases return the double that was stored, except that SQLite knows no negative zero, so
that zero has no sign here.

Computed evidence has `SealingKeys.seal` of its text in the column `seal`. Evidence that people entered or imported has
none: an entry of the audit trail holds the SHA-256 of its text (see `digest_between`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import (
    ISOMER,
    STATED_KINDS,
    UNCERTAINTY_KIND,
    EvidenceKey,
    isomer_from_diagnostics,
)
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.safe_text_and_durations import storable
from sciagent.errors import LedgerError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import UnreadableRow, among, read_each
from sciagent.store.database.evidence_secret import SealingKeys, secret_of

COMPUTED = "computed"
"""The source of computed evidence; that of all other evidence names a task or a file."""
FORM = 1
PAGE = 2000  # rows of evidence that one query reads
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_TEXT_COLUMNS = ("key", "revision", "outcome", "reason", "source", "who")
_KEY_COLUMNS = ("verifier", "verifier_version", "settings_hash", "inputs_hash", "replicate", "revision")

_REVISION_COLUMNS = ("candidate_id", "verifier", "verifier_version", "settings_hash", "replicate", "revision")

# statements that are built once, since a campaign checks one piece of evidence after the other
_E = t.evidence.c
_Q = t.quantity.c
_A = t.artifact.c
_SUPERSEDED = t.evidence.alias("superseded")
_S = _SUPERSEDED.c
_IDS: sa.BindParameter[Any] = sa.bindparam("ids", expanding=True)
_EVIDENCE = (
    sa.select(*(_E[name] for name in dict.fromkeys((*_TEXT_COLUMNS, *_KEY_COLUMNS))))
    .add_columns(
        _E.id, _E.watermark, _E.seal, _E.diagnostics, _E.unobtained, _E.proposal_id, t.candidate.c.key.label("subject")
    )
    .add_columns(_E.candidate_id, _E.supersedes_id, _S.id.label("superseded_id"), _S.key.label("superseded_key"))
    .add_columns(
        _S.seal.label("superseded_seal"), *(_S[name].label(f"superseded_{name}") for name in _REVISION_COLUMNS)
    )
    .add_columns(sa.exists().where(_A.evidence_id == _E.id).label("has_files"))
    .select_from(
        t.evidence.join(t.candidate, t.candidate.c.id == _E.candidate_id).outerjoin(
            _SUPERSEDED, _S.id == _E.supersedes_id
        )
    )
    .where(_E.id.in_(_IDS))
    .order_by(_E.watermark)
)
_QUANTITIES = (
    sa.select(_Q.evidence_id, t.property_.c.name, t.level.c.hash)
    .add_columns(_Q.value, _Q.unit, _Q.uncertainty, _Q.censoring, _Q.n, _Q.as_typed)
    .join(t.property_, t.property_.c.id == _Q.property_id)
    .join(t.level, t.level.c.id == _Q.level_id)
    .where(_Q.evidence_id.in_(_IDS))
)
_ARTIFACTS = sa.select(_A.evidence_id, _A.name, _A.sha256).where(_A.evidence_id.in_(_IDS))


@dataclass(frozen=True)
class SealedQuantity:
    """A quantity as it enters the text, in the canonical unit."""

    name: str
    """Name of the property."""
    level: str
    """Hash of the level."""
    value: float
    unit: str
    uncertainty: float | None
    censoring: str
    n: int
    as_typed: str | None

    @property
    def parts(self) -> list[Any]:
        """The fields as they stand in the text."""
        uncertainty = None if self.uncertainty is None else self.uncertainty + 0.0
        return [
            self.name, self.level, self.value + 0.0, self.unit, uncertainty, self.censoring, self.n, self.as_typed
        ]  # fmt: skip


@dataclass(frozen=True)
class EvidenceContent:
    """The content of a row of evidence, with its values and files."""

    key: str
    revision: int
    superseded: str
    """Key of the evidence that this revision supersedes; empty without one."""
    outcome: str
    reason: str | None
    source: str
    who: str
    diagnostics: Mapping[str, Any]
    quantities: Sequence[SealedQuantity]
    unobtained: Mapping[str, str]
    """Reasons by property of the quantities that people could not obtain."""
    artifacts: Sequence[tuple[str, str]]
    """(name, SHA-256) of each file."""

    @cached_property
    def text(self) -> str:
        """The canonical text; see the module."""
        kinds: list[tuple[str, str]] = []
        isomer: list[Any] | None = None
        if self.diagnostics:
            kinds = _kinds(self.diagnostics)
            isomer = _isomer(self.diagnostics)
        quantities = [quantity.parts for quantity in self.quantities]
        if len(quantities) > 1:
            quantities.sort(key=_place)
        return _ENCODE(
            [
                FORM, self.key, self.revision, self.superseded, self.outcome, self.reason, self.source, self.who,
                kinds, isomer, quantities, sorted(self.unobtained.items()), sorted(self.artifacts),
            ]
        )  # fmt: skip


def _place(parts: Sequence[Any]) -> tuple[str, str]:
    """The property and the level of a quantity, of which evidence has each pair once."""
    return parts[0], parts[1]


def _kinds(diagnostics: Mapping[str, Any]) -> list[tuple[str, str]]:
    stated = diagnostics.get(UNCERTAINTY_KIND)
    if not isinstance(stated, Mapping):
        return []
    return sorted((storable(name), kind) for name, kind in stated.items() if kind in STATED_KINDS)


def _isomer(diagnostics: Mapping[str, Any]) -> list[Any] | None:
    isomer = isomer_from_diagnostics(diagnostics.get(ISOMER))
    if isomer is None:
        return None
    return [storable(part) if isinstance(part, str) else part for part in astuple(isomer)]


@lru_cache(maxsize=1024)
def level_hash(level: Level) -> str:
    """The hash of a level, computed once."""
    return level.hash


@dataclass(frozen=True)
class ResultRevision:
    """A revision of a result: the candidate, the computation and the replicate, and the number of the revision."""

    candidate_id: int
    verifier: str
    verifier_version: str
    settings_hash: str
    replicate: int
    revision: int
    is_sealed: bool

    @property
    def result(self) -> tuple[int, str, str, str, int]:
        """The result of which this is a revision."""
        return self.candidate_id, self.verifier, self.verifier_version, self.settings_hash, self.replicate


@dataclass(frozen=True)
class CheckedEvidence:
    """A row of evidence as a check reads it."""

    id: int
    watermark: int
    revision: ResultRevision
    content: EvidenceContent
    seal: str | None
    has_own_key: bool
    """Whether the key is the hash of the candidate, the verifier, the settings, the replicate and the revision that the
    row names."""
    supersedes_id: int | None
    """Id of the evidence that the row names as superseded."""
    superseded: ResultRevision | None
    """The evidence with this id; None if there is none."""

    @property
    def verifier(self) -> str:
        """The verifier of the row."""
        return self.revision.verifier


def evidence_after(connection: Connection, watermark: int | None, limit: int = PAGE) -> list[CheckedEvidence]:
    """The next rows of evidence above a watermark, in the order of watermarks. watermark: None for the first rows,
    whatever their watermarks are."""
    ids = _ids_after(connection, watermark, limit)
    return _read(connection, ids) if ids else []


def _ids_after(connection: Connection, watermark: int | None, limit: int) -> list[int]:
    """The ids of the next rows of evidence; the parameters are those of `evidence_after`."""
    page = sa.select(_E.id).order_by(_E.watermark).limit(limit)
    if watermark is not None:
        page = page.where(_E.watermark > watermark)
    return list(connection.execute(page).scalars())


def readable_pages(connection: Connection) -> Iterator[list[CheckedEvidence | UnreadableRow]]:
    """Yields all rows of evidence in pages, in the order of watermarks, with an error in the place of each row that
    cannot be read."""
    watermark: int | None = None
    while True:
        ids = _ids_after(connection, watermark, PAGE)
        if ids:
            yield read_each(ids, lambda part: _read_with_texts(connection, part))
        if len(ids) < PAGE:
            return
        watermark = connection.execute(sa.select(_E.watermark).where(_E.id == ids[-1])).scalar_one()


def _read_with_texts(connection: Connection, evidence_ids: Sequence[int]) -> list[CheckedEvidence]:
    """Reads rows whose texts can be made. Raises LookupError for a row whose candidate is missing, and the errors of
    `UNREADABLE`."""
    rows = _read(connection, evidence_ids)
    if len(rows) < len(evidence_ids):
        raise LookupError("its candidate is missing")
    for row in rows:
        for name, number in (("watermark", row.watermark), ("revision", row.revision.revision)):
            if not isinstance(number, int):
                raise TypeError(f"its {name} is no whole number")
        len(row.content.text)
    return rows


def digest_between(connection: Connection, first: int, last: int) -> str:
    """The SHA-256 of the texts of all unsealed evidence with these watermarks, a line for each, in their order.

    An act of a person that makes evidence notes it in its entry of the audit trail. first, last: watermarks of the
    transaction that made the evidence.
    """
    digest = hashlib.sha256()
    while True:
        page = evidence_after(connection, first - 1)
        for row in page:
            if row.watermark > last:
                return digest.hexdigest()
            if row.seal is None:
                digest.update(f"{row.content.text}\n".encode())
        if len(page) < PAGE:
            return digest.hexdigest()
        first = page[-1].watermark + 1


def answered_for(connection: Connection, first: int, last: int) -> dict[str, object]:
    """The payload of an entry of the audit trail that answers for evidence. first, last: as in `digest_between`."""
    return {"watermarks": [first, last], "evidence_sha256": digest_between(connection, first, last)}


def refuse_forged(connection: Connection, evidence_ids: Sequence[int]) -> None:
    """Raises LedgerError if computed evidence that is about to be used again has no seal or does not fit it.

    On SQLite a seal by a secret that is not at hand is let pass: whoever copies a ledger without its artifacts has
    another secret, and whoever can write the file of a SQLite ledger can mostly read the secret beside it, too. Nothing
    is checked by a process that cannot read the secret.
    """
    if not evidence_ids:
        return
    secret = secret_of(connection)
    if not secret.is_held:
        return
    for start in range(0, len(evidence_ids), PAGE):
        for row in _read(connection, evidence_ids[start : start + PAGE]):
            fault = _fault_at_reuse(connection, row, secret.keys())
            if fault is not None:
                raise LedgerError(
                    f"evidence {row.id} of {row.verifier} is not used: {fault}. All such rows: sciagent db check"
                )


def _fault_at_reuse(connection: Connection, row: CheckedEvidence, keys: SealingKeys) -> str | None:
    is_foreign = row.seal is not None and not keys.knows(row.seal)
    if is_foreign and connection.dialect.name == "sqlite":
        return None
    return fault_of_seal(row, keys)


def fault_of_seal(row: CheckedEvidence, keys: SealingKeys) -> str | None:
    """Returns the fault of the seal of computed evidence, in words; None if it fits."""
    if row.seal is None:
        return "it has no seal, so no worker or driver has written it"
    if not keys.knows(row.seal):
        return f"it was sealed with another secret ({row.seal[:8]})"
    return None if keys.fits(row.seal, row.content.text) else "its seal does not fit what it says"


def _read(connection: Connection, evidence_ids: Sequence[int]) -> list[CheckedEvidence]:
    """The rows with these ids, of which there are at most PAGE, in the order of watermarks."""
    ids = {"ids": list(evidence_ids)}
    rows = connection.execute(_EVIDENCE, ids).all()
    quantities: dict[int, list[SealedQuantity]] = {}
    for evidence_id, *fields in connection.execute(_QUANTITIES, ids):
        quantities.setdefault(evidence_id, []).append(SealedQuantity(*fields))
    artifacts: dict[int, list[tuple[str, str]]] = {}
    if any(row.has_files for row in rows):
        for evidence_id, name, sha256 in connection.execute(_ARTIFACTS, ids):
            artifacts.setdefault(evidence_id, []).append((name, sha256))
    read = []
    for row in rows:
        content = EvidenceContent(
            key=row.key,
            revision=row.revision,
            superseded=row.superseded_key or "",
            outcome=row.outcome,
            reason=row.reason,
            source=row.source,
            who=row.who,
            diagnostics=row.diagnostics,
            quantities=quantities.get(row.id, ()),
            unobtained=row.unobtained or {},
            artifacts=artifacts.get(row.id, ()),
        )
        revision = _revision(row, "", row.seal)
        superseded = None
        if row.superseded_id is not None:
            superseded = _revision(row, "superseded_", row.superseded_seal)
        read.append(
            CheckedEvidence(
                row.id, row.watermark, revision, content, row.seal, _has_own_key(row), row.supersedes_id, superseded
            )
        )
    return read


def _revision(row: Any, prefix: str, seal: str | None) -> ResultRevision:
    """The revision in the columns of a row whose names begin with a prefix."""
    values = {name: getattr(row, prefix + name) for name in _REVISION_COLUMNS}
    return ResultRevision(**values, is_sealed=seal is not None)


def _has_own_key(row: Any) -> bool:
    key_columns = [getattr(row, name) for name in _KEY_COLUMNS]
    subjects = [row.subject]
    if row.proposal_id is not None:
        subjects.append(f"proposal:{row.proposal_id}")
    return str(row.key) in {EvidenceKey(subject, *key_columns).hash for subject in subjects}


def faults_of_levels(connection: Connection) -> Iterator[str]:
    """Yields the levels whose fields do not fit their hash, since values would be shown with another method, and those
    that cannot be read, in words."""
    ids = list(connection.execute(sa.select(t.level.c.id).order_by(t.level.c.id)).scalars())
    for level in read_each(ids, lambda part: _levels(connection, part)):
        if isinstance(level, UnreadableRow):
            yield f"level {level}"
            continue
        hash_, label, true_level = level
        if hash_ != true_level.hash:
            yield f"the level {label} was changed: its fields do not fit its hash"
        elif label != true_level.label:
            yield f"the level {label} was changed: by its fields it is {true_level.label}"


def _levels(connection: Connection, level_ids: Sequence[int]) -> list[tuple[str, str, Level]]:
    """The hash, the label and the fields of each level with these ids."""
    level = t.level.c
    query = sa.select(level.hash, level.label, level.spec).where(among(connection, level.id, level_ids))
    rows = connection.execute(query.order_by(level.id)).all()
    return [(hash_, label, Level(**spec)) for hash_, label, spec in rows]
