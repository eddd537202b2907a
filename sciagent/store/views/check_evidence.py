"""Checks of all evidence: computed evidence fits its seal, and people answer for all other evidence.

An act that makes evidence without a seal (an answer, a correction, an import) is an entry of the audit trail. The entry
has the first and the last watermark of the evidence and the SHA-256 of what it says. Entries and evidence are in the
order of the commits, so that both are read once, side by side. An entry that names evidence of an earlier entry answers
for nothing: it belongs to a second answer to a question that had an answer.

A revision supersedes the one before it of the same result, by the same kind of source, and a first revision none;
only an imported value may correct that of another file. Otherwise a row could hide any other from `current_evidence`.

Every row is read, whatever watermark and id it has, since a login that may add rows chooses them. A row that cannot be
read is a fault, and the others are still checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.rung_positions_and_tiers import Tier
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import UnreadableRow
from sciagent.store.database.evidence_secret import SealingKeys
from sciagent.store.people import audit
from sciagent.store.people.audit import AuditEntry
from sciagent.store.results.evidence import IMPORT_VERIFIER, read_watermark
from sciagent.store.results.evidence_seals import CheckedEvidence, fault_of_seal, faults_of_levels, readable_pages

MAX_SHOWN = 10  # faults whose text is kept
IMPORTED = "imported"
LOADED = "loaded old values"
"""Acts at the command line that make evidence from files."""
MAX_UNUSED_WATERMARKS = 1_000_000
"""Watermarks by which the ledger's counter may lie above that of the newest evidence. Attempts without evidence and
versions of rewards take a few."""


@dataclass
class EvidenceCheck:
    """The result of a check of all evidence."""

    rows: int = 0
    """Number of rows of evidence that were read."""
    sealed: int = 0
    """Number of rows whose seal fits."""
    of_people: int = 0
    """Number of rows for which an act of a person answers."""
    unchecked: int = 0
    """Number of rows whose seal was not checked, since the secret is not at hand."""
    faults: int = 0
    first_faults: list[str] = field(default_factory=list)
    """The first faults, in words."""

    def add(self, fault: str) -> None:
        """Counts a fault."""
        self.faults += 1
        if len(self.first_faults) < MAX_SHOWN:
            self.first_faults.append(fault)


@dataclass(frozen=True)
class _Makes:
    """The evidence that an act can make."""

    verifiers: frozenset[str] = frozenset()
    evidence_id: int | None = None
    """Id of the evidence of a submission; None for a file."""
    result: tuple[int, str, str, str, int] | None = None
    """The result that the task of a submission asks for; None for a file."""

    def allows(self, row: CheckedEvidence) -> bool:
        """Returns whether the act can have made a row."""
        if row.verifier not in self.verifiers or self.evidence_id not in (None, row.id):
            return False
        return self.result in (None, row.revision.result)


@dataclass
class _Act:
    """An entry of the audit trail that answers for evidence."""

    entry: AuditEntry
    first: int
    last: int
    """Watermarks of the evidence."""
    digest: str
    """SHA-256 that the evidence must have."""
    makes: _Makes
    """The evidence that such an act can make."""
    seen: Any = field(default_factory=hashlib.sha256)

    @property
    def words(self) -> str:
        """The entry in words."""
        return f"entry {self.entry.id} of the audit trail ({self.entry.who} {self.entry.what})"


def check(
    connection: Connection, keys: SealingKeys | None, progress: Callable[[int], None] = lambda rows: None
) -> EvidenceCheck:
    """Checks all evidence in pages. Call it in a read transaction.

    keys: None if the secret is not at hand; seals are not checked then. progress: called with the number of rows that
    were checked so far.
    """
    checked = EvidenceCheck()
    for fault in faults_of_levels(connection):
        checked.add(fault)
    last_watermark = read_watermark(connection)
    _check_counter(connection, last_watermark, checked)
    acts = _acts(connection, checked)
    act = next(acts, None)
    of_people = _verifiers_of_people(connection)
    previous_id: int | None = None
    for page in readable_pages(connection):
        for row in page:
            if isinstance(row, UnreadableRow):
                checked.add(f"evidence {row}")
                continue
            previous_id = _check_order(row, previous_id, last_watermark, checked)
            while act is not None and act.last < row.watermark:
                _close(act, checked)
                act = next(acts, None)
            if row.seal is not None and row.verifier in of_people:
                checked.add(f"evidence {row.id} of {row.verifier}: it is sealed as computed, but people alone answer")
            else:
                _check_row(row, act, keys, checked)
        checked.rows += len(page)
        progress(checked.rows)
    while act is not None:
        _close(act, checked)
        act = next(acts, None)
    return checked


def _check_counter(connection: Connection, counter: int, checked: EvidenceCheck) -> None:
    """Counts a fault if the counter of watermarks lies far above those of all evidence: it would soon overflow."""
    w = t.evidence.c.watermark
    newest = connection.execute(sa.select(sa.func.max(w)).where(w <= counter)).scalar() or 0
    if counter - newest > MAX_UNUSED_WATERMARKS:
        checked.add(f"the counter of watermarks is at {counter}, far above {newest}, that of the newest evidence")


def _check_order(
    row: CheckedEvidence, previous_id: int | None, last_watermark: int, checked: EvidenceCheck
) -> int | None:
    """Counts a fault of the place of a row among the others; returns the id that the next row must exceed.

    previous_id: id of the row before; None without one.
    """
    if not 0 < row.watermark <= last_watermark:
        checked.add(f"evidence {row.id}: the ledger gave no watermark {row.watermark} (1 to {last_watermark})")
        return previous_id
    if previous_id is not None and row.id < previous_id:
        checked.add(f"evidence {row.id}: it stands after evidence {previous_id}; ids ascend with the watermarks")
    return row.id


def _verifiers_of_people(connection: Connection) -> frozenset[str]:
    """Returns the verifiers for which people alone answer: those of rungs that people do, and of imported values."""
    r = t.rung.c
    found = connection.execute(sa.select(r.verifier).distinct().where(r.tier == Tier.WORLD)).scalars()
    return frozenset([*found, IMPORT_VERIFIER])


def _check_row(row: CheckedEvidence, act: _Act | None, keys: SealingKeys | None, checked: EvidenceCheck) -> None:
    """Checks a row. act: the next act whose last watermark is not below that of the row."""
    if not row.has_own_key:
        checked.add(f"evidence {row.id}: its key does not fit the candidate, verifier and settings that it names")
        return
    if row.seal is not None:
        _check_seal(row, row.seal, keys, checked)
        return
    if act is None or row.watermark < act.first:
        checked.add(
            f"evidence {row.id} of {row.verifier} ({row.content.source}, {row.content.who}): it has no seal, and no "
            "act in the audit trail answers for it"
        )
        return
    act.seen.update(f"{row.content.text}\n".encode())
    if not act.makes.allows(row):
        checked.add(f"evidence {row.id} of {row.verifier}: {act.words} cannot answer for it")
    elif _has_right_link(row, checked):
        checked.of_people += 1


def _check_seal(row: CheckedEvidence, seal: str, keys: SealingKeys | None, checked: EvidenceCheck) -> None:
    fault = None if keys is None else fault_of_seal(row, keys)
    if fault is not None:
        checked.add(f"evidence {row.id} of {row.verifier}: {fault}")
    elif keys is None:
        checked.unchecked += 1
        _has_right_link(row, checked)
    elif _has_right_link(row, checked):
        checked.sealed += 1


def _has_right_link(row: CheckedEvidence, checked: EvidenceCheck) -> bool:
    """Returns whether a row supersedes what its revision must supersede; counts a fault otherwise."""
    fault = _fault_of_link(row)
    if fault is not None:
        checked.add(f"evidence {row.id} of {row.verifier}: {fault}")
    return fault is None


def _fault_of_link(row: CheckedEvidence) -> str | None:
    """Returns the fault of what a row supersedes, in words; None without one."""
    own = row.revision
    earlier = row.superseded
    if row.supersedes_id is None:
        return f"it is revision {own.revision} and supersedes no evidence" if own.revision else None
    link = f"it supersedes evidence {row.supersedes_id}"
    if earlier is None:
        return f"{link}, which is not in the ledger"
    if own.is_sealed != earlier.is_sealed:
        return f"{link}, but one of them is computed and people answer for the other"
    if row.supersedes_id >= row.id:
        return f"{link}, which is not older"
    if own.revision == 0:
        may_correct_file = own.verifier == earlier.verifier == IMPORT_VERIFIER
        is_of_other_file = own.candidate_id == earlier.candidate_id and own.settings_hash != earlier.settings_hash
        return None if may_correct_file and is_of_other_file else f"{link}, but a first revision supersedes none"
    if own.result != earlier.result:
        return f"{link}, which is of another candidate, computation or replicate"
    if earlier.revision != own.revision - 1:
        return f"{link}, which is revision {earlier.revision} and not {own.revision - 1}"
    return None


def _close(act: _Act, checked: EvidenceCheck) -> None:
    """Counts a fault if the evidence of an act, all of which was read, is not what the act recorded."""
    if act.seen.hexdigest() != act.digest:
        checked.add(f"{act.words}: its evidence was changed, removed or added to")


def _acts(connection: Connection, checked: EvidenceCheck) -> Iterator[_Act]:
    """Yields the acts that answer for evidence, in the order of their watermarks; counts entries that cannot be read as
    faults."""
    last_watermark = 0
    for entry in audit.readable_entries(connection):
        if isinstance(entry, UnreadableRow):
            checked.add(f"audit_entry {entry}")
            continue
        match entry.payload:
            case {"watermarks": [int(first), int(last)], "evidence_sha256": str(digest)} if first > last_watermark:
                yield _Act(entry, first, last, digest, _makes(connection, entry))
                last_watermark = last


def _makes(connection: Connection, entry: AuditEntry) -> _Makes:
    """The evidence that an act can make.

    A submission answers for its own evidence, on the candidate and the replicate of its task and by the rung of the
    task; a file for a rung that people do, and an import for imported values. No other act answers for evidence.
    """
    r = t.rung.c
    j = t.job.c
    if entry.object == "submission":
        s = t.submission.c
        query = sa.select(s.evidence_id, j.candidate_id, r.verifier, r.verifier_version, r.settings_hash, j.replicate)
        query = query.select_from(t.submission.join(t.job, j.id == s.job_id).join(t.rung, r.id == j.rung_id))
        found = connection.execute(query.where(s.id == entry.object_id, r.tier == Tier.WORLD)).first()
        if found is None:
            return _Makes()
        evidence_id, *result = found
        return _Makes(frozenset([found.verifier]), evidence_id or 0, tuple(result))
    if entry.what == IMPORTED:
        return _Makes(frozenset([IMPORT_VERIFIER]))
    if entry.what == LOADED:
        name = str(entry.payload.get("rung"))
        query = sa.select(r.verifier).where(r.campaign_id == entry.campaign_id, r.name == name)
        return _Makes(frozenset(connection.execute(query.where(r.tier == Tier.WORLD)).scalars()))
    return _Makes()
