"""Every route, method and visitor: what the rule of the route allows is what the application does.

Routes and rules come from the application, so that a new route is asked at once. What each visitor may do is stated
here, apart from the code that decides it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from sciagent.domain.people import Right, Role
from sciagent.lab import record_answers
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.lab import tasks
from sciagent.web import password_checks
from sciagent.web.route_rules_and_request_guards import CHANGING, READING, RouteRule, rules_of
from tests.lab.test_record_answers import entry, task_ids
from tests.support.served_pages import HOST, Browser, Serve, Server, every_page

READ, WORK, DECIDE, ADMINISTER = Right.READ, Right.WORK, Right.DECIDE, Right.ADMINISTER


@dataclass(frozen=True)
class Expected:
    """What a visitor may do."""

    anywhere: Set[Right] = frozenset()
    """Rights in at least one campaign."""
    here: Set[Right] = frozenset()
    """Rights in the campaign that the paths name."""


def everywhere(*rights: Right) -> Expected:
    return Expected(frozenset(rights), frozenset(rights))


MAY: Mapping[str, Expected | None] = {
    "nobody": None,
    "ended session": None,
    "ended token": None,
    "viewer": everywhere(READ),
    "lab": everywhere(READ, WORK),
    "chemist": everywhere(READ, WORK, DECIDE),
    "admin": everywhere(READ, ADMINISTER),
    "lab of this campaign": everywhere(READ, WORK),
    "chemist of another campaign": Expected(frozenset({READ, WORK, DECIDE})),
    "chemist there and viewer here": Expected(frozenset({READ, WORK, DECIDE}), frozenset({READ})),
    "token of a chemist for reading": everywhere(READ),
    "token of a viewer for deciding": everywhere(READ),
    "person without a role": everywhere(),
}
"""{visitor: what they may do; None: they have to log in}."""
SKIPPED = {("GET", "/live"), ("POST", "/logout")}
"""A stream without an end, and the end of the session; they are asked as nobody."""


def visitor(server: Server, name: str, here: int) -> Browser:
    """here: id of the campaign that the paths name; the campaign of the server is the other one."""
    there = here + 1
    match name:
        case "nobody":
            return server.nobody()
        case "ended session":
            browser = server.person("ella", Role.CHEMIST, is_admin=True)
            with server.ledger.begin() as connection:
                connection.execute(sa.update(t.access).values(revoked_at=db_now(connection)))
            return browser
        case "ended token":
            server.person("ella", Role.CHEMIST, is_admin=True)
            browser = server.token("ella", *Right)
            with server.ledger.begin() as connection:
                connection.execute(sa.update(t.access).values(expires_at=db_now(connection)))
            return browser
        case "admin":
            return server.person("root", None, is_admin=True)
        case "lab of this campaign":
            return server.person("lara", Role.LAB, here)
        case "chemist of another campaign":
            return server.person("eve", Role.CHEMIST, there)
        case "chemist there and viewer here":
            server.person("both", Role.VIEWER, here)
            return server.person("both", Role.CHEMIST, there)
        case "token of a chemist for reading":
            server.person("tom", Role.CHEMIST)
            return server.token("tom", READ)
        case "token of a viewer for deciding":
            server.person("tina", Role.VIEWER)
            return server.token("tina", READ, WORK, DECIDE, ADMINISTER)
        case "person without a role":
            return server.person("otto", None)
        case _:
            return server.person(name, Role(name))


@pytest.mark.parametrize("name", MAY)
def test_a_visitor_may_do_what_the_rule_of_each_route_says(
    serve: Serve, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(password_checks, "REFUSAL_SECONDS", 0.0)
    server = serve()
    serve(name="others")
    [first, second, _] = task_ids(server.built)
    record_answers.enter(server.built, first, entry("4.31 eV"))
    with server.ledger.read() as connection:
        task = tasks.find(connection, second)
    assert task is not None
    browser = visitor(server, name, server.built.row.id)
    names = {"task": second, "campaign": "gaps", "key": task.key, "code": "0" * 11, "submission": 1, "number": 0}
    rules = rules_of(every_page(server.ledger))
    n_asked = 0
    for path in sorted({path for _, path in rules}):
        shown = path.format_map(Known(names))
        for method in sorted(READING | CHANGING):
            if (method, path) in SKIPPED and MAY[name] is not None:
                continue
            headers = {"accept": "application/json", "origin": HOST, "x-csrf-token": browser.csrf}
            reply = browser.client.request(method, shown, headers=headers, follow_redirects=False)
            fault = _fault(rules.get((method, path)), MAY[name], reply.status_code, reply.text)
            assert not fault, (name, method, path, reply.status_code, reply.text[-300:], fault)
            n_asked += 1
    assert n_asked > 150


class Known(dict[str, object]):
    """Values of the parameters of paths; one that is not known here names nothing."""

    def __missing__(self, name: str) -> str:
        return "9" * 9


def _fault(rule: RouteRule | None, may: Expected | None, status: int, text: str) -> str:
    """Returns why the answer does not fit the rule; empty if it fits. Without a rule, the path lacks the method."""
    if rule is None:
        return "" if status == 405 else "the path has no such method"
    if status >= 500:
        return "the program failed"
    if rule.right is None:
        return "a rule of nobody in particular asks for a person" if status == 401 else ""
    if may is None:
        return "" if status == 401 else "nobody has logged in"
    is_allowed = rule.right in (may.here if rule.of else may.anywhere)
    if rule.of and READ not in may.here:
        return "" if status == 404 else "a campaign that one may not see does not exist"
    is_refused = status == 403 and re.search("(your account|this token).* may not", text, re.IGNORECASE) is not None
    if is_allowed:
        return "the visitor has the right" if is_refused or status == 401 else ""
    return "" if is_refused else "the visitor lacks the right"
