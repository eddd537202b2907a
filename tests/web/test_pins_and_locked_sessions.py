"""A session of a person with a PIN is locked by the server, and the PIN or another person opens the tablet again."""

from __future__ import annotations

from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.domain.people import Role
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.people import audit, persons
from sciagent.web import visitors_and_passwords
from tests.support.served_pages import Browser, Serve, Server, every_page

PASSWORD = "a sentence of anna"
PIN = "7391"


@pytest.fixture
def server(serve: Serve) -> Server:
    """A server on which anna has a password and a PIN, and ben a password."""
    made = serve()
    with made.ledger.begin() as connection:
        for login in ("anna", "ben"):
            person = persons.add(connection, "root", login, login.title())
            persons.set_role(connection, "root", person.id, Role.LAB, None)
            hashed = visitors_and_passwords.hashed(f"a sentence of {login}", login)
            persons.set_password(connection, login, person.id, hashed)
        anna = persons.get(connection, "anna")
        persons.set_pin(connection, "anna", anna.id, visitors_and_passwords.hashed_pin(PIN))
    return made


def untouched_for(server: Server, browser: Browser, minutes: float) -> None:
    """Sets the last touch of a person's sessions back."""
    with server.ledger.begin() as connection:
        at = db_now(connection) - timedelta(minutes=minutes)
        mine = t.access.c.person_id == browser.person_id
        connection.execute(sa.update(t.access).where(mine).values(created_at=at, seen_at=at))


def test_a_session_without_a_touch_is_locked_on_every_page(server: Server) -> None:
    anna = server.person("anna", None)
    untouched_for(server, anna, 4)
    assert anna.get("/tasks").status_code == 200
    untouched_for(server, anna, 6)
    for path in ("/tasks", "/tasks/1", "/campaigns/gaps", "/people", "/pin"):
        reply = anna.get(path)
        assert reply.status_code == 423 and "Locked: Anna" in reply.text, path
        assert "x-login" not in reply.headers and "data-login" not in reply.text and anna.csrf not in reply.text
    assert anna.post("/tasks/1/enter").status_code == 423
    assert anna.get("/tasks", headers={"accept": "application/json"}).json() == {
        "detail": "this session is locked; type your PIN"
    }
    assert anna.get("/tasks").status_code == 423, "to look at it does not open it"
    reply = anna.post("/unlock", {"pin": PIN, "next": "/tasks/1"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/tasks/1")
    assert anna.get("/tasks").status_code == 200
    elsewhere = anna.get("//evil.example/x")
    untouched_for(server, anna, 6)
    assert elsewhere.status_code == 404
    assert anna.post("/unlock", {"pin": PIN, "next": "//evil.example"}).headers["location"] == "/"


def test_what_a_script_does_by_itself_is_no_touch(server: Server) -> None:
    anna = server.person("anna", None)
    untouched_for(server, anna, 4)
    assert anna.get("/tasks", headers={"x-background": "yes"}).status_code == 200
    with server.ledger.read() as connection:
        seen = sa.select(t.access.c.seen_at).where(t.access.c.person_id == anna.person_id)
        assert db_now(connection) - connection.execute(seen).scalar_one() > timedelta(minutes=3)
        assert anna.post("/touched").status_code == 204
    with server.ledger.read() as connection:
        assert db_now(connection) - connection.execute(seen).scalar_one() < timedelta(minutes=1)


def test_without_a_pin_or_with_0_minutes_nothing_is_locked(server: Server) -> None:
    ben = server.person("ben", None)
    untouched_for(server, ben, 60)
    assert ben.get("/tasks").status_code == 200
    assert ben.post("/lock").status_code == 400, "nothing would open it but the password"
    never = Server(server.built, every_page(server.ledger, lock_after=None))
    anna = never.person("anna", None)
    untouched_for(never, anna, 60)
    assert anna.get("/tasks").status_code == 200


def test_the_fifth_wrong_pin_after_a_right_one_ends_the_session(server: Server) -> None:
    anna = server.person("anna", None)
    anna.post("/lock")
    assert anna.post("/unlock", {"pin": "0000"}).status_code == 423
    assert anna.post("/unlock", {"pin": PIN}).status_code == 303
    assert anna.post("/lock").status_code == 303
    for left in (4, 3, 2, 1):
        reply = anna.post("/unlock", {"pin": "0000"})
        assert reply.status_code == 423 and f"{left} more" in reply.text
    reply = anna.post("/unlock", {"pin": "0000"})
    assert reply.status_code == 403 and "5 wrong PINs: the session has ended" in reply.text
    assert anna.post("/unlock", {"pin": PIN}).status_code == 303, "there is nothing to open"
    assert anna.get("/tasks").headers["location"].startswith("/login")
    with server.ledger.read() as connection:
        acts = [entry.what for entry in audit.last(connection, n=7)]
    assert acts.count("failed to unlock") == 6 and "closed" in acts


def test_another_person_logs_in_at_a_locked_tablet(server: Server) -> None:
    anna = server.person("anna", None)
    secret = anna.client.cookies["sciagent"]
    anna.post("/lock")
    form = anna.get("/login")
    assert form.status_code == 200 and "Anna" not in form.text
    reply = anna.post("/login", {"login": "ben", "password": "a sentence of ben"})
    assert reply.status_code == 303
    assert ">Ben</a>" in anna.get("/tasks").text
    old = server.nobody()
    old.client.cookies.set("sciagent", secret)
    assert old.get("/tasks").headers["location"].startswith("/login"), "the locked session has ended"


REFUSED = (
    ({"pin": "123", "again": "123"}, "4 to 8 digits"),
    ({"pin": "12a4", "again": "12a4"}, "4 to 8 digits"),
    ({"pin": "\u0661\u0662\u0663\u0665", "again": "\u0661\u0662\u0663\u0665"}, "4 to 8 digits"),
    ({"pin": "5555", "again": "5555"}, "others would guess"),
    ({"pin": "3456", "again": "3456"}, "others would guess"),
    ({"pin": "7391", "again": "7392"}, "the two PINs differ"),
    ({"pin": "7391", "again": "7391", "password": "wrong"}, "this is not your password"),
    ({"act": "remove", "password": "wrong"}, "this is not your password"),
)


def test_a_pin_is_refused_with_its_reason(server: Server) -> None:
    anna = server.person("anna", None)
    for said, fault in REFUSED:
        reply = anna.post("/pin", {"password": PASSWORD} | said)
        assert reply.status_code == 400 and fault.lower() in reply.text.lower(), said


def test_a_person_chooses_and_removes_a_pin(server: Server) -> None:
    ben = server.person("ben", None)
    assert 'formaction="/lock"' not in ben.get("/tasks").text
    said = {"pin": "802461", "again": "802461", "password": "a sentence of ben"}
    assert ben.post("/pin", said).headers["location"] == "/pin?done=kept"
    with server.ledger.read() as connection:
        kept = persons.get(connection, "ben").pin_hash
    assert kept is not None and kept.startswith("$argon2id$") and "802461" not in kept
    assert 'data-lock="300' in ben.get("/tasks").text and 'formaction="/lock"' in ben.get("/tasks").text
    ben.post("/lock")
    assert ben.post("/unlock", {"pin": "802461"}).status_code == 303
    assert ben.post("/pin", {"act": "remove", "password": "a sentence of ben"}).status_code == 303
    assert "data-lock" not in ben.get("/tasks").text
