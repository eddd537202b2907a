"""The person behind a request: by the session of a browser, or by the token of an instrument.

The ledger keeps hashes of passwords by argon2id. `sciagent.web.password_checks` limits how many are checked.
"""

from __future__ import annotations

import hmac
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
from sciagent.store.people import sessions_and_tokens
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
_HASHER = PasswordHasher()  # RFC 9106, low memory: 64 MiB, 3 passes, 4 lanes
# checked for an unknown login, so that it takes as long as a wrong password
_HASH_OF_NOBODY = _HASHER.hash("the time of a wrong login is that of a wrong password")


def hashed(password: str, login: str) -> str:
    """Returns the hash of a new password. It takes 64 MiB and up to a second; the server calls it in the pool of
    `PasswordChecks`. Raises UsageError if the password is too short, too long, or the login."""
    if not MIN_PASSWORD <= len(password) <= MAX_PASSWORD:
        raise UsageError(f"a password has {MIN_PASSWORD} to {MAX_PASSWORD} characters; a sentence is a good one")
    if login in password.lower() and len(password) < len(login) + MIN_PASSWORD:
        raise UsageError("the password is little more than the login; choose another one")
    return _HASHER.hash(password)


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
