"""Accounts and roles. Every change is an entry of the audit trail."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.people import Role
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.people import audit

LOGIN = re.compile(r"[a-z][a-z0-9._-]{0,63}")
_P = t.person.c
_M = t.membership.c


@dataclass(frozen=True)
class Person:
    """An account."""

    id: int
    login: str
    name: str
    email: str | None
    password_hash: str | None
    """None: no password was chosen yet."""
    pin_hash: str | None
    """Hash of the PIN that opens a locked session; None: the sessions of the person are never locked."""
    is_admin: bool
    disabled_at: datetime | None
    created_at: datetime


def add(
    connection: Connection, who: str, login: str, name: str, *, email: str | None = None, is_admin: bool = False
) -> Person:
    """Make an account without a password. Raises UsageError for a login that is taken or malformed."""
    if not LOGIN.fullmatch(login):
        raise UsageError(
            f'"{login[:80]}" is no login: a small letter, then small letters, digits, dots or "_-", 64 at most'
        )
    if not name.strip() or len(name) > 200 or len(email or "") > 320:
        raise UsageError("an account has a name of at most 200 characters, and an address of at most 320")
    if _found(connection, _P.login == login) is not None:
        raise UsageError(
            f"there is an account {login} already; a new link for it: sciagent person change {login} --reset"
        )
    new = {"login": login, "name": name.strip(), "email": email, "is_admin": is_admin}
    row = connection.execute(sa.insert(t.person).values(**new, created_at=db_now(connection)).returning(t.person)).one()
    audit.append(connection, who, "added", "person", row.id, login=login, is_admin=is_admin)
    return Person(**row._mapping)


def get(connection: Connection, login: str) -> Person:
    """The account with a login. Raises UsageError if there is none."""
    found = _found(connection, _P.login == login)
    if found is None:
        raise UsageError(f'there is no account "{login[:80]}"; see: sciagent person list')
    return found


def by_login(connection: Connection, login: str) -> Person | None:
    """The account with a login; None if there is none."""
    return _found(connection, _P.login == login)


def by_id(connection: Connection, person_id: int) -> Person:
    """The account with an id that a row of the ledger names."""
    return Person(**connection.execute(sa.select(t.person).where(_P.id == person_id)).one()._mapping)


def listed(connection: Connection, after: str = "", limit: int = 100) -> list[Person]:
    """A page of accounts by login. after: the last login on the page before."""
    query = sa.select(t.person).where(_P.login > after).order_by(_P.login).limit(limit)
    return [Person(**row._mapping) for row in connection.execute(query)]


def _found(connection: Connection, where: sa.ColumnElement[bool]) -> Person | None:
    row = connection.execute(sa.select(t.person).where(where)).first()
    return None if row is None else Person(**row._mapping)


def set_password(connection: Connection, who: str, person_id: int, password_hash: str) -> None:
    """Write the hash of a new password."""
    connection.execute(sa.update(t.person).where(_P.id == person_id).values(password_hash=password_hash))
    audit.append(connection, who, "chose a password", "person", person_id)


def set_pin(connection: Connection, who: str, person_id: int, pin_hash: str | None) -> None:
    """Write the hash of a new PIN. pin_hash: None to take the PIN away."""
    connection.execute(sa.update(t.person).where(_P.id == person_id).values(pin_hash=pin_hash))
    audit.append(connection, who, "removed the PIN" if pin_hash is None else "chose a PIN", "person", person_id)


def rehash(connection: Connection, person_id: int, password_hash: str) -> None:
    """Write the hash of the same password under stronger parameters."""
    connection.execute(sa.update(t.person).where(_P.id == person_id).values(password_hash=password_hash))


def set_disabled(connection: Connection, who: str, person_id: int, is_disabled: bool) -> None:
    """Close an account, or open it again. It is never deleted, since what the person wrote names it."""
    at = db_now(connection) if is_disabled else None
    connection.execute(sa.update(t.person).where(_P.id == person_id).values(disabled_at=at))
    audit.append(connection, who, "disabled" if is_disabled else "enabled", "person", person_id)


def set_role(connection: Connection, who: str, person_id: int, role: Role | None, campaign_id: int | None) -> None:
    """Give a person a role in a campaign, or take it. campaign_id: None for all campaigns."""
    is_same_campaign = _M.campaign_id.is_(None) if campaign_id is None else _M.campaign_id == campaign_id
    connection.execute(sa.delete(t.membership).where(_M.person_id == person_id, is_same_campaign))
    if role is not None:
        new = {"person_id": person_id, "campaign_id": campaign_id, "role": str(role)}
        connection.execute(sa.insert(t.membership).values(**new))
    audit.append(connection, who, "gave a role", "person", person_id, campaign_id=campaign_id, role=role)


def roles(connection: Connection, person_ids: Sequence[int]) -> dict[int, dict[int | None, Role]]:
    """{person id: {campaign id: role}}; a role in all campaigns has the id None."""
    by_person: dict[int, dict[int | None, Role]] = {id_: {} for id_ in person_ids}
    query = sa.select(_M.person_id, _M.campaign_id, _M.role).where(_M.person_id.in_(person_ids))
    for person_id, campaign_id, role in connection.execute(query):
        by_person[person_id][campaign_id] = Role(role)
    return by_person


def campaign_names(connection: Connection, campaign_ids: Sequence[int]) -> dict[int, str]:
    """{campaign id: name}, for showing roles."""
    query = sa.select(t.campaign.c.id, t.campaign.c.name).where(t.campaign.c.id.in_(campaign_ids))
    return {id_: name for id_, name in connection.execute(query)}
