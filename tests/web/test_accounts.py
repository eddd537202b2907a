"""One-time links, and the page of an administrator."""

from __future__ import annotations

import pytest

from sciagent.domain.people import Role
from sciagent.store.people import persons, sessions_and_tokens
from sciagent.store.people.sessions_and_tokens import AccessKind
from sciagent.web import password_checks
from tests.support.served_pages import Serve, Server

PASSWORD = "a sentence of anna"


def link(server: Server, kind: AccessKind = AccessKind.INVITE) -> str:
    with server.ledger.begin() as connection:
        person = persons.by_login(connection, "anna") or persons.add(connection, "root", "anna", "Anna Berg")
        persons.set_role(connection, "root", person.id, Role.LAB, None)
        return f"/welcome/{sessions_and_tokens.create(connection, 'root', person.id, kind)[0]}"


def test_a_link_sets_a_password_once(serve: Serve) -> None:
    server = serve()
    path, browser = link(server), server.nobody()
    for _ in range(2):
        assert "Your login is <strong>anna</strong>" in browser.client.get(path).text, "to open it does not use it up"
    for said, fault in (
        ({"password": PASSWORD, "again": "another sentence"}, "The two passwords differ"),
        ({"password": "short", "again": "short"}, "12 to 256 characters"),
    ):
        reply = browser.post(path, said)
        assert reply.status_code == 400 and fault in reply.text
    reply = browser.post(path, {"password": PASSWORD, "again": PASSWORD})
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    assert browser.get("/tasks").status_code == 200, "the person is logged in"
    again = server.nobody()
    assert again.post(path, {"password": "a new sentence", "again": "a new sentence"}).status_code == 404
    assert again.post("/login", {"login": " Anna ", "password": PASSWORD}).status_code == 303


def test_a_reset_ends_all_sessions(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna")
    path = link(server, AccessKind.RESET)
    assert anna.get("/tasks").status_code == 200
    server.nobody().post(path, {"password": PASSWORD, "again": PASSWORD})
    assert anna.get("/tasks").status_code == 303


def test_wrong_passwords_say_the_same_of_all_logins(serve: Serve) -> None:
    server = serve()
    server.nobody().post(link(server), {"password": PASSWORD, "again": PASSWORD})
    replies = [server.nobody().post("/login", {"login": login, "password": "x"}) for login in ("anna", "nobody")]
    assert {reply.status_code for reply in replies} == {403}
    assert all("Login and password do not fit" in reply.text for reply in replies)
    json = server.nobody().post(
        "/login", {"login": "anna", "password": PASSWORD}, headers={"accept": "application/json"}
    )
    assert json.json()["login"] == "anna" and len(json.json()["csrf"]) == 64


def test_a_wrong_password_is_listed_as_from_the_browser(serve: Serve) -> None:
    server = serve()
    server.nobody().post(link(server), {"password": PASSWORD, "again": PASSWORD})
    for login in ("anna", "a sentence of"):
        server.nobody().post("/login", {"login": login, "password": "x"})
    text = server.person("root", None, is_admin=True).client.get("/people").text
    browser = '<span class="muted">(browser)</span></td><td>failed to log in</td>'
    assert f"<td>anna {browser}" in text and f"<td>somebody {browser}" in text and "a sentence of" not in text


def test_a_guesser_reads_when_to_come_again(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "REFUSAL_SECONDS", 0.0)
    server = serve()
    for _ in range(password_checks.OF_LOGIN_FROM_ADDRESS.free):
        server.nobody().post("/login", {"login": "anna", "password": "x"})
    for headers in ({}, {"accept": "application/json"}):
        reply = server.nobody().post("/login", {"login": "anna", "password": "x"}, headers=headers)
        assert reply.status_code == 429 and 25 <= int(reply.headers["retry-after"]) <= 30
        assert "oo many wrong passwords came from your address; try again in" in reply.text


def test_an_administrator_sees_accounts_and_acts(serve: Serve) -> None:
    server = serve()
    server.person("anna")
    server.person("carla", Role.CHEMIST, is_admin=True)
    text = server.person("root", None, is_admin=True).client.get("/people").text
    assert "<td>anna</td><td>Anna</td>" in text and "gave a role" in text and "(command line)" in text
    assert "<td>admin, chemist</td>" in text
