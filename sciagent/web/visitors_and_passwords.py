"""The person behind a request: by the session of a browser, or by the token of an instrument.

A session without a touch for some minutes is locked if its person has a PIN: it belongs to nobody until the PIN is
typed.

The ledger keeps hashes of passwords by argon2id. `sciagent.web.password_checks` limits how many are checked.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.requests import Request

from sciagent.domain.people import Actor, Right, Rights
from sciagent.errors import UsageError
from sciagent.store.lab.blind_measurements import Viewer
from sciagent.store.people import sessions_and_tokens
from sciagent.store.people.persons import Person
from sciagent.store.people.sessions_and_tokens import Access, AccessKind, OpenedAccess

MAX_IDLE = timedelta(hours=12)  # time without a request after which a session needs the password again
BACKGROUND = "x-background"
"""The header of a request that a script sends by itself; it does not count as a touch."""
NOTES_PER_LOCK = 15  # times that a touch is noted in the time after which a session is locked
MAX_SECRET = 200  # characters of a token or of the secret in a cookie


@dataclass(frozen=True)
class Visitor:
    """Who asks, and what they may do. Without a person nothing is allowed."""

    person: Person | None = None
    access: Access | None = None
    rights: Rights = field(default_factory=Rights)
    should_note_use: bool = False
    """Whether it is time to note that the access is used."""
    locked: OpenedAccess | None = None
    """The session of the browser if it is locked. The visitor has no person then."""

    @property
    def who(self) -> Actor:
        """The name under which the acts of the visitor are kept."""
        assert self.person is not None  # the rule of the route has checked it
        access_id = None if self.access is None else self.access.id
        return Actor(self.person.login, self.person.id, access_id)

    @property
    def viewer(self) -> Viewer:
        """The person for whom blind measurements hide answers."""
        return Viewer(str(self.who), self.rights)

    @property
    def csrf(self) -> str:
        """The text that each form of the session carries."""
        if self.access is None:
            return ""
        return self.access.csrf or ""


def cookie_name(secure: bool) -> str:
    """Returns the name of the session's cookie. The prefix makes browsers refuse one that was set without TLS."""
    return "__Host-sciagent" if secure else "sciagent"


def visitor_of(request: Request, connection: Connection, secure: bool, lock_after: timedelta | None = None) -> Visitor:
    """Returns who sent a request. lock_after: time without a touch after which a session is locked; None: never."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    is_token = scheme.lower() == "bearer"
    secret = token.strip() if is_token else request.cookies.get(cookie_name(secure), "")
    if not secret or len(secret) > MAX_SECRET:
        return Visitor()
    kind = AccessKind.TOKEN if is_token else AccessKind.SESSION
    found = sessions_and_tokens.opened(connection, secret, kind)
    if found is None or found.person.disabled_at is not None:
        return Visitor()
    if kind is AccessKind.SESSION:
        return _session_visitor(request, found, lock_after)
    scopes = frozenset(Right(scope) for scope in found.access.scopes)
    rights = Rights(found.person.is_admin, found.roles, scopes, only_campaign=found.access.campaign_id)
    return Visitor(found.person, found.access, rights, found.should_note_use)


def _session_visitor(request: Request, found: OpenedAccess, lock_after: timedelta | None) -> Visitor:
    """Returns the visitor of an open session: nobody if it is locked, or was not used for long."""
    if found.idle > MAX_IDLE:
        return Visitor()
    should_note_use = found.should_note_use
    if lock_after is not None and found.person.pin_hash is not None:
        if found.access.locked_at is not None or found.idle > lock_after:
            return Visitor(locked=found)
        should_note_use = BACKGROUND not in request.headers and found.idle > lock_after / NOTES_PER_LOCK
    return Visitor(found.person, found.access, Rights(found.person.is_admin, found.roles), should_note_use)


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
_HASHER = PasswordHasher()  # RFC 9106, low memory: 64 MiB, 3 passes, 4 lanes
# checked for an unknown login, so that it takes as long as a wrong password
_HASH_OF_NOBODY = _HASHER.hash("the time of a wrong login is that of a wrong password")
PIN = re.compile(r"[0-9]{4,8}")


def hashed(password: str, login: str) -> str:
    """Returns the hash of a new password. It takes 64 MiB and up to a second; the server calls it in the pool of
    `PasswordChecks`. Raises UsageError if the password is too short, too long, or the login."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise UsageError(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters; a sentence is a good one")
    if login in password.lower() and len(password) < len(login) + MIN_PASSWORD:
        raise UsageError("the password is little more than the login; choose another one")
    return _HASHER.hash(password)


def hashed_pin(pin: str) -> str:
    """Returns the hash of a new PIN. Raises UsageError if it has another form, or is easily guessed."""
    if not PIN.fullmatch(pin):
        raise UsageError("a PIN has 4 to 8 digits")
    if len(set(pin)) == 1 or pin in "0123456789" or pin in "9876543210":
        raise UsageError("others would guess this PIN; choose digits in no order")
    return _HASHER.hash(pin)


@dataclass(frozen=True)
class PasswordFit:
    """Whether a password has a hash."""

    is_right: bool
    newer_hash: str | None = None
    """The hash of a right password under stronger parameters; None if the present ones are strong enough."""


def fit(password_hash: str | None, password: str) -> PasswordFit:
    """Returns whether a password has this hash. password_hash: None for a login without an account or a password,
    which no password fits, after the same time."""
    if len(password) > MAX_PASSWORD:
        return PasswordFit(is_right=False)
    try:
        _HASHER.verify(password_hash or _HASH_OF_NOBODY, password)
    except (VerificationError, InvalidHashError):
        return PasswordFit(is_right=False)
    if password_hash is None:
        return PasswordFit(is_right=False)
    newer_hash = _HASHER.hash(password) if _HASHER.check_needs_rehash(password_hash) else None
    return PasswordFit(is_right=True, newer_hash=newer_hash)
