"""The lock of tablets that several people share: the page of one's PIN, and the page that a locked session shows.

The session of a person with a PIN is locked after some minutes without a touch (`sciagent serve --lock-minutes`). The
server answers every page with the lock then, whatever the scripts of the browser do. The PIN opens the session again;
after `MAX_WRONG_PINS` wrong ones the session ends, and the password is needed.
"""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sciagent.domain.people import Actor, Right
from sciagent.errors import UsageError
from sciagent.store.people import audit, persons, sessions_and_tokens
from sciagent.store.people.sessions_and_tokens import OpenedAccess
from sciagent.web.password_checks import TryLaterError
from sciagent.web.route_rules_and_request_guards import ANYONE, Pages, QueryText, RouteRule
from sciagent.web.site_context_and_ticker import (
    address_of,
    own_path,
    path_of,
    redirect_to,
    site_of,
    texts,
    visitor,
    wants_json,
)

LOCKED = 423  # HTTP status: locked
LOCKED_WORDS = "this session is locked; type your PIN"
MAX_WRONG_PINS = 5  # after which the session ends
pages = Pages()


def locked_page(request: Request, fault: str | None = None, next: str | None = None) -> Response:
    """Returns the answer to each request of a locked session. next: the page that follows the PIN; None for the page
    that was asked for."""
    if wants_json(request):
        return JSONResponse({"detail": LOCKED_WORDS}, LOCKED)
    if next is None:
        query = f"?{request.url.query}" if request.url.query else ""
        next = own_path(request.url.path + query) if request.method == "GET" else "/"
    locked = visitor(request).locked
    assert locked is not None  # who calls this function has checked it
    return site_of(request).page(request, "locked.html.j2", LOCKED, person=locked.person, next=next, fault=fault)


@pages.post("/unlock", ANYONE)
async def unlock(request: Request) -> Response:
    """Opens a locked session by the PIN of its person. Each PIN is counted before it is read."""
    site = site_of(request)
    fields = texts(request)
    locked = visitor(request).locked
    if locked is None:  # it was opened in another tab, or has ended
        return redirect_to(own_path(fields.get("next", "/")))
    access = locked.access
    is_counted = False

    def may_read() -> bool:
        nonlocal is_counted
        with site.ledger.begin() as connection:
            is_counted = sessions_and_tokens.count_pin(connection, access.id, MAX_WRONG_PINS)
        return is_counted

    is_right = await site.passwords.pin_fits(
        locked.person.pin_hash, fields.get("pin", ""), address_of(request), may_read
    )
    if is_right:
        return await run_in_threadpool(_unlocked, request, locked)
    return await run_in_threadpool(_refused, request, locked, is_counted)


def _unlocked(request: Request, locked: OpenedAccess) -> Response:
    """Opens the session."""
    with site_of(request).ledger.begin() as connection:
        sessions_and_tokens.unlock(connection, locked.access.id)
    return redirect_to(own_path(texts(request).get("next", "/")))


def _refused(request: Request, locked: OpenedAccess, is_counted: bool) -> Response:
    """Returns the answer to a wrong PIN. is_counted: whether it was read, too."""
    after = own_path(texts(request).get("next", "/"))
    n_wrong = min(locked.access.wrong_pins + 1, MAX_WRONG_PINS)
    has_ended = not is_counted or n_wrong == MAX_WRONG_PINS
    _record_wrong_pin(request, locked, n_wrong, has_ended)
    if has_ended:
        words = f"{MAX_WRONG_PINS} wrong PINs: the session has ended. Log in with your password"
        login = locked.person.login
        return site_of(request).page(request, "login.html.j2", 403, next=after, login=login, fault=words)
    left = MAX_WRONG_PINS - n_wrong
    return locked_page(request, f"This PIN is wrong. {left} more, then the password is needed.", after)


def _record_wrong_pin(request: Request, locked: OpenedAccess, n_wrong: int, has_ended: bool) -> None:
    """Records a wrong PIN, and ends the session after the last one."""
    who = Actor(locked.person.login, locked.person.id, locked.access.id)
    with site_of(request).ledger.begin() as connection:
        audit.append(connection, who, "failed to unlock", "session", locked.access.id, wrong_pins=n_wrong)
        if has_ended:
            sessions_and_tokens.revoke(connection, who, locked.access)


@pages.post("/lock", RouteRule(Right.READ))
def lock(request: Request) -> Response:
    """Locks the session at once: by the button, or by a script that has counted the minutes without a touch."""
    site = site_of(request)
    sender = visitor(request)
    if sender.person is None or sender.person.pin_hash is None or site.lock_after is None or sender.access is None:
        raise UsageError("this session is never locked; choose a PIN first")
    with site.ledger.begin() as connection:
        sessions_and_tokens.lock(connection, sender.access.id)
    if wants_json(request):
        return JSONResponse({"locked": True})
    return redirect_to(path_of(request.headers.get("referer", "")))


@pages.post("/touched", RouteRule(Right.READ))
def touched(request: Request) -> Response:
    """Notes that somebody touches the page. The rule of the route has noted it as the use of the session."""
    return Response(status_code=204)


@pages.get("/pin", RouteRule(Right.READ))
def pin_form(request: Request, done: QueryText = "") -> Response:
    return _pin_page(request, done=done)


@pages.post("/pin", RouteRule(Right.READ))
async def choose_pin(request: Request) -> Response:
    """Keeps a new PIN, or takes it away. It needs the password, since others may hold a tablet that is not locked."""
    passwords = site_of(request).passwords
    fields = texts(request)
    person = visitor(request).person
    assert person is not None  # the rule of the route has checked it
    is_removed = fields.get("act") == "remove"
    pin_hash = None
    try:
        if not is_removed:
            if fields.get("pin") != fields.get("again"):
                raise UsageError("the two PINs differ")
            pin_hash = await passwords.hashed_pin(fields.get("pin", ""), address_of(request))
        if await passwords.checked(person.login, fields.get("password", ""), address_of(request)) is None:
            raise UsageError("this is not your password")
    except TryLaterError:
        raise
    except UsageError as error:
        return await run_in_threadpool(_pin_page, request, str(error), "", 400)
    return await run_in_threadpool(_chosen, request, person.id, pin_hash)


def _chosen(request: Request, person_id: int, pin_hash: str | None) -> Response:
    """Writes the new PIN. pin_hash: None to take it away."""
    with site_of(request).ledger.begin() as connection:
        persons.set_pin(connection, visitor(request).who, person_id, pin_hash)
    return redirect_to("/pin", done="removed" if pin_hash is None else "kept")


def _pin_page(request: Request, fault: str | None = None, done: str = "", status: int = 200) -> Response:
    site = site_of(request)
    minutes = 0.0 if site.lock_after is None else site.lock_after.total_seconds() / 60
    words = {"kept": "The PIN is kept.", "removed": "The PIN is removed. Your sessions are not locked any more."}
    said = words.get(done, "")
    return site.page(request, "pin.html.j2", status, fault=fault, done=said, minutes=minutes, tries=MAX_WRONG_PINS)
