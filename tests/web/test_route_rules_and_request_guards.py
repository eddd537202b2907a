"""Who may call which route: the table of all routes and roles, made from the application."""

from __future__ import annotations

from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, Header, Query
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from sciagent.domain.people import Right, Role
from sciagent.store.database.tables import metadata
from sciagent.store.lab import tasks
from sciagent.web import accounts
from sciagent.web.route_rules_and_request_guards import ANYONE as ANYONE_RULE
from sciagent.web.route_rules_and_request_guards import Pages, RouteRule, rules_of
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import HOST, Serve, every_page

ANYONE, READ, WORK, DECIDE, ADMINISTER = "anyone", "read", "work", "decide", "administer"
TABLE = {
    ("GET", "/login"): ANYONE,
    ("POST", "/login"): ANYONE,
    ("POST", "/logout"): READ,
    ("GET", "/welcome/{secret}"): ANYONE,
    ("POST", "/welcome/{secret}"): ANYONE,
    ("GET", "/worker.js"): ANYONE,
    ("GET", "/offline"): ANYONE,
    ("POST", "/unlock"): ANYONE,
    ("POST", "/lock"): READ,
    ("POST", "/touched"): READ,
    ("GET", "/pin"): READ,
    ("POST", "/pin"): READ,
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
    ("GET", "/sheet.xlsx"): WORK,
    ("GET", "/sheet/saved"): WORK,
    ("POST", "/sheet"): WORK,
    ("GET", "/api/v1/openapi.json"): READ,
    ("GET", "/api/v1/tasks"): READ,
    ("GET", "/api/v1/tasks/{task}"): READ,
    ("POST", "/api/v1/tasks/{task}/claim"): WORK,
    ("POST", "/api/v1/tasks/{task}/release"): WORK,
    ("POST", "/api/v1/tasks/{task}/results"): WORK,
    ("GET", "/api/v1/tasks/{task}/files/{sha256}"): READ,
    ("GET", "/api/v1/vials/{code}"): READ,
    ("GET", "/api/v1/campaigns"): READ,
    ("GET", "/api/v1/campaigns/{campaign}"): READ,
    ("GET", "/api/v1/campaigns/{campaign}/candidates"): READ,
    ("GET", "/api/v1/campaigns/{campaign}/candidates/{key}"): READ,
    ("GET", "/campaigns"): READ,
    ("GET", "/campaigns/{campaign}"): READ,
    ("GET", "/campaigns/{campaign}/candidates"): READ,
    ("GET", "/campaigns/{campaign}/candidates/{key}"): READ,
    ("POST", "/campaigns/{campaign}/state"): DECIDE,
    ("POST", "/campaigns/{campaign}/candidates/{key}"): DECIDE,
}


def test_the_table_has_every_route_once(serve: Serve) -> None:
    found = rules_of(every_page(serve().ledger))
    needed = {route: str(rule.right) if rule.right else ANYONE for route, rule in found.items()}
    assert needed == TABLE


def test_an_application_with_a_route_without_a_rule_does_not_start() -> None:
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    accounts.pages.add_to(app)
    rules_of(app)
    app.add_api_route("/open", lambda: "door")
    with pytest.raises(RuntimeError, match="/open has no rule"):
        rules_of(app)


ANY_SIZE = (
    str,
    int,
    Annotated[int, Query(ge=0)],
    str | None,
    Annotated[list[int], Query()],
    Annotated[str, Header(min_length=1)],
)


@pytest.mark.parametrize("parameter", ANY_SIZE)
def test_an_application_with_a_parameter_of_any_size_does_not_start(parameter: object) -> None:
    def door(given: object) -> None: ...

    door.__annotations__["given"] = parameter
    pages = Pages()
    pages.get("/door", ANYONE_RULE)(door)
    with pytest.raises(RuntimeError, match="parameter given of the route /door has no bounds"):
        pages.add_to(FastAPI())


class Doors:
    """Handlers that count how often they are reached."""

    def __init__(self) -> None:
        self.reached: list[str] = []

    def changed(self, request: Request) -> str:
        self.reached.append(request.method)
        return "changed"


async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that has no rules."""


RULE = Depends(RouteRule(Right.READ))
OFFENDERS = {
    "no rule": (APIRoute("/door", Doors().changed, methods=["PUT"]), "/door has no rule"),
    "no rule for GET": (APIRoute("/door", Doors().changed, methods=["GET"]), "/door has no rule"),
    "rule that runs late": (
        APIRoute("/door", Doors().changed, methods=["POST"], dependencies=[Depends(Doors), RULE]),
        "/door has no rule as its first",
    ),
    "other method": (
        APIRoute("/door", Doors().changed, methods=["GET", "TRACE"], dependencies=[RULE]),
        "/door takes TRACE",
    ),
    "plain route": (Route("/door", Doors().changed, methods=["DELETE"]), "/door has no rule"),
    "websocket": (WebSocketRoute("/door", nothing), "/door has no rule"),
    "other application": (Mount("/static", nothing), "/static has no rule"),
}


@pytest.mark.parametrize("offender", OFFENDERS)
def test_an_application_with_a_route_that_nothing_guards_does_not_start(serve: Serve, offender: str) -> None:
    route, fault = OFFENDERS[offender]
    app = every_page(serve().ledger)
    with TestClient(app):
        pass  # without the offender it starts
    app.router.routes.append(route)
    with pytest.raises(RuntimeError, match=fault), TestClient(app):
        pass


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_a_request_that_changes_something_needs_the_text_of_its_session(serve: Serve, method: str) -> None:
    server, doors = serve(), Doors()
    app = server.app
    assert isinstance(app, FastAPI)
    for path, rule in (("/door", RouteRule(Right.READ)), ("/open", ANYONE_RULE)):
        app.router.routes.append(APIRoute(path, doors.changed, methods=[method], dependencies=[Depends(rule)]))
    browser = server.person("lab", Role.LAB)
    own, foreign = {"origin": HOST}, {"origin": "http://evil.example"}
    text = {"x-csrf-token": browser.csrf}
    # without the text, with that of another session, from a page of another server, and from no page at all
    for headers in (own, own | {"x-csrf-token": "x" * 43}, foreign | text, {"origin": "null"} | text, text):
        for more in ({}, {"json": {}}):
            reply = browser.client.request(method, "/door", headers=headers, **more)
            assert reply.status_code == 403, (method, headers, more, reply.text)
    assert server.nobody().client.request(method, "/open", headers=foreign).status_code == 403
    assert doors.reached == []
    assert browser.client.request(method, "/door", headers=own | text).status_code == 200
    # a token is sent by a script and never by a browser of itself, so it needs neither
    token = server.token("lab", Right.READ)
    assert token.client.request(method, "/door", headers=foreign).status_code == 200
    assert doors.reached == [method, method]


def test_each_route_that_changes_something_refuses_a_page_of_another_server(serve: Serve) -> None:
    server = serve()
    [first, *_] = task_ids(server.built)
    names = {"task": first, "campaign": "gaps", "key": "x", "secret": "x" * 43}
    chemist, admin = server.person("carla", Role.CHEMIST), server.person("root", None, is_admin=True)
    changing = [(method, path) for method, path in rules_of(every_page(server.ledger)) if method != "GET"]
    assert len(changing) > 10
    for method, path in changing:
        browser = admin if TABLE[method, path] == ADMINISTER else chemist
        shown = path.format(**names)
        foreign = {"origin": "http://evil.example", "x-csrf-token": browser.csrf}
        assert browser.client.request(method, shown, headers=foreign).status_code == 403, path
        if TABLE[method, path] != ANYONE:
            assert browser.client.request(method, shown, headers={"origin": HOST}).status_code == 403, path


def test_a_page_that_is_read_changes_nothing(serve: Serve) -> None:
    server = serve()
    [first, *_] = task_ids(server.built)
    names = {"task": first, "campaign": "gaps", "code": "0" * 11, "submission": 1, "number": 0, "secret": "x" * 43}
    names["sha256"] = "0" * 64
    browsers = [server.person("root", Role.CHEMIST, is_admin=True), server.person("lab", Role.LAB)]

    def content() -> dict[str, list[tuple[object, ...]]]:
        with server.ledger.read() as connection:
            return {
                table.name: [tuple(row) for row in connection.execute(table.select())]
                for table in metadata.sorted_tables
                if table.name != "access"  # it has the time at which the session was last used
            }

    with server.ledger.read() as connection:
        task = tasks.find(connection, first)
    assert task is not None
    before = content()
    for method, path in TABLE:
        for browser in browsers if method == "GET" and path != "/live" else ():
            browser.get(path.format(**names, key=task.key))
    assert content() == before
