"""Log in, log out, choose a password by a one-time link, and end sessions."""

from __future__ import annotations

from itertools import chain
from typing import Annotated

from fastapi import Path
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from sciagent.domain.people import Actor, Right
from sciagent.errors import UsageError
from sciagent.store.people import audit, persons, sessions_and_tokens
from sciagent.store.people.persons import Person
from sciagent.store.people.sessions_and_tokens import LIFETIMES, AccessKind
from sciagent.web.password_checks import TryLaterError
from sciagent.web.route_rules_and_request_guards import ANYONE, Pages, QueryText, RouteRule
from sciagent.web.site_context_and_ticker import address_of, own_path, redirect_to, site_of, texts, visitor, wants_json
from sciagent.web.visitors_and_passwords import MAX_SECRET, cookie_name

LINKS = (AccessKind.INVITE, AccessKind.RESET)
WRONG_LOGIN = "login and password do not fit"
SPENT_LINK = "this link was used before, has expired, or was replaced by a newer one; ask for another one"
Secret = Annotated[str, Path(max_length=MAX_SECRET)]
pages = Pages()


@pages.get("/login", ANYONE)
def log_in_form(request: Request, next: QueryText = "/") -> Response:
    if visitor(request).person is not None:
        return redirect_to(own_path(next))
    return site_of(request).page(request, "login.html.j2", next=own_path(next), login="", fault=None)


@pages.post("/login", ANYONE)
async def log_in(request: Request) -> Response:
    """Opens a session. From the form that a script shows over another page it answers JSON with the new form token."""
    site = site_of(request)
    fields = texts(request)
    login = fields.get("login", "").strip().lower()
    try:
        person = await site.passwords.checked(login, fields.get("password", ""), address_of(request))
    except TryLaterError as error:
        return await run_in_threadpool(_refused, request, error.status, error.text, {"retry-after": f"{error.seconds}"})
    if person is None:
        return await run_in_threadpool(_refused, request, 403, WRONG_LOGIN, {})
    response = await run_in_threadpool(_with_session, request, person.id, person.login)
    if wants_json(request):
        return response
    response.status_code = 303
    response.headers["location"] = own_path(fields.get("next", "/"))
    return response


def _refused(request: Request, status: int, fault: str, headers: dict[str, str]) -> Response:
    """Returns the form for another attempt; for a script, the fault as JSON."""
    if wants_json(request):
        return JSONResponse({"detail": fault}, status, headers)
    fields = texts(request)
    after = own_path(fields.get("next", "/"))
    login = fields.get("login", "").strip().lower()[:64]
    page = site_of(request).page(request, "login.html.j2", status, next=after, login=login, fault=fault)
    page.headers.update(headers)
    return page


def _with_session(request: Request, person_id: int, login: str) -> Response:
    """Returns an answer with the cookie of a new session; whatever session the browser had ends."""
    site = site_of(request)
    sender = visitor(request)
    old = sender.access if sender.locked is None else sender.locked.access
    address = address_of(request)
    with site.ledger.begin() as connection:
        if old is not None and old.kind is AccessKind.SESSION:
            sessions_and_tokens.revoke(connection, login, old)
        who = Actor(login, person_id)
        secret, _ = sessions_and_tokens.create(connection, who, person_id, AccessKind.SESSION, address=address)
        session = sessions_and_tokens.find(connection, secret, (AccessKind.SESSION,))
    response = JSONResponse({"csrf": session.csrf if session else "", "login": login})
    response.set_cookie(
        cookie_name(site.secure), secret, max_age=int(LIFETIMES[AccessKind.SESSION].total_seconds()), path="/",
        secure=site.secure, httponly=True, samesite="lax",
    )  # fmt: skip
    return response


@pages.post("/logout", RouteRule(Right.READ))
def log_out(request: Request) -> Response:
    site = site_of(request)
    sender = visitor(request)
    if sender.access is not None:
        with site.ledger.begin() as connection:
            sessions_and_tokens.revoke(connection, sender.who, sender.access)
    response = redirect_to("/login")
    response.delete_cookie(cookie_name(site.secure), path="/", secure=site.secure, httponly=True, samesite="lax")
    return response


@pages.get("/welcome/{secret}", ANYONE)
def choose_form(request: Request, secret: Secret) -> Response:
    """Shows the form of a one-time link; opening it does not use it up, since mail programs open links, too."""
    person = _invited(request, secret)
    return _spent(request) if person is None else _choose_page(request, 200, person, secret, None)


@pages.post("/welcome/{secret}", ANYONE)
async def choose(request: Request, secret: Secret) -> Response:
    """Sets the password, ends all sessions of the person, and opens one."""
    person = await run_in_threadpool(_invited, request, secret)
    if person is None:
        return await run_in_threadpool(_spent, request)
    fields = texts(request)
    try:
        if fields.get("password") != fields.get("again"):
            raise UsageError("the two passwords differ")
        new_hash = await site_of(request).passwords.hashed(
            fields.get("password", ""), person.login, address_of(request)
        )
    except TryLaterError:
        raise
    except UsageError as error:
        return await run_in_threadpool(_choose_page, request, 400, person, secret, str(error))
    return await run_in_threadpool(_chosen, request, person, secret, new_hash)


def _invited(request: Request, secret: str) -> Person | None:
    """Returns the person of a one-time link; None if it does not work."""
    with site_of(request).ledger.read() as connection:
        access = sessions_and_tokens.find(connection, secret, LINKS)
        return None if access is None else persons.by_id(connection, access.person_id)


def _spent(request: Request) -> Response:
    title = "This link does not work"
    return site_of(request).page(request, "message.html.j2", 404, title=title, text=SPENT_LINK)


def _choose_page(request: Request, status: int, person: Person, secret: str, fault: str | None) -> Response:
    return site_of(request).page(request, "welcome.html.j2", status, person=person, secret=secret, fault=fault)


def _chosen(request: Request, person: Person, secret: str, new_hash: str) -> Response:
    """Writes the new password, and logs the person in."""
    with site_of(request).ledger.begin() as connection:
        if sessions_and_tokens.find(connection, secret, LINKS) is None:  # another request has used it meanwhile
            raise UsageError(SPENT_LINK)
        sessions_and_tokens.revoke_all(connection, person.id, (AccessKind.SESSION, *LINKS))
        persons.set_password(connection, Actor(person.login, person.id), person.id, new_hash)
    response = _with_session(request, person.id, person.login)
    response.status_code = 303
    response.headers["location"] = "/"
    return response


@pages.get("/people", RouteRule(Right.ADMINISTER))
def people(request: Request, after: QueryText = "") -> Response:
    """Shows the accounts, and the last acts of the trail."""
    site = site_of(request)
    with site.ledger.read() as connection:
        listed = persons.listed(connection, after[:64])
        roles = persons.roles(connection, [person.id for person in listed])
        acts = audit.last(connection, n=50)
        all_ids = chain.from_iterable(roles.values())  # None stands for a role in all campaigns
        campaign_ids = [campaign_id for campaign_id in all_ids if campaign_id is not None]
        names = persons.campaign_names(connection, campaign_ids)
    return site.page(request, "people.html.j2", people=listed, roles=roles, acts=acts, names=names)
