"""The number of wrong passwords of late, by subject: an address, a login, or a login from an address.

All servers of a ledger share these numbers, so that a second server gives no further guesses. A login need not exist:
the numbers say nothing about which accounts there are. Only a hash of a subject is kept, since people sometimes type a
password where the login belongs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import insert_or_ignore
from sciagent.store.database.engine import db_now

FORGOTTEN_AFTER = timedelta(hours=1)
"""Time after the last wrong password at which the number of a subject is zero again."""
OLD_ROWS = 20  # rows that one attempt deletes at most
_W = t.wrong_password.c


@dataclass(frozen=True)
class WrongPasswords:
    """The wrong passwords of a subject."""

    number: int
    seconds_since_last: float


def subject(*parts: str) -> str:
    """Returns the hash under which a subject is kept. parts: such as a login and an address."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def of_subjects(
    connection: Connection, subjects: Collection[str], *, for_update: bool = False
) -> Mapping[str, WrongPasswords]:
    """Returns {subject: wrong passwords} of the subjects that have any.

    for_update: other attempts of these subjects wait until the transaction ends.
    """
    now = db_now(connection)
    if for_update:
        new = [{"subject": name, "number": 0, "last_at": now} for name in sorted(subjects)]
        insert_or_ignore(connection, t.wrong_password, new)
    query = sa.select(_W.subject, _W.number, _W.last_at).where(_W.subject.in_(subjects)).order_by(_W.subject)
    found = {}
    for row in connection.execute(query.with_for_update() if for_update else query):
        since_last = now - row.last_at
        if row.number > 0 and since_last < FORGOTTEN_AFTER:
            found[row.subject] = WrongPasswords(row.number, since_last.total_seconds())
    return found


def count(connection: Connection, subjects: Mapping[str, int]) -> None:
    """Writes new numbers of wrong passwords, the last one now, and deletes some old rows.

    subjects: {subject: number}.
    """
    now = db_now(connection)
    for name, number in sorted(subjects.items()):
        connection.execute(sa.update(t.wrong_password).where(_W.subject == name).values(number=number, last_at=now))
    connection.execute(sa.delete(t.wrong_password).where(_W.id.in_(old_rows(connection))))


def old_rows(connection: Connection) -> list[int]:
    """Returns the ids of some rows that count no more, the oldest first."""
    oldest = db_now(connection) - FORGOTTEN_AFTER
    query = sa.select(_W.id).where(_W.last_at < oldest).order_by(_W.last_at).limit(OLD_ROWS)
    return list(connection.execute(query.with_for_update(skip_locked=True)).scalars())


def take_back(connection: Connection, subjects: Collection[str]) -> None:
    """Lowers the numbers of subjects by the attempt that turned out to be right."""
    number = sa.case((_W.number > 0, _W.number - 1), else_=0)
    for name in sorted(subjects):
        connection.execute(sa.update(t.wrong_password).where(_W.subject == name).values(number=number))


def forget(connection: Connection, name: str) -> None:
    """Sets the number of a subject to zero."""
    connection.execute(sa.update(t.wrong_password).where(_W.subject == name).values(number=0))
