"""Who may call which route: the table of all routes and roles, made from the application."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from sciagent.campaign.lab import answering
from sciagent.domain.people.roles import Right, Role
from sciagent.web.app import PARTS, application
from sciagent.web.security.rules import rules_of
from tests.campaign.lab.test_answering import entry, task_ids
from tests.web.conftest import Browser, Serve, Server

ANYONE, READ, WORK, DECIDE, ADMINISTER = "anyone", "read", "work", "decide", "administer"
TABLE = {
    ("GET", "/login"): ANYONE,
    ("POST", "/login"): ANYONE,
    ("POST", "/logout"): READ,
    ("GET", "/welcome/{secret}"): ANYONE,
    ("POST", "/welcome/{secret}"): ANYONE,
    ("GET", "/people"): ADMINISTER,
    ("GET", "/"): READ,
    ("GET", "/live"): READ,
    ("GET", "/tasks"): READ,
    ("GET", "/scan"): READ,
    ("GET", "/s/{code}"): READ,
    ("GET", "/labels"): READ,
    ("GET", "/tasks/{task}"): READ,
    ("GET", "/tasks/{task}/files/{submission}/{number}"): READ,
    ("POST", "/tasks/{task}/enter"): WORK,
    ("POST", "/tasks/{task}/claim"): WORK,
    ("POST", "/tasks/{task}/release"): WORK,
    ("POST", "/tasks/{task}/review"): WORK,
    ("POST", "/tasks/{task}/sign"): WORK,
    ("POST", "/tasks/{task}/sample"): WORK,
    ("POST", "/tasks/{task}/approve"): DECIDE,
    ("POST", "/approve"): DECIDE,
    ("GET", "/sheet"): WORK,
    ("GET", "/sheet.csv"): WORK,
    ("POST", "/sheet"): WORK,
    ("GET", "/api/tasks"): READ,
    ("POST", "/api/tasks/{task}/claim"): WORK,
    ("POST", "/api/tasks/{task}/results"): WORK,
    ("GET", "/campaigns"): READ,
    ("GET", "/campaigns/{campaign}"): READ,
    ("GET", "/campaigns/{campaign}/candidates"): READ,
    ("GET", "/campaigns/{campaign}/candidates/{key}"): READ,
    ("POST", "/campaigns/{campaign}/state"): DECIDE,
    ("POST", "/campaigns/{campaign}/candidates/{key}"): DECIDE,
}
MAY = {
    "nobody": {ANYONE},
    "viewer": {ANYONE, READ},
    "lab": {ANYONE, READ, WORK},
    "chemist": {ANYONE, READ, WORK, DECIDE},
    "admin": {ANYONE, READ, ADMINISTER},
    "elsewhere": {ANYONE},  # a chemist of another campaign
    "token": {ANYONE, READ},  # of a chemist, with the scope `read`
}
OWN = {
    "/login",
    "/logout",
    "/",
    "/live",
    "/tasks",
    "/scan",
    "/campaigns",
    "/api/tasks",
    "/sheet",
    "/sheet.csv",
    "/approve",
}
"""Routes of no campaign: who has the right in any campaign may call them, and sees the own ones."""


def visitor(server: Server, name: str) -> Browser:
    if name == "nobody":
        return server.nobody()
    if name == "admin":
        return server.person("root", None, is_admin=True)
    if name == "elsewhere":
        return server.person("eve", Role.CHEMIST, server.built.row.id + 1)
    if name == "token":
        server.person("tom", Role.CHEMIST)
        return server.token("tom", Right.READ)
    return server.person(name, Role(name))


def test_the_table_has_every_route_once(serve: Serve) -> None:
    found = rules_of(application(serve().ledger))
    needed = {route: str(rule.right) if rule.right else ANYONE for route, rule in found.items()}
    assert needed == TABLE


@pytest.mark.parametrize("name", MAY)
def test_a_role_may_do_what_the_table_says(serve: Serve, name: str) -> None:
    server = serve()
    [first, second, _] = task_ids(server.built)
    if name == "elsewhere":
        serve(name="others")
    answering.enter(server.built, first, entry("4.31 eV"))
    with server.ledger.read() as connection:
        from sciagent.store.lab import tasks

        task = tasks.find(connection, second)
    assert task is not None
    browser = visitor(server, name)
    for (method, path), needed in TABLE.items():
        if path in ("/live", "/logout"):
            continue  # a stream, and the end of the session
        names = {"task": second, "campaign": "gaps", "key": task.key, "code": "0" * 11, "submission": 1, "number": 0}
        shown = path.format(**names, secret="x" * 43)
        reply = browser.get(shown) if method == "GET" else browser.post(shown)
        is_there = needed in MAY[name] or (name == "elsewhere" and path in OWN) or path in ("/s/{code}", "/labels")
        if name == "nobody":
            is_there = needed == ANYONE
        refused = reply.status_code in (401, 403, 404) or reply.headers.get("location", "").startswith("/login?")
        assert (
            refused is not is_there
            or (refused and path.startswith("/welcome"))
            or _refuses_itself(path, reply.status_code)
        ), (name, method, path, reply.status_code, reply.text[-300:])


def _refuses_itself(path: str, status: int) -> bool:
    """Whether a page of one's own refuses for another reason: a wrong login, and a file that an answer lacks."""
    return (path == "/login" and status == 403) or ("/files/" in path and status == 404)


def test_an_application_with_a_route_without_a_rule_does_not_start() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    for part in PARTS:
        part.pages.add_to(app)
    rules_of(app)
    app.add_api_route("/open", lambda: "door")
    with pytest.raises(RuntimeError, match="/open has no rule"):
        rules_of(app)
