"""Sessions, tokens and one-time links. The ledger keeps only the hash of each secret."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.people import Right, Role
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now, now_column
from sciagent.store.people import audit
from sciagent.store.people.persons import Person

SEEN_EVERY = timedelta(minutes=5)  # shortest time between two writes of `seen_at`
_A = t.access.c
_P = t.person.c
_M = t.membership.c


class AccessKind(StrEnum):
    """The kind of an access."""

    SESSION = "session"
    TOKEN = "token"
    INVITE = "invite"
    RESET = "reset"


LIFETIMES = {
    AccessKind.SESSION: timedelta(days=14),
    AccessKind.TOKEN: timedelta(days=365),
    AccessKind.INVITE: timedelta(days=7),
    AccessKind.RESET: timedelta(days=1),
}


@dataclass(frozen=True)
class Access:
    """A session, a token or a link."""

    id: int
    person_id: int
    kind: AccessKind
    csrf: str | None
    """Text that the forms of a session send back, so that no other site can send them; None for other accesses."""
    label: str
    scopes: Sequence[str]
    """The rights to which a token is limited."""
    campaign_id: int | None
    """The campaign to which a token is limited; None for all campaigns of its person."""
    address: str | None
    created_at: datetime
    seen_at: datetime | None
    expires_at: datetime
    revoked_at: datetime | None
    locked_at: datetime | None
    """Time at which a session was locked; None for one that is open."""
    wrong_pins: int
    """Wrong PINs since the session was opened last."""


@dataclass(frozen=True)
class OpenedAccess:
    """An access that is in use, and its person."""

    access: Access
    person: Person
    roles: dict[int | None, Role]
    """{campaign id: role} of the person; a role in all campaigns has the id None."""
    idle: timedelta
    """Time since it was last seen in use, or since it was made if it was never used."""

    @property
    def should_note_use(self) -> bool:
        """Whether `seen_at` should be written again."""
        return self.access.seen_at is None or self.idle > SEEN_EVERY


_ACCESS = [_A[field.name] for field in fields(Access)]
_PERSON = [_P[field.name] for field in fields(Person)]
# one row for each role of the person
_OPENED = (
    sa.select(*(column.label(f"access_{column.name}") for column in _ACCESS))
    .add_columns(*(column.label(f"person_{column.name}") for column in _PERSON), _M.campaign_id, _M.role)
    .select_from(t.access.join(t.person, _P.id == _A.person_id).outerjoin(t.membership, _M.person_id == _P.id))
)


def create(
    connection: Connection,
    who: str,
    person_id: int,
    kind: AccessKind,
    *,
    label: str = "",
    scopes: Collection[Right] = (),
    campaign_id: int | None = None,
    address: str | None = None,
    lifetime: timedelta | None = None,
) -> tuple[str, int]:
    """Make an access; returns (secret, id). The secret is not kept. A new link ends the person's earlier links.

    scopes, campaign_id: the rights and the campaign to which a token is limited.
    """
    if kind in (AccessKind.INVITE, AccessKind.RESET):
        revoke_all(connection, person_id, (AccessKind.INVITE, AccessKind.RESET))
    secret = secrets.token_urlsafe(32)
    now = db_now(connection)
    values = {
        "person_id": person_id,
        "kind": str(kind),
        "secret_hash": _hash(secret),
        "csrf": secrets.token_hex(32) if kind is AccessKind.SESSION else None,
        "label": label[:200],
        "scopes": sorted(map(str, scopes)),
        "campaign_id": campaign_id,
        "address": None if address is None else address[:64],
        "created_at": now,
        "wrong_pins": 0,
        "expires_at": now + (lifetime or LIFETIMES[kind]),
    }
    id_ = int(connection.execute(sa.insert(t.access).values(**values).returning(_A.id)).scalar_one())
    audit.append(connection, who, "opened", str(kind), id_, person_id=person_id, label=label[:200])
    return secret, id_


def find(connection: Connection, secret: str, kinds: Collection[AccessKind]) -> Access | None:
    """The access with this secret, if it is of one of the kinds, and neither expired nor revoked."""
    row = connection.execute(sa.select(*_ACCESS).where(*_is_open(connection, secret, kinds))).first()
    return None if row is None else Access(**{**row._mapping, "kind": AccessKind(row.kind)})


def opened(connection: Connection, secret: str, kind: AccessKind) -> OpenedAccess | None:
    """The open access of a kind with this secret, and its person; None without one. A single statement reads both,
    since every page calls this function."""
    now = now_column(connection)
    query = _OPENED.add_columns(now.label("now")).where(*_is_open(connection, secret, (kind,)))
    rows = connection.execute(query).mappings().all()
    if not rows:
        return None
    first = rows[0]
    access = Access(**{field.name: first[f"access_{field.name}"] for field in fields(Access)} | {"kind": kind})
    person = Person(**{field.name: first[f"person_{field.name}"] for field in fields(Person)})
    roles = {row["campaign_id"]: Role(row["role"]) for row in rows if row["role"] is not None}
    idle = first["now"] - (access.seen_at or access.created_at)
    return OpenedAccess(access, person, roles, idle)


def _is_open(connection: Connection, secret: str, kinds: Collection[AccessKind]) -> tuple[sa.ColumnElement[bool], ...]:
    return (
        _A.secret_hash == _hash(secret),
        _A.kind.in_([str(kind) for kind in kinds]),
        _A.revoked_at.is_(None),
        _A.expires_at > now_column(connection),
    )


def note_use(connection: Connection, access_id: int) -> None:
    """Note that an access is used."""
    connection.execute(sa.update(t.access).where(_A.id == access_id).values(seen_at=db_now(connection)))


def lock(connection: Connection, access_id: int) -> None:
    """Lock a session, so that it needs the PIN of its person."""
    connection.execute(sa.update(t.access).where(_A.id == access_id).values(locked_at=db_now(connection)))


def count_pin(connection: Connection, access_id: int, limit: int) -> bool:
    """Count a PIN before it is read; return whether it may be read.

    limit: number of PINs that are read between two right ones. PINs that arrive at the same time are counted one after
    another, so that no more of them are read.
    """
    counted = (
        sa.update(t.access)
        .where(_A.id == access_id, _A.revoked_at.is_(None), _A.wrong_pins < limit)
        .values(wrong_pins=_A.wrong_pins + 1)
    )
    return connection.execute(counted).rowcount == 1


def unlock(connection: Connection, access_id: int) -> None:
    """Open a locked session again after the right PIN."""
    opened = {"locked_at": None, "wrong_pins": 0, "seen_at": db_now(connection)}
    connection.execute(sa.update(t.access).where(_A.id == access_id).values(**opened))


def revoke(connection: Connection, who: str, access: Access) -> None:
    """End an access."""
    connection.execute(sa.update(t.access).where(_A.id == access.id).values(revoked_at=db_now(connection)))
    audit.append(connection, who, "closed", str(access.kind), access.id, person_id=access.person_id)


def revoke_all(connection: Connection, person_id: int, kinds: Collection[AccessKind] = tuple(AccessKind)) -> None:
    """End all open accesses of a person that are of these kinds, such as after a new password."""
    is_of_kind = _A.kind.in_([str(kind) for kind in kinds])
    is_to_end = sa.and_(_A.person_id == person_id, is_of_kind, _A.revoked_at.is_(None))
    connection.execute(sa.update(t.access).where(is_to_end).values(revoked_at=db_now(connection)))


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()
