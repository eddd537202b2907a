"""A rule for every route (`RouteRule`): the right that it needs, and in which campaign. `Pages` holds routes with their
rules, and `rules_of` refuses an application with a route that has no rule.

The rule of a route also checks that a request which changes something comes from a page of this server (CSRF). It
does so for every method but those of `READING`. A request with a token needs no such check, since no browser adds a
token by itself; a cookie is not looked at then.

The outermost layer, `Guarded`, sets headers that tell the browser what a page may do, and limits what a request may
send. It is plain ASGI, so that a stream ends when its client leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Path, Query
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import BaseModel
from sqlalchemy.engine import Connection
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sciagent.domain.people import Right
from sciagent.domain.safe_text_and_durations import read_id, shown, storable
from sciagent.store.campaign_state import campaigns
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.lab import tasks
from sciagent.store.lab.tasks import LabTask
from sciagent.store.people import sessions_and_tokens
from sciagent.web.problem_answers import API, plain_answer, too_large_answer
from sciagent.web.served_names import ServedNames
from sciagent.web.visitors_and_passwords import Visitor, csrf_fits, is_same_origin, visitor_of

MAX_ATTACHED_FILES = 20  # files of a form
LARGEST = 2**31 - 1  # largest integer of PostgreSQL
MAX_NAME = 2000  # characters of a text in an address, such as the SMILES of a candidate
LARGEST_ID = 2**53 - 1  # largest whole number that every JSON reader keeps
TaskId = Annotated[int, Path(ge=1, le=LARGEST_ID)]
CampaignName = Annotated[str, Path(max_length=200)]
PathText = Annotated[str, Path(max_length=MAX_NAME)]
FileNumber = Annotated[int, Path(ge=0, le=MAX_ATTACHED_FILES)]
"""Parameters of a path."""
Count = Annotated[int, Query(ge=0, le=LARGEST)]
QueryText = Annotated[str, Query(max_length=MAX_NAME)]
"""Parameters of a query."""
MAX_FIELDS = 2000  # fields of a form
MAX_FIELD_BYTES = 1_000_000  # bytes of a field of a form with files
READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing."""
CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})
"""Methods that may change something. A route takes methods of `READING` and `CHANGING` only."""
FORM_TYPES = ("application/x-www-form-urlencoded", "multipart/form-data")
"""Content types of forms."""
NOT_FOUND = "there is nothing under this address, or you may not see it"
FOREIGN_NAME = (
    "This server is not known by the name in the address. Use the address that you were given; whoever runs the server "
    "states its name at the start: sciagent serve --public-url https://NAME\n"
)
ACTS = {
    Right.READ: "see anything",
    Right.WORK: "measure or review",
    Right.DECIDE: "decide",
    Right.ADMINISTER: "manage accounts",
}
"""{right: words for what it allows}, in a refusal."""


class LogInError(Exception):
    """The page needs a person, and nobody has logged in."""


class LockedSessionError(Exception):
    """The page needs a person, and the session of the browser is locked."""


@dataclass(frozen=True)
class RouteRule:
    """The right that a visitor of a route needs, and where."""

    right: Right | None
    """None: nobody has to log in."""
    of: str = ""
    """Parameter of the path that names the campaign in which the right is needed, or a task of the campaign: `campaign`
    or `task`. Empty: the right is needed in any campaign."""
    takes: tuple[str, ...] = ()
    """Content types of which a request that changes something must have one. Empty: the route takes a form or nothing,
    and ignores other content."""

    async def __call__(self, request: Request) -> None:
        """Checks who asks, then reads the form. Raises LogInError, LockedSessionError, or HTTPException with 403 or
        404."""
        visitor = await run_in_threadpool(self._admitted, request)
        if request.method not in READING:
            await _read_form(request, visitor, is_open=self.right is None)
            content_type = _content_type(request)
            if self.takes and content_type not in self.takes:
                allowed = " or ".join(self.takes)
                raise HTTPException(
                    415, f"send {allowed}, and say so in the header Content-Type; this is {shown(content_type)}"
                )

    def _admitted(self, request: Request) -> Visitor:
        """Returns the visitor. Keeps the campaign or task that the path names, for the page.

        Raises LogInError, LockedSessionError, or HTTPException."""
        site = request.app.state.site
        with site.ledger.read() as connection:
            visitor = visitor_of(request, connection, site.secure, site.lock_after)
            request.state.visitor = visitor
            if self.right is not None:
                self._check(request, connection, visitor, self.right)
        if visitor.should_note_use and visitor.access is not None:  # not at every request, since it is a write
            with site.ledger.begin() as connection:
                sessions_and_tokens.note_use(connection, visitor.access.id)
        return visitor

    def _check(self, request: Request, connection: Connection, visitor: Visitor, right: Right) -> None:
        """Raises LogInError if nobody has logged in, LockedSessionError for a locked session, or HTTPException if the
        visitor may not see or use the route."""
        if visitor.locked is not None:
            raise LockedSessionError
        if visitor.person is None:
            raise LogInError
        campaign_id = None
        if self.of:
            named = _named(connection, self.of, str(request.path_params[self.of]))
            request.state.named = named
            if isinstance(named, LabTask):
                campaign_id = named.campaign_id
            elif named is not None:
                campaign_id = named.id
            # the scopes of a token hide nothing that its account sees, so that a refusal can say what is missing
            of_account = replace(visitor.rights, scopes=None)
            if campaign_id is None or not of_account.may(Right.READ, campaign_id):
                raise HTTPException(404, NOT_FOUND)
        if not visitor.rights.may(right, campaign_id):
            who = "your account"
            if visitor.rights.scopes is not None and right not in visitor.rights.scopes:
                who = f"this token lacks the scope {right}, so that it"
            raise HTTPException(403, f"{who} may not {ACTS[right]} here")


ANYONE = RouteRule(right=None)
"""The rule of a route that needs no login."""


def _named(connection: Connection, kind: str, name: str) -> CampaignRow | LabTask | None:
    """Returns the campaign or task of this name; None if there is none. kind: `campaign` or `task`."""
    if kind == "campaign":
        return campaigns.find(connection, name) if storable(name) == name else None
    task_id = read_id(name)
    return None if task_id is None else tasks.find(connection, task_id)


async def _read_form(request: Request, visitor: Visitor, *, is_open: bool) -> None:
    """Reads the form of a request that changes something. Raises HTTPException with 403 if it does not come from a page
    of this session."""
    # a token, unlike the session of a browser, has no csrf text
    has_token = visitor.access is not None and not visitor.csrf
    if not has_token and not is_same_origin(request.headers, request.headers.get("host", "")):
        raise HTTPException(403, "this form did not come from a page of this server")
    if _content_type(request) not in FORM_TYPES:
        request.state.form = FormData()  # a script sends no form
        given_csrf = request.headers.get("x-csrf-token", "")
    else:
        form = await request.form(max_files=MAX_ATTACHED_FILES, max_fields=MAX_FIELDS, max_part_size=MAX_FIELD_BYTES)
        request.state.form = form
        given_csrf = request.headers.get("x-csrf-token") or str(form.get("csrf", ""))
    if not has_token and not is_open and not csrf_fits(visitor, given_csrf):
        raise HTTPException(403, "this form is older than your session; load the page again")


def _content_type(request: Request) -> str:
    """Returns the content type of a request without its parameters; empty without one."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@dataclass(frozen=True)
class Page:
    """A route with its rule."""

    method: str
    path: str
    function: Callable[..., Any]
    rule: RouteRule
    answer: Any
    """Model of the answer; None for a page."""
    body: type[BaseModel] | None
    """Model of a body that the function reads itself; None where FastAPI reads it, or where there is none."""
    described: Mapping[str, Any]
    """Further arguments of `APIRoute`, which describe the route in the OpenAPI document."""


class ApiRoute(APIRoute):
    """A route, with the model of a body that its function reads itself."""

    own_body: type[BaseModel] | None = None


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Pages:
    """Routes that each have a rule."""

    def __init__(self, tag: str = "") -> None:
        """tag: heading in the OpenAPI document. With a tag the routes are of the HTTP API: their paths are given
        without its prefix, and they are in the document. Empty: pages for people, which are not in it."""
        self._tag = tag
        self._pages: list[Page] = []

    def get(self, path: str, rule: RouteRule, answer: Any = None, **described: Any) -> Decorator:
        """Returns a decorator that answers GET at a path. answer, described: as in `Page`."""
        return self._added("GET", path, rule, answer, None, **described)

    def post(
        self, path: str, rule: RouteRule, answer: Any = None, body: type[BaseModel] | None = None, **described: Any
    ) -> Decorator:
        """Returns a decorator that answers POST at a path. answer, body, described: as in `Page`."""
        return self._added("POST", path, rule, answer, body, **described)

    def _added(
        self, method: str, path: str, rule: RouteRule, answer: Any, body: type[BaseModel] | None, **described: Any
    ) -> Decorator:
        full_path = f"{API}{path}" if self._tag else path

        def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
            self._pages.append(Page(method, full_path, function, rule, answer, body, described))
            return function

        return decorated

    def add_to(self, app: FastAPI) -> None:
        """Adds the routes to an application. Raises RuntimeError if one has a parameter without bounds.

        Applications of one process share the routes, since reading the signatures of all functions takes 0.1 s.
        """
        app.router.routes.extend(self._routes)

    @cached_property
    def _routes(self) -> list[APIRoute]:
        return [self._route(page) for page in self._pages]

    def _route(self, page: Page) -> APIRoute:
        for name in unbounded_parameters(APIRoute(page.path, page.function, response_model=None)):
            raise RuntimeError(f"the parameter {name} of the route {page.path} has no bounds: how large may it be?")
        route = ApiRoute(
            page.path,
            page.function,
            methods=[page.method],
            dependencies=[Depends(page.rule)],
            response_model=page.answer,
            include_in_schema=bool(self._tag),
            tags=[self._tag] if self._tag else None,
            operation_id=page.function.__name__ if self._tag else None,
            **page.described,
        )
        route.own_body = page.body
        return route


def rules_of(app: FastAPI) -> dict[tuple[str, str], RouteRule]:
    """Returns {(method, path): rule} of all routes.

    Raises RuntimeError if the first dependency of a route is not a rule, or if a route takes an unknown method."""
    rules = {}
    for route in app.routes:
        if isinstance(route, Mount) and isinstance(route.app, StaticFiles):
            continue
        path = getattr(route, "path", route)
        rule = None
        if isinstance(route, APIRoute) and route.dependant.dependencies:
            rule = route.dependant.dependencies[0].call
        if not isinstance(route, APIRoute) or not isinstance(rule, RouteRule):
            raise RuntimeError(f"the route {path} has no rule as its first dependency: who may call it?")
        methods = route.methods or set()
        unknown = sorted(methods - READING - CHANGING)
        if unknown:
            known = ", ".join(sorted(READING | CHANGING))
            raise RuntimeError(f"the route {path} takes {unknown[0]}, which is none of {known}")
        for method in methods:
            rules[(method, route.path)] = rule
    return rules


def unbounded_parameters(route: APIRoute) -> list[str]:
    """Returns the parameters of a route's path, query and headers for which a client may send a value of any size."""
    if not route.dependant.path_params + route.dependant.query_params + route.dependant.header_params:
        return []
    [path] = get_openapi(title="", version="", routes=[route])["paths"].values()
    unbounded = []
    for operation in path.values():
        for parameter in operation.get("parameters", ()):
            schema = parameter["schema"]
            if not all(_has_bounds(choice) for choice in schema.get("anyOf", [schema])):
                unbounded.append(parameter["name"])
    return unbounded


def _has_bounds(schema: Mapping[str, object]) -> bool:
    """Returns whether a value of a JSON schema is limited in size."""
    match schema.get("type"):
        case "boolean" | "null":
            return True
        case "integer" | "number":
            return {"minimum", "maximum"} <= schema.keys()
        case "string":
            return bool({"maxLength", "enum", "const"} & schema.keys())
        case _:
            return False


MAX_BODY = 1_000_000  # bytes of a form
MAX_LENGTH_DIGITS = 18  # a content length has fewer digits
MAX_FILES = 50_000_000  # bytes of a form with attached files or a sheet
POLICY = "; ".join((
    "default-src 'none'", "script-src 'self'", "style-src 'self'", "style-src-attr 'unsafe-inline'",  # SVG by RDKit
    "img-src 'self'", "font-src 'self'", "connect-src 'self'", "manifest-src 'self'", "worker-src 'self'",
    "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
))  # fmt: skip
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}


class BodyTooLargeError(Exception):
    """A request sent more than it may."""


class Guarded:
    """Sets the headers of every answer, refuses a request under a foreign name, and ends one that sends too much."""

    def __init__(self, app: ASGIApp, *, secure: bool, names: ServedNames) -> None:
        """secure: whether the server speaks TLS, or stands behind a proxy that does. names: of the server."""
        self._app = app
        self._secure = secure
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        may_have_files = headers.get(b"content-type", b"").startswith(b"multipart/form-data")
        limit = MAX_FILES if may_have_files else MAX_BODY
        sent_bytes = 0
        has_answered = False

        async def counted() -> Message:
            nonlocal sent_bytes
            message = await receive()
            sent_bytes += len(message.get("body", b""))
            if sent_bytes > limit:
                raise BodyTooLargeError
            return message

        async def with_headers(message: Message) -> None:
            nonlocal has_answered
            if message["type"] == "http.response.start":
                has_answered = True
                headers_of_answer = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers_of_answer.setdefault(name, value)
                if not scope["path"].startswith("/static/"):
                    headers_of_answer.setdefault("cache-control", "no-store")
                if self._secure:
                    headers_of_answer.setdefault("strict-transport-security", "max-age=31536000")  # a year
            await send(message)

        too_large = too_large_answer(scope["path"], limit)
        if not self._names.allow(headers.get(b"host", b"").decode("latin-1")):
            await plain_answer(scope["path"], 421, FOREIGN_NAME)(scope, receive, with_headers)
            return
        try:
            # the number of digits is checked first, since the client chooses it
            if length.isdigit() and len(length) < MAX_LENGTH_DIGITS and int(length) <= limit:
                await self._app(scope, counted, with_headers)
            else:
                await too_large(scope, receive, with_headers)
        except ClientDisconnect:
            return  # the client left, or was too slow, before its request was complete
        except BodyTooLargeError:
            if not has_answered:
                await too_large(scope, receive, with_headers)
