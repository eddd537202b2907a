"""Sessions, tokens, and forms from elsewhere."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.domain.people import Right
from sciagent.store.database import tables as t
from sciagent.store.people import persons
from sciagent.web import visitors_and_passwords
from tests.lab.test_record_answers import task_ids
from tests.support.served_pages import HOST, Browser, Serve, Server, every_page

PASSWORD = "a sentence of anna"


def with_password(server: Server, login: str = "anna") -> Browser:
    server.person(login)
    with server.ledger.begin() as connection:
        person = persons.get(connection, login)
        persons.set_password(connection, login, person.id, visitors_and_passwords.hashed(PASSWORD, login))
    return server.nobody()


def test_a_log_in_makes_a_new_session_with_a_guarded_cookie(serve: Serve) -> None:
    server = serve()
    browser = with_password(server)
    browser.client.cookies.set("sciagent", "chosen-by-an-attacker")
    reply = browser.post("/login", {"login": "anna", "password": PASSWORD, "next": "/tasks/2?x=1"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/tasks/2?x=1")
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "chosen-by" not in cookie and "Secure" not in cookie
    first = browser.client.cookies.get("sciagent", domain="testserver.local")
    browser.client.cookies.clear()
    browser.client.cookies.set("sciagent", str(first))
    browser.post("/login", {"login": "anna", "password": PASSWORD})
    assert (
        server.nobody().client.get("/tasks", cookies={"sciagent": str(first)}, follow_redirects=False).status_code
        == 303
    )


def test_with_tls_the_cookie_is_bound_to_the_host(serve: Serve) -> None:
    server = serve()
    with_password(server)
    server.app = every_page(server.ledger, secure=True)
    browser = server.nobody()
    browser.client.base_url = "https://testserver"  # type: ignore[assignment]
    reply = browser.post("/login", {"login": "anna", "password": PASSWORD}, headers={"origin": "https://testserver"})
    assert reply.headers["set-cookie"].startswith("__Host-sciagent=") and "Secure" in reply.headers["set-cookie"]
    assert "max-age" in reply.headers["strict-transport-security"]


@pytest.mark.parametrize("to", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", ""])
def test_a_log_in_leads_nowhere_else(serve: Serve, to: str) -> None:
    reply = with_password(serve()).post("/login", {"login": "anna", "password": PASSWORD, "next": to})
    assert reply.headers["location"] == "/"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": HOST, "sec-fetch-site": "cross-site"},
        {"origin": HOST, "sec-fetch-site": "same-site"},
    ],
)
def test_a_form_from_elsewhere_is_refused(serve: Serve, headers: dict[str, str]) -> None:
    server = serve()
    task = task_ids(server.built)[0]
    assert server.person("anna").post(f"/tasks/{task}/claim", headers=headers).status_code == 403
    assert (
        with_password(server).post("/login", {"login": "anna", "password": PASSWORD}, headers=headers).status_code
        == 403
    )


def test_a_form_without_the_text_of_its_session_is_refused(serve: Serve) -> None:
    server = serve()
    task, anna, ben = task_ids(server.built)[0], server.person("anna"), server.person("ben")
    for wrong in ("", "0" * 64, ben.csrf):
        assert anna.post(f"/tasks/{task}/claim", {"csrf": wrong}).status_code == 403
    assert anna.client.post(f"/tasks/{task}/claim", data={"csrf": anna.csrf}).status_code == 403, (
        "no word on its origin"
    )
    assert anna.post(f"/tasks/{task}/claim").status_code == 303


@pytest.mark.parametrize(
    ("column", "value"),
    [("expires_at", timedelta(seconds=-1)), ("seen_at", timedelta(hours=-13)), ("revoked_at", timedelta(0))],
)
def test_a_session_ends(serve: Serve, column: str, value: timedelta) -> None:
    server = serve()
    anna = server.person("anna")
    assert anna.get("/tasks").status_code == 200
    with server.ledger.begin() as connection:
        from sciagent.store.database.engine import db_now

        connection.execute(sa.update(t.access).values(**{column: db_now(connection) + value}))
    assert anna.get("/tasks").headers["location"] == "/login?next=%2Ftasks"
    assert anna.get("/tasks", headers={"accept": "application/json"}).status_code == 401
    sent = anna.post("/sheet", {"write": "yes"}, headers={"referer": f"{HOST}/sheet?kept=abc"})
    assert sent.headers["location"] == "/login?next=%2Fsheet%3Fkept%3Dabc", "the page of the form comes again"


def test_a_closed_account_ends_in_the_middle_of_a_session(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna")
    with server.ledger.begin() as connection:
        persons.set_disabled(connection, "root", anna.person_id, True)
    assert anna.get("/tasks").status_code == 303


def test_a_token_has_its_scopes_and_needs_no_text_of_a_session(serve: Serve) -> None:
    server = serve()
    task = task_ids(server.built)[0]
    server.person("balance")
    reader, worker = server.token("balance", Right.READ), server.token("balance", Right.READ, Right.WORK)
    assert len(reader.client.get("/api/v1/tasks").json()["tasks"]) == 3
    assert reader.client.post(f"/api/v1/tasks/{task}/claim", json={}).status_code == 403
    assert worker.client.post(f"/api/v1/tasks/{task}/claim", json={}).json()["claimed_by"] == "balance"
    worker.client.headers["authorization"] += "x"
    assert worker.client.get("/api/v1/tasks").status_code == 401


def test_a_session_is_no_token_and_a_token_no_session(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna")
    as_token, as_cookie = server.nobody(), server.nobody()
    as_token.client.headers["authorization"] = f"Bearer {anna.client.cookies['sciagent']}"
    secret = server.token("anna", Right.READ).client.headers["authorization"].removeprefix("Bearer ")
    as_cookie.client.cookies.set("sciagent", secret)
    assert as_token.get("/api/v1/tasks").status_code == 401 and as_cookie.get("/tasks").status_code == 303


def test_log_out_ends_the_session_on_the_server(serve: Serve) -> None:
    server = serve()
    anna = server.person("anna")
    secret = anna.client.cookies["sciagent"]
    anna.post("/logout")
    again = server.nobody()
    again.client.cookies.set("sciagent", secret)
    assert again.get("/tasks").status_code == 303
