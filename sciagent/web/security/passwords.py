"""Passwords: argon2id, and a lock-out that grows with each wrong one."""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import BoundedSemaphore

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from sciagent.errors import UsageError
from sciagent.store.database.clock import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons
from sciagent.store.people.persons import Person

SHORTEST, LONGEST = 12, 256
FREE_TRIES = 5  # wrong passwords before the first wait
FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=30), timedelta(minutes=15)
_HASHER = PasswordHasher()  # RFC 9106, low memory: 64 MiB, 3 passes, 4 lanes
_NOBODY = _HASHER.hash("the time of a wrong login is that of a wrong password")
_AT_ONCE = BoundedSemaphore(4)  # each takes 64 MiB


class LockedError(UsageError):
    """Too many wrong passwords; none is read for a while."""


def hashed(password: str, login: str) -> str:
    """Returns the hash of a new password. Raises UsageError if it is too short, too long, or the login."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise UsageError(f"a password has {SHORTEST} to {LONGEST} characters; a sentence is a good one")
    if login in password.lower() and len(password) < len(login) + SHORTEST:
        raise UsageError("the password is little more than the login; choose another one")
    with _AT_ONCE:
        return _HASHER.hash(password)


def checked(ledger: Ledger, login: str, password: str) -> Person | None:
    """Returns the account if login and password fit, else None; wrong ones are counted in the ledger.

    A wrong login takes as long as a wrong password. Raises LockedError while an account is locked.
    """
    with ledger.read() as connection:
        person = persons.by_login(connection, login)
        now = db_now(connection)
    if person is not None and person.locked_until is not None and person.locked_until > now:
        minutes = max(1, round((person.locked_until - now).total_seconds() / 60))
        raise LockedError(f"too many wrong passwords; try again in {minutes} minute{'' if minutes == 1 else 's'}")
    is_right = _fits(person.password_hash if person and person.password_hash else _NOBODY, password)
    if person is None or person.password_hash is None or person.disabled_at is not None:
        return None
    with ledger.begin() as connection:
        if is_right:
            persons.set_attempts(connection, person.id, 0, None)
            if _HASHER.check_needs_rehash(person.password_hash):
                persons.rehash(connection, person.id, _HASHER.hash(password))
            return person
        failures = persons.by_id(connection, person.id).failures + 1
        persons.set_attempts(connection, person.id, failures, _locked_until(failures, now))
        audit.append(connection, login, "failed to log in", "person", person.id, failures=failures)
    return None


def _fits(password_hash: str, password: str) -> bool:
    if len(password) > LONGEST:
        return False
    try:
        with _AT_ONCE:
            return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def _locked_until(failures: int, now: datetime) -> datetime | None:
    if failures < FREE_TRIES:
        return None
    wait: timedelta = FIRST_WAIT * 2 ** min(failures - FREE_TRIES, 10)
    return now + min(LONGEST_WAIT, wait)
