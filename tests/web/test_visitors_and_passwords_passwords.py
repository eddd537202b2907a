"""Passwords: their hashes, and the lock-out."""

from __future__ import annotations

from datetime import timedelta

import pytest

from sciagent.errors import UsageError
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons
from sciagent.web import visitors_and_passwords
from sciagent.web.visitors_and_passwords import LockedError

RIGHT = "a sentence of anna"


@pytest.fixture
def anna(ledger: Ledger) -> Ledger:
    with ledger.begin() as connection:
        person = persons.add(connection, "root", "anna", "Anna Berg")
        persons.set_password(connection, "anna", person.id, visitors_and_passwords.hashed(RIGHT, "anna"))
    return ledger


def test_a_password_is_kept_as_argon2id_with_a_salt() -> None:
    first, second = visitors_and_passwords.hashed(RIGHT, "anna"), visitors_and_passwords.hashed(RIGHT, "anna")
    assert first.startswith("$argon2id$v=19$m=65536,t=3,p=4$") and first != second and RIGHT not in first


@pytest.mark.parametrize("password", ["short", "x" * 257, "", "anna-anna-12"])
def test_a_weak_password_is_refused(password: str) -> None:
    with pytest.raises(UsageError):
        visitors_and_passwords.hashed(password, "anna")


def test_the_fifth_wrong_password_locks_the_account_longer_each_time(anna: Ledger) -> None:
    for _ in range(visitors_and_passwords.FREE_TRIES):
        assert visitors_and_passwords.checked(anna, "anna", "wrong") is None
    with pytest.raises(LockedError, match="try again in"):
        visitors_and_passwords.checked(anna, "anna", RIGHT)
    waits = []
    for _ in range(7):
        with anna.begin() as connection:
            person = persons.get(connection, "anna")
            assert person.locked_until is not None
            waits.append((person.locked_until - db_now(connection)).total_seconds())
            persons.set_failures(connection, person.id, person.failures, None)
        assert visitors_and_passwords.checked(anna, "anna", "wrong") is None
    assert waits[0] == pytest.approx(30, abs=3) and waits[1] == pytest.approx(60, abs=3)
    assert max(waits) <= timedelta(minutes=15).total_seconds()
    with anna.begin() as connection:
        persons.set_failures(connection, 1, 12, None)
        failed = [entry for entry in audit.entries(connection) if entry.what == "failed to log in"]
    assert len(failed) == 12
    found = visitors_and_passwords.checked(anna, "anna", RIGHT)
    assert found is not None and found.login == "anna"
    with anna.read() as connection:
        assert persons.get(connection, "anna").failures == 0


def test_who_was_only_invited_or_is_unknown_or_closed_cannot_log_in(anna: Ledger) -> None:
    with anna.begin() as connection:
        persons.add(connection, "root", "ben", "Ben")
        persons.set_disabled(connection, "root", 1, True)
    assert [visitors_and_passwords.checked(anna, login, RIGHT) for login in ("ben", "carl", "anna")] == [
        None,
        None,
        None,
    ]
