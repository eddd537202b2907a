"""Law entries in the ledger: laws of structures under a name, and the campaigns that use them.

A row is written once and never changed. A name may have several rows, its versions; the newest counts, and each has
the hash of the one before. A campaign keeps the version that was the newest when it was made. Only a version that no
campaign uses can be removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.errors import LedgerError, UnknownNameError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import insert_or_ignore
from sciagent.store.database.engine import db_now

HASH_DIGITS = 8  # of the hash in `name@hash`
_E = t.law_entry.c
_U = t.campaign_law.c


class NewEntry(NamedTuple):
    """A law entry to be written."""

    name: str
    hash: str
    kind: str
    """Kind of the candidates, such as `molecule`."""
    summary: Mapping[str, Any]
    content: str
    """The rows and what was fitted to them, as JSON."""
    who: str


class EntryRow(NamedTuple):
    """One row of the table `law_entry`, without its content."""

    id: int
    name: str
    hash: str
    kind: str
    parent_hash: str | None
    """Hash of the version before, which may have been removed."""
    summary: Mapping[str, Any]
    who: str
    at: datetime

    @property
    def version(self) -> str:
        """The name with the first digits of the hash, such as `edits@5c22afeb`."""
        return f"{self.name}@{self.hash[:HASH_DIGITS]}"


_ROW = sa.select(*(_E[name] for name in EntryRow._fields))


def enter(connection: Connection, new: NewEntry) -> EntryRow:
    """Returns the row of an entry, and writes it as the newest version of its name if it is new."""
    known = connection.execute(_ROW.where(_E.name == new.name, _E.hash == new.hash)).one_or_none()
    if known is None:
        newest = _newest(connection, new.name)
        values = new._asdict() | {"parent_hash": None if newest is None else newest.hash, "at": db_now(connection)}
        insert_or_ignore(connection, t.law_entry, [values])
        known = connection.execute(_ROW.where(_E.name == new.name, _E.hash == new.hash)).one()
    return EntryRow._make(known)


def rows(connection: Connection) -> list[EntryRow]:
    """Returns all entries, the oldest first."""
    return [EntryRow._make(row) for row in connection.execute(_ROW.order_by(_E.id))]


def find(connection: Connection, text: str) -> EntryRow:
    """Returns the entry `NAME`, the newest of this name, or `NAME@` with the first digits of its hash.

    Raises UnknownNameError; UsageError for digits with which several versions begin.
    """
    name, _, digits = text.partition("@")
    if not digits:
        newest = _newest(connection, name)
        if newest is None:
            raise UnknownNameError("law", text, sorted({row.name for row in rows(connection)}))
        return newest
    found = [row for row in rows(connection) if row.name == name and row.hash.startswith(digits)]
    if not found:
        raise UnknownNameError("law", text, [row.version for row in rows(connection)])
    if len(found) > 1:
        raise UsageError(f"{text} may be {' or '.join(f'{row.name}@{row.hash}' for row in found)}")
    return found[0]


def _newest(connection: Connection, name: str) -> EntryRow | None:
    query = _ROW.where(_E.name == name).order_by(_E.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else EntryRow._make(row)


def by_id(connection: Connection, entry_id: int) -> EntryRow:
    """Returns the entry with this id, which is in the ledger."""
    return EntryRow._make(connection.execute(_ROW.where(_E.id == entry_id)).one())


def content(connection: Connection, entry_id: int) -> str:
    """Returns the content of an entry, which is in the ledger."""
    stored: str = connection.execute(sa.select(_E.content).where(_E.id == entry_id)).scalar_one()
    return stored


def pin(connection: Connection, campaign_id: int, text: str, row: EntryRow) -> None:
    """Writes the version that a campaign uses; one that is written already stays. text: as the campaign names it."""
    values = {"campaign_id": campaign_id, "named": text, "law_entry_id": row.id}
    insert_or_ignore(connection, t.campaign_law, [values])


def pinned(connection: Connection, campaign_id: int, text: str) -> EntryRow:
    """Returns the version that a campaign uses. text: as it names the law. Raises LedgerError if it uses none."""
    query = sa.select(_U.law_entry_id).where(_U.campaign_id == campaign_id, _U.named == text)
    id_ = connection.execute(query).scalar()
    if id_ is None:
        raise LedgerError(f'the campaign has no version of the law "{text}"')
    return by_id(connection, id_)


def of_campaign(connection: Connection, campaign_id: int) -> list[EntryRow]:
    """Returns the versions that a campaign uses, the oldest first."""
    is_used = _E.id.in_(sa.select(_U.law_entry_id).where(_U.campaign_id == campaign_id))
    return [EntryRow._make(row) for row in connection.execute(_ROW.where(is_used).order_by(_E.id))]


def users(connection: Connection, entry_id: int) -> list[str]:
    """Returns the names of the campaigns that use a version, sorted."""
    query = sa.select(t.campaign.c.name).join(t.campaign_law, _U.campaign_id == t.campaign.c.id)
    return list(connection.execute(query.where(_U.law_entry_id == entry_id).order_by(t.campaign.c.name)).scalars())


def remove(connection: Connection, row: EntryRow) -> None:
    """Removes a version. Raises UsageError if a campaign uses it."""
    of = users(connection, row.id)
    if of:
        raise UsageError(f"{row.version} is used by {', '.join(of)}: a campaign keeps the law with which it began")
    connection.execute(sa.delete(t.law_entry).where(_E.id == row.id))


def require_hash(row: EntryRow, computed: str) -> None:
    """Raises LedgerError if the content of an entry has another hash than its row."""
    if computed != row.hash:
        raise LedgerError(f"the content of {row.version} has been changed: its hash is now {computed[:HASH_DIGITS]}")
