"""The person behind a request: by the session of a browser, or by the token of an instrument.

The ledger keeps hashes of passwords by argon2id. After several wrong passwords an account is locked for a while; each
further wrong password doubles the time.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import BoundedSemaphore
from urllib.parse import urlsplit

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.requests import Request

from sciagent.domain.people import Actor, Right, Rights
from sciagent.errors import UsageError
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons, sessions_and_tokens
from sciagent.store.people.persons import Person
from sciagent.store.people.sessions_and_tokens import Access, AccessKind

MAX_IDLE = timedelta(hours=12)  # time without a request after which a session needs the password again
MAX_SECRET = 200  # characters of a token or of the secret in a cookie


@dataclass(frozen=True)
class Visitor:
    """Who asks, and what they may do. Without a person nothing is allowed."""

    person: Person | None = None
    access: Access | None = None
    rights: Rights = field(default_factory=Rights)
    should_note_use: bool = False
    """Whether it is time to note that the access is used."""

    @property
    def who(self) -> Actor:
        """The name under which the acts of the visitor are kept."""
        assert self.person is not None  # the rule of the route has checked it
        access_id = None if self.access is None else self.access.id
        return Actor(self.person.login, self.person.id, access_id)

    @property
    def csrf(self) -> str:
        """The text that each form of the session carries."""
        if self.access is None:
            return ""
        return self.access.csrf or ""


def cookie_name(secure: bool) -> str:
    """Returns the name of the session's cookie. The prefix makes browsers refuse one that was set without TLS."""
    return "__Host-sciagent" if secure else "sciagent"


def visitor_of(request: Request, connection: Connection, secure: bool) -> Visitor:
    """Returns who sent a request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    is_token = scheme.lower() == "bearer"
    secret = token.strip() if is_token else request.cookies.get(cookie_name(secure), "")
    if not secret or len(secret) > MAX_SECRET:
        return Visitor()
    kind = AccessKind.TOKEN if is_token else AccessKind.SESSION
    found = sessions_and_tokens.opened(connection, secret, kind)
    if found is None or found.person.disabled_at is not None:
        return Visitor()
    if kind is AccessKind.SESSION and found.idle > MAX_IDLE:
        return Visitor()
    scopes = None
    if kind is AccessKind.TOKEN:
        scopes = frozenset(Right(scope) for scope in found.access.scopes)
    rights = Rights(found.person.is_admin, found.roles, scopes, only_campaign=found.access.campaign_id)
    return Visitor(found.person, found.access, rights, found.should_note_use)


def is_same_origin(headers: Headers, host: str) -> bool:
    """Returns whether a browser says that a form came from a page of this server. Browsers always say where a POST
    comes from, so a request that does not say is not of the same origin."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc == host
    except ValueError:  # it is no address
        return False


def csrf_fits(visitor: Visitor, given: str) -> bool:
    """Returns whether a form carries the text of its session."""
    return bool(visitor.csrf) and hmac.compare_digest(visitor.csrf.encode(), given.encode())


MIN_PASSWORD = 12  # characters
MAX_PASSWORD = 256  # characters
FREE_TRIES = 5  # wrong passwords before the first wait
FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=15)
# keeps 2**n small after many wrong passwords; the wait reaches LONGEST_WAIT after fewer doublings
MAX_DOUBLINGS = 10
_HASHER = PasswordHasher()  # RFC 9106, low memory: 64 MiB, 3 passes, 4 lanes
# checked for an unknown login, so that it takes as long as a wrong password
_HASH_OF_NOBODY = _HASHER.hash("the time of a wrong login is that of a wrong password")
_AT_ONCE = BoundedSemaphore(4)  # number of hashes that are computed at once; each takes 64 MiB


class LockedError(UsageError):
    """Too many wrong passwords; none is read for a while."""


def hashed(password: str, login: str) -> str:
    """Returns the hash of a new password. Raises UsageError if it is too short, too long, or the login."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise UsageError(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters; a sentence is a good one")
    if login in password.lower() and len(password) < len(login) + MIN_PASSWORD:
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
        unit = "minute" if minutes == 1 else "minutes"
        raise LockedError(f"too many wrong passwords; try again in {minutes} {unit}")
    password_hash = _HASH_OF_NOBODY
    if person is not None and person.password_hash:
        password_hash = person.password_hash
    is_right = _fits(password_hash, password)
    if person is None or person.password_hash is None or person.disabled_at is not None:
        return None
    newer_hash = None
    if is_right and _HASHER.check_needs_rehash(person.password_hash):
        with _AT_ONCE:
            newer_hash = _HASHER.hash(password)
    with ledger.begin() as connection:
        if is_right:
            persons.set_failures(connection, person.id, failures=0, locked_until=None)
            if newer_hash is not None:
                persons.rehash(connection, person.id, newer_hash)
            return person
        failures = persons.by_id(connection, person.id).failures + 1
        persons.set_failures(connection, person.id, failures, _locked_until(failures, now))
        audit.append(connection, login, "failed to log in", "person", person.id, failures=failures)
    return None


def _fits(password_hash: str, password: str) -> bool:
    """Returns whether the password has this hash."""
    if len(password) > MAX_PASSWORD:
        return False
    try:
        with _AT_ONCE:
            return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


def _locked_until(failures: int, now: datetime) -> datetime | None:
    """Returns the end of the lock after so many wrong passwords; None for no lock. The wait doubles each time."""
    if failures < FREE_TRIES:
        return None
    n_doublings = min(failures - FREE_TRIES, MAX_DOUBLINGS)
    wait: timedelta = FIRST_WAIT * 2**n_doublings
    return now + min(LONGEST_WAIT, wait)
