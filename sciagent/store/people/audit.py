"""The audit trail: what people did, each entry with the hash of the one before it.

A changed or removed entry breaks the chain, and `check` finds it. Whoever owns the database can write the whole chain
anew; so somebody should note the last hash elsewhere: `check` with the noted hash finds a rewritten tail.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.people import person_and_access_ids
from sciagent.errors import LedgerError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import UNREADABLE, UnreadableRow, among, error_text, read_each
from sciagent.store.database.engine import db_now
from sciagent.store.database.table_building_blocks import storable_json

COUNTER = 2  # id of the row of the table `watermark` in which the entries are counted
FIRST = "0" * 64  # stands for the hash before the first entry
PAGE = 1000  # entries that one query reads
_A = t.audit_entry.c
# columns that go into the hash of an entry, together with the hash of the entry before
_HASHED = ("id", "at", "who", "what", "object", "object_id", "campaign_id", "person_id", "access_id", "payload")


@dataclass(frozen=True)
class AuditEntry:
    """An act of a person."""

    id: int
    """Ids follow the order of the commits, without gaps."""
    at: datetime
    who: str
    what: str
    """The act, such as `claimed`."""
    object: str
    """The kind of the object of the act, such as `task`."""
    object_id: int | None
    campaign_id: int | None
    person_id: int | None
    """The account; None for an act at the command line."""
    access_id: int | None
    payload: Mapping[str, Any]
    previous_hash: str
    hash: str

    def digest(self) -> str:
        """Returns the hash that the entry must have."""
        values = {name: getattr(self, name) for name in _HASHED} | {"at": self.at.astimezone(UTC).isoformat()}
        return digest_of({**values, "payload": dict(self.payload), "previous_hash": self.previous_hash})


@dataclass(frozen=True)
class AuditCheck:
    """The result of a check of the chain."""

    entries: int
    """Number of entries that were read."""
    head: str
    """Hash of the last entry that fits."""
    fault: str | None
    """The first fault; None without one."""


def digest_of(values: Mapping[str, Any]) -> str:
    """Returns the SHA-256 of values as JSON with sorted keys."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def append(
    connection: Connection,
    who: str,
    what: str,
    object_: str,
    object_id: int | None = None,
    *,
    campaign_id: int | None = None,
    **payload: object,
) -> None:
    """Append an act. Other acts wait for the end of the transaction, so that the chain has the order of the commits.

    who: the name of the person. An `Actor`, a text with the ids of an account, also states who has signed in; another
    text is a user of this machine.
    """
    counter = sa.update(t.watermark).where(t.watermark.c.id == COUNTER).values(value=t.watermark.c.value + 1)
    id_ = int(connection.execute(counter.returning(t.watermark.c.value)).scalar_one())
    person_id, access_id = person_and_access_ids(who)
    before = connection.execute(sa.select(_A.hash).where(_A.id == id_ - 1)).scalar() or FIRST
    # as the database will return it, so that a later check finds the same hash
    stored = storable_json(json.loads(json.dumps(payload, default=str)))
    entry = AuditEntry(
        id=id_,
        at=db_now(connection),
        who=str(who)[:200],  # the name alone, as a plain text
        what=what,
        object=object_,
        object_id=object_id,
        campaign_id=campaign_id,
        person_id=person_id,
        access_id=access_id,
        payload=stored,
        previous_hash=before,
        hash="",
    )
    connection.execute(sa.insert(t.audit_entry).values(**{**vars(entry), "hash": entry.digest()}))


def head(connection: Connection) -> AuditEntry | None:
    """The last entry; None before the first act."""
    newest = last(connection, 1)
    return newest[0] if newest else None


def last(connection: Connection, n: int) -> list[AuditEntry]:
    """The last n entries, newest first."""
    return list(_read(connection, sa.select(t.audit_entry).order_by(_A.id.desc()).limit(n)))


def of_object(connection: Connection, object_: str, object_ids: Sequence[int]) -> list[AuditEntry]:
    """The entries about some objects, oldest first."""
    query = sa.select(t.audit_entry).where(_A.object == object_, _A.object_id.in_(object_ids)).order_by(_A.id)
    return list(_read(connection, query.limit(PAGE)))


def entries(connection: Connection, after: int | None = None) -> Iterator[AuditEntry]:
    """Entries after a number, oldest first, read in pages. after: None for all entries, whatever their numbers are.

    Raises LedgerError at an entry that cannot be read."""
    for entry in readable_entries(connection, after):
        if isinstance(entry, UnreadableRow):
            raise LedgerError(f"audit_entry {entry}")
        yield entry


def readable_entries(connection: Connection, after: int | None = None) -> Iterator[AuditEntry | UnreadableRow]:
    """Yields entries as `entries` does, with an error in the place of each entry that cannot be read."""
    while True:
        query = sa.select(_A.id).order_by(_A.id).limit(PAGE)
        if after is not None:
            query = query.where(_A.id > after)
        ids = list(connection.execute(query).scalars())
        yield from read_each(ids, lambda part: _read_with_digests(connection, part))
        if len(ids) < PAGE:
            return
        after = ids[-1]


def _read_with_digests(connection: Connection, ids: Sequence[int]) -> list[AuditEntry]:
    """Reads entries whose hashes can be made. Raises one of `UNREADABLE` otherwise."""
    query = sa.select(t.audit_entry).where(among(connection, _A.id, ids)).order_by(_A.id)
    read = list(_read(connection, query))
    for entry in read:
        if not isinstance(entry.payload, Mapping):
            raise TypeError("its payload is no JSON object")
        len(entry.digest())
    return read


def check(connection: Connection, since: str | None = None) -> AuditCheck:
    """Check the chain. since: hash of an entry that was noted before; this entry and all later ones are checked.

    Raises UsageError if no entry has that hash, since the entry or an earlier one was rewritten."""
    last_id = 0
    last_hash = FIRST
    after: int | None = None
    if since is not None:
        start = connection.execute(sa.select(_A.id).where(_A.hash == since)).scalar()
        if start is None:
            raise UsageError(f"no entry of the audit trail has the hash {since[:64]}: what was noted was rewritten")
        last_id = start - 1
        after = last_id
        last_hash = connection.execute(sa.select(_A.hash).where(_A.id == start - 1)).scalar() or FIRST
    n_read = 0
    for entry in readable_entries(connection, after):
        if isinstance(entry, UnreadableRow):
            return AuditCheck(n_read, last_hash, f"audit_entry {entry}")
        fault = _fault(connection, entry, last_id, last_hash)
        if fault is not None:
            return AuditCheck(n_read, last_hash, fault)
        last_id = entry.id
        last_hash = entry.hash
        n_read += 1
    counted = int(connection.execute(sa.select(t.watermark.c.value).where(t.watermark.c.id == COUNTER)).scalar_one())
    fault = _fault_beside(connection)
    if last_id < counted:
        fault = f"entries {last_id + 1} to {counted} are missing"
    elif last_id > counted:
        fault = f"entry {counted + 1} was added past the counter of the entries, which is at {counted}"
    return AuditCheck(n_read, last_hash, fault)


def _fault_beside(connection: Connection) -> str | None:
    """The fault of a submission that no entry names; None without one."""
    s = t.submission.c
    is_named = sa.exists().where(_A.object == "submission", _A.object_id == s.id)
    unnamed = connection.execute(sa.select(s.id).where(~is_named).order_by(s.id).limit(1)).scalar()
    return None if unnamed is None else f"no entry names submission {unnamed}"


def _fault(connection: Connection, entry: AuditEntry, last_id: int, last_hash: str) -> str | None:
    """The fault of an entry; None without one. last_id, last_hash: of the entry before it."""
    if entry.id < 1:
        return f"entry {entry.id} stands before the first, which is entry 1"
    if entry.id != last_id + 1:
        return f"entry {last_id + 1} is missing"
    if entry.previous_hash != last_hash or entry.digest() != entry.hash:
        return f"entry {entry.id} ({entry.what}, {entry.who}, {entry.at:%Y-%m-%d %H:%M} UTC) was changed"
    if entry.object != "submission":
        return None
    named = f"submission {entry.object_id}, which entry {entry.id} names,"
    try:
        digest = submission_digest(connection, entry.object_id or 0)
    except UNREADABLE as error:
        return f"{named} cannot be read: {error_text(error)}"
    return f"{named} was changed" if entry.payload.get("submission_sha256") != digest else None


def submission_digest(connection: Connection, submission_id: int) -> str | None:
    """The hash of a submission: what was typed, the files, the reason, and the key of its evidence; None if it is
    missing."""
    s = t.submission.c
    names = ("key", "job_id", "fence", "kind", "revision", "of_id", "who", "said", "files", "why", "sample_id")
    query = sa.select(*(s[name] for name in names), t.evidence.c.key.label("evidence_key"))
    query = query.select_from(t.submission.outerjoin(t.evidence, t.evidence.c.id == s.evidence_id))
    row = connection.execute(query.where(s.id == submission_id)).first()
    return None if row is None else digest_of(dict(row._mapping))


def _read(connection: Connection, query: sa.Select[Any]) -> Iterator[AuditEntry]:
    for row in connection.execute(query):
        yield AuditEntry(**row._mapping)
