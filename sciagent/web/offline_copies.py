"""Serves what a tablet needs to open pages without a network: the service worker, and the headers that say which page
may be copied, for whom, and for how long.

The worker (`static/worker.js`) keeps the files that all pages share, and copies of the list and of tasks. A copy
belongs to one login. A browser runs a service worker only at an https address whose certificate it trusts, or at
localhost.
"""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from sciagent.web.route_rules_and_request_guards import ANYONE, Pages
from sciagent.web.visitors_and_passwords import MAX_IDLE, Visitor

OWN_FILES = Path(__file__).parent / "static"
WORKER = "worker.js"
SHARED_FILES = ("colours.css",)  # files of the report that pages use
pages = Pages()


@dataclass(frozen=True)
class Shell:
    """The files that all pages share."""

    paths: tuple[str, ...]
    """Their paths on the server."""
    hash: str
    """Hash of their content. It is in the addresses by which pages name them, so that a copy is never too old."""


@functools.cache
def shell() -> Shell:
    """Returns the files that all pages share."""
    content = {path.name: path.read_bytes() for path in sorted(OWN_FILES.iterdir()) if path.is_file()}
    for name in SHARED_FILES:
        content[name] = files("sciagent.report").joinpath("static", name).read_bytes()
    digest = hashlib.sha256()
    for name, file_bytes in content.items():
        digest.update(name.encode() + file_bytes)
    paths = tuple(f"/static/{name}" for name in content if name != WORKER)
    return Shell(paths, digest.hexdigest()[:16])


def lock_seconds(visitor: Visitor, lock_after: timedelta | None) -> float:
    """Returns the seconds without a touch after which the session is locked; 0 for one that is never locked."""
    if lock_after is None or visitor.person is None or visitor.person.pin_hash is None:
        return 0
    return lock_after.total_seconds()


def copy_headers(visitor: Visitor, lock_after: timedelta | None) -> dict[str, str]:
    """Returns the headers that tell the worker whose page it is, the seconds in which the session ends if the server
    hears no more of it, and the seconds after which it is locked. None for nobody's page."""
    if visitor.person is None or visitor.access is None:
        return {}
    left = min(MAX_IDLE, visitor.access.expires_at - datetime.now(UTC))
    return {
        "x-login": visitor.person.login,
        "x-copy-seconds": f"{max(0, left.total_seconds()):.0f}",
        "x-lock-seconds": f"{lock_seconds(visitor, lock_after):g}",
    }


@pages.get("/worker.js", ANYONE)
def worker(request: Request) -> Response:
    """Returns the service worker. It lies at the root, since a worker serves the folder that it comes from."""
    values = json.dumps({"hash": shell().hash, "paths": shell().paths})
    text = f"const SHELL = {values};\n" + (OWN_FILES / WORKER).read_text(encoding="utf-8")
    return Response(text, media_type="text/javascript", headers={"cache-control": "no-cache"})


@pages.get("/offline", ANYONE)
def offline(request: Request) -> Response:
    """Returns the page that the worker shows for one that it has no copy of. It names nobody."""
    site: Any = request.app.state.site
    request.state.visitor = Visitor()
    page: Response = site.page(request, "offline.html.j2")
    return page
