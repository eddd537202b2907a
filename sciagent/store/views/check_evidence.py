"""Checks of all evidence: computed evidence fits its seal, and people answer for all other evidence.

An act that makes evidence without a seal (an answer, a correction, an import) is an entry of the audit trail. The entry
has the first and the last watermark of the evidence and the SHA-256 of what it says. Entries and evidence are in the
order of the commits, so that both are read once, side by side. An entry that names evidence of an earlier entry answers
for nothing: it belongs to a second answer to a question that had an answer.

Every row is read, whatever watermark and id it has, since a login that may add rows chooses them.
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
from sciagent.store.database.evidence_secret import SealingKeys
from sciagent.store.people import audit
from sciagent.store.people.audit import AuditEntry
from sciagent.store.results.evidence import IMPORT_VERIFIER, read_watermark
from sciagent.store.results.evidence_seals import CheckedEvidence, altered_levels, evidence_after, fault_of_seal

MAX_SHOWN = 10  # faults whose text is kept
IMPORTED = "imported"
LOADED = "loaded old values"
"""Acts at the command line that make evidence from files."""


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


@dataclass
class _Act:
    """An entry of the audit trail that answers for evidence."""

    entry: AuditEntry
    first: int
    last: int
    """Watermarks of the evidence."""
    digest: str
    """SHA-256 that the evidence must have."""
    verifiers: frozenset[str]
    """Verifiers whose evidence such an act can make."""
    evidence_id: int | None
    """Id of the evidence of a submission; None for a file."""
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
    for label in altered_levels(connection):
        checked.add(f"the level {label} was changed: its fields do not fit its hash")
    acts = _acts(connection)
    act = next(acts, None)
    of_people = _verifiers_of_people(connection)
    last_watermark = read_watermark(connection)
    previous_id: int | None = None
    page = evidence_after(connection, None)
    while page:
        for row in page:
            if not 0 < row.watermark <= last_watermark:
                checked.add(f"evidence {row.id}: the ledger gave no watermark {row.watermark} (1 to {last_watermark})")
            elif previous_id is not None and row.id < previous_id:
                checked.add(
                    f"evidence {row.id}: it stands after evidence {previous_id}; ids ascend with the watermarks"
                )
                previous_id = row.id
            else:
                previous_id = row.id
            while act is not None and act.last < row.watermark:
                _close(act, checked)
                act = next(acts, None)
            if row.seal is not None and row.verifier in of_people:
                checked.add(f"evidence {row.id} of {row.verifier}: it is sealed as computed, but people alone answer")
            else:
                _check_row(row, act, keys, checked)
        checked.rows += len(page)
        progress(checked.rows)
        page = evidence_after(connection, page[-1].watermark)
    while act is not None:
        _close(act, checked)
        act = next(acts, None)
    return checked


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
    is_of_act = row.verifier in act.verifiers and act.evidence_id in (None, row.id)
    if not is_of_act:
        checked.add(f"evidence {row.id} of {row.verifier}: {act.words} cannot answer for it")
        return
    checked.of_people += 1


def _check_seal(row: CheckedEvidence, seal: str, keys: SealingKeys | None, checked: EvidenceCheck) -> None:
    if keys is None:
        checked.unchecked += 1
        return
    fault = fault_of_seal(row, keys)
    if fault is None:
        checked.sealed += 1
    else:
        checked.add(f"evidence {row.id} of {row.verifier}: {fault}")


def _close(act: _Act, checked: EvidenceCheck) -> None:
    """Counts a fault if the evidence of an act, all of which was read, is not what the act recorded."""
    if act.seen.hexdigest() != act.digest:
        checked.add(f"{act.words}: its evidence was changed, removed or added to")


def _acts(connection: Connection) -> Iterator[_Act]:
    """Yields the acts that answer for evidence, in the order of their watermarks."""
    last_watermark = 0
    for entry in audit.entries(connection):
        match entry.payload:
            case {"watermarks": [int(first), int(last)], "evidence_sha256": str(digest)} if first > last_watermark:
                evidence_id, verifiers = _makes(connection, entry)
                yield _Act(entry, first, last, digest, verifiers, evidence_id)
                last_watermark = last


def _makes(connection: Connection, entry: AuditEntry) -> tuple[int | None, frozenset[str]]:
    """The id of the evidence that an act may have made, None for any; and the verifiers of such evidence.

    A submission answers for its own evidence and the rung of its task, a file for a rung that people do, and an import
    for imported values. No other act answers for evidence.
    """
    r = t.rung.c
    s = t.submission.c
    if entry.object == "submission":
        query = sa.select(s.evidence_id, r.verifier).select_from(t.submission)
        query = query.join(t.job, t.job.c.id == s.job_id).join(t.rung, r.id == t.job.c.rung_id)
        found = connection.execute(query.where(s.id == entry.object_id, r.tier == Tier.WORLD)).first()
        return (None, frozenset()) if found is None else (found[0] or 0, frozenset([found[1]]))
    if entry.what == IMPORTED:
        return None, frozenset([IMPORT_VERIFIER])
    if entry.what == LOADED:
        query = sa.select(r.verifier).where(r.campaign_id == entry.campaign_id, r.name == str(entry.payload["rung"]))
        return None, frozenset(connection.execute(query.where(r.tier == Tier.WORLD)).scalars())
    return None, frozenset()
