"""The application: all routes, each with its rule, and what is said when one fails."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.staticfiles import StaticFiles

from sciagent.cockpit import pages as window
from sciagent.errors import SciagentError
from sciagent.lab.pages import api as lab_api
from sciagent.lab.pages import form, sheets
from sciagent.lab.pages import tasks as lab
from sciagent.store.database.ledger import Ledger
from sciagent.web import accounts
from sciagent.web.errors import said_of
from sciagent.web.lab import labels
from sciagent.web.rules import LogInError, rules_of
from sciagent.web.security.headers import HEADERS, Guarded
from sciagent.web.site import WebSite, path_of, to, wants_json
from sciagent.web.window import live

PARTS = (accounts, lab, lab_api, form, labels, sheets, window, live)
THREADS = 6  # pages that are made at once; most of a page is Python's work, so more threads wait for each other
TITLES = {400: "That does not work", 403: "Not allowed", 404: "Not found", 409: "Meanwhile", 503: "One moment"}


def application(ledger: Ledger, *, secure: bool = False) -> FastAPI:
    """Returns the application of a ledger. secure: whether browsers reach it by TLS.

    Raises RuntimeError for a route without a rule. It does not start if such a route is added later.
    """
    site = WebSite(ledger, secure=secure)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        rules_of(app)
        current_default_thread_limiter().total_tokens = THREADS
        site.ticker.start()
        threading.Thread(target=site.figures.warm, name="warm", daemon=True).start()
        yield
        site.ticker.stop()

    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    app.state.site = site
    for part in PARTS:
        part.pages.add_to(app)
    app.mount(
        "/static", StaticFiles(directory=Path(__file__).parent / "static", packages=[("sciagent.report", "static")])
    )
    rules_of(app)
    app.add_middleware(Guarded, secure=secure)
    for kind in (LogInError, HTTPException, SciagentError, RequestValidationError, Exception):
        app.add_exception_handler(kind, failed)
    return app


def failed(request: Request, error: Exception) -> Response:
    """Returns what is said of an error: to a script as JSON, to a person as a page; who has to log in is sent there."""
    if isinstance(error, LogInError):
        if wants_json(request):
            return JSONResponse({"detail": "log in first"}, 401, {"www-authenticate": "Bearer"})
        query = f"?{request.url.query}" if request.url.query else ""
        return to("/login", next=request.url.path + query if request.method == "GET" else "/")
    status, text = said_of(error)
    headers = HEADERS if status == 500 else None  # such an answer is made outside of `Guarded`
    if wants_json(request):
        return JSONResponse({"detail": text}, status, headers)
    site: WebSite = request.app.state.site
    title = TITLES.get(status, "Something went wrong")
    back = path_of(request.headers.get("referer", ""))
    page = site.page(request, "message.html.j2", status, title=title, text=text, back=back)
    page.headers.update(headers or {})
    return page
