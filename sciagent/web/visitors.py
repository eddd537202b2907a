"""The person behind a request: by the session of a browser, or by the token of an instrument."""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from datetime import timedelta
from urllib.parse import urlsplit

from sqlalchemy.engine import Connection
from starlette.datastructures import Headers
from starlette.requests import Request

from sciagent.domain.people.actor import Actor
from sciagent.domain.people import Right, Rights
from sciagent.store.people import accesses
from sciagent.store.people.accesses import Access, AccessKind
from sciagent.store.people.persons import Person

IDLE = timedelta(hours=12)  # after which a session asks for the password again


@dataclass(frozen=True)
class Visitor:
    """Who asks, and what they may do. Without a person nothing is allowed."""

    person: Person | None = None
    access: Access | None = None
    rights: Rights = field(default_factory=Rights)
    wants_touch: bool = False
    """Whether it is time to note that the access is used."""

    @property
    def who(self) -> Actor:
        """The name under which the acts of the visitor are kept."""
        assert self.person is not None  # the rule of the route saw to it
        return Actor(self.person.login, self.person.id, self.access.id if self.access else None)

    @property
    def csrf(self) -> str:
        """The text that each form of the session carries."""
        return (self.access.csrf or "") if self.access else ""


def cookie_name(secure: bool) -> str:
    """Returns the name of the session's cookie. The prefix makes browsers refuse one that was set without TLS."""
    return "__Host-sciagent" if secure else "sciagent"


def visitor_of(request: Request, connection: Connection, secure: bool) -> Visitor:
    """Returns who sent a request."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    is_token = scheme.lower() == "bearer"
    secret = token.strip() if is_token else request.cookies.get(cookie_name(secure), "")
    if not secret or len(secret) > 200:
        return Visitor()
    kind = AccessKind.TOKEN if is_token else AccessKind.SESSION
    found = accesses.opened(connection, secret, kind)
    if found is None or found.person.disabled_at is not None:
        return Visitor()
    if kind is AccessKind.SESSION and found.idle > IDLE:
        return Visitor()
    scopes = None if kind is AccessKind.SESSION else frozenset(Right(scope) for scope in found.access.scopes)
    rights = Rights(found.person.is_admin, found.roles, scopes)
    return Visitor(found.person, found.access, rights, found.wants_touch)


def is_same_origin(headers: Headers, host: str) -> bool:
    """Returns whether a browser says that a form came from a page of this server. Without a word on that it is refused:
    browsers always say it of a POST."""
    if (site := headers.get("sec-fetch-site")) is not None:
        return site == "same-origin"
    origin = headers.get("origin")
    try:
        return origin is not None and urlsplit(origin).netloc == host
    except ValueError:  # it is no address
        return False


def csrf_fits(visitor: Visitor, given: str) -> bool:
    """Returns whether a form carries the text of its session."""
    return bool(visitor.csrf) and hmac.compare_digest(visitor.csrf.encode(), given.encode())
