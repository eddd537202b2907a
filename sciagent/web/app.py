"""The application of the pages: all routes, each with its rule, and the answers to errors."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from sciagent.errors import SciagentError, TaskStateError
from sciagent.store.database.ledger import Ledger
from sciagent.web import accounts, offline_copies, openapi_document, pins_and_locked_sessions, site_context_and_ticker
from sciagent.web.password_checks import TryLaterError
from sciagent.web.problem_answers import API, is_of_api, problem_answer
from sciagent.web.route_rules_and_request_guards import (
    HEADERS,
    Guarded,
    LockedSessionError,
    LogInError,
    Pages,
    rules_of,
)
from sciagent.web.served_names import OF_THIS_MACHINE, ServedNames
from sciagent.web.site_context_and_ticker import WebSite, in_words, path_of, redirect_to, said_of, sentence, wants_json

LOCK_AFTER = timedelta(minutes=5)  # without a touch
THREADS = 6  # pages that are made at once; most of a page is Python's work, so more threads wait for each other
TITLES = {
    400: "That does not work",
    403: "Not allowed",
    404: "Not found",
    409: "Meanwhile",
    429: "Wait a little",
    503: "One moment",
}


@dataclass(frozen=True)
class Feature:
    """The pages of a feature."""

    pages: tuple[Pages, ...]
    warm: Callable[[WebSite], None] | None = None
    """Runs once in a thread of its own when the server starts."""


OWN = Feature(
    (
        accounts.pages,
        site_context_and_ticker.pages,
        offline_copies.pages,
        pins_and_locked_sessions.pages,
        openapi_document.pages,
    )
)


def application(
    ledger: Ledger,
    features: Iterable[Feature] = (),
    *,
    secure: bool = False,
    names: ServedNames = OF_THIS_MACHINE,
    lock_after: timedelta | None = LOCK_AFTER,
) -> FastAPI:
    """Returns the application of a ledger.

    features: the pages that it serves beside the pages of accounts. secure: whether browsers reach it by TLS. names:
    under which they reach it. lock_after: time without a touch after which the session of a person with a PIN is
    locked; None: never. Raises RuntimeError for a route without a rule. The application does not start if such a route
    is added later.
    """
    shared = WebSite(ledger, secure=secure, public_url=names.public_url, lock_after=lock_after)
    served = (OWN, *features)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        rules_of(app)  # raises RuntimeError for a route without a rule
        current_default_thread_limiter().total_tokens = THREADS
        shared.ticker.start()
        for feature in served:
            if feature.warm is not None:
                threading.Thread(target=feature.warm, args=[shared], name="warm", daemon=True).start()
        yield
        shared.ticker.stop()

    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = shared
    for feature in served:
        for pages in feature.pages:
            pages.add_to(app)
    app.mount(
        "/static", StaticFiles(directory=Path(__file__).parent / "static", packages=[("sciagent.report", "static")])
    )
    rules_of(app)
    app.add_middleware(Guarded, secure=secure, names=names)
    for kind in (LogInError, LockedSessionError, HTTPException, SciagentError, RequestValidationError, Exception):
        app.add_exception_handler(kind, failed)
    return app


def failed(request: Request, error: Exception) -> Response:
    """Returns the answer to an error: a problem for a client of the HTTP API, JSON for a script of a page, a page for a
    person.

    A person who has to log in is sent to the form for it, and then back to the page; after a form, to the page of the
    form.
    """
    if is_of_api(request.url.path):
        return _problem(request, error)
    if isinstance(error, LogInError):
        if wants_json(request):
            return JSONResponse({"detail": "log in first"}, 401, {"www-authenticate": "Bearer"})
        address = str(request.url) if request.method == "GET" else request.headers.get("referer", "")
        return redirect_to("/login", next=path_of(address))
    if isinstance(error, LockedSessionError):
        return pins_and_locked_sessions.locked_page(request)
    status, text = said_of(error)
    headers = HEADERS if status == 500 else {}  # an answer with status 500 is made outside of `Guarded`
    if isinstance(error, TryLaterError):
        headers = {"retry-after": str(error.seconds)}
    if wants_json(request):
        return JSONResponse({"detail": sentence(in_words(text))}, status, headers)
    shared: WebSite = request.app.state.site
    title = TITLES.get(status, "Something went wrong")
    back = path_of(request.headers.get("referer", ""))
    page = shared.page(request, "message.html.j2", status, title=title, text=in_words(text), back=back)
    page.headers.update(headers)
    return page


def _problem(request: Request, error: Exception) -> Response:
    """Returns the answer of the HTTP API to an error."""
    path = request.url.path
    if isinstance(error, LogInError):
        detail = "show a token, as in: Authorization: Bearer TOKEN; `sciagent person token` prints one"
        if "authorization" in request.headers:
            detail = "the token is not known, has expired or was revoked; `sciagent person token` prints a new one"
        return problem_answer(path, 401, detail, headers={"www-authenticate": "Bearer"})
    if isinstance(error, LockedSessionError):
        return problem_answer(path, pins_and_locked_sessions.LOCKED, pins_and_locked_sessions.LOCKED_WORDS)
    status, text = said_of(error)
    if isinstance(error, TaskStateError):
        status = 409
    headers = dict(HEADERS) if status == 500 else {}  # an answer with status 500 is made outside of `Guarded`
    if isinstance(error, HTTPException):
        headers |= error.headers or {}
        if error.status_code == 404 and text == "Not Found":
            text = f"there is no such route; the routes are listed at {API}/openapi.json"
        if error.status_code == 405:
            text = f"{request.method} is not served here; it is {headers.get('Allow', 'another method')}"
    return problem_answer(path, status, text, error, headers)
