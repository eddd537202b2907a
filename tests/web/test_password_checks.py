"""Limits of passwords: guessers are slowed, accounts are never locked, and nobody learns which logins there are."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons, wrong_passwords
from sciagent.store.people.persons import Person
from sciagent.web import password_checks, visitors_and_passwords
from sciagent.web.password_checks import (
    OF_ADDRESS,
    OF_LOGIN_FROM_ADDRESS,
    Limit,
    PasswordChecks,
    TryLaterError,
    network_of,
)

RIGHT = "a sentence of anna"
HOME, ELSEWHERE = "192.0.2.1", "198.51.100.7"


@pytest.fixture(scope="module")
def hash_of_right() -> str:
    return visitors_and_passwords.hashed(RIGHT, "anna")


@pytest.fixture
def anna(ledger: Ledger, hash_of_right: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    monkeypatch.setattr(password_checks, "REFUSAL_SECONDS", 0.0)
    with ledger.begin() as connection:
        person = persons.add(connection, "root", "anna", "Anna Berg")
        persons.set_password(connection, "anna", person.id, hash_of_right)
        persons.add(connection, "root", "invited", "Ida")
        closed = persons.add(connection, "root", "closed", "Carl")
        persons.set_password(connection, "closed", closed.id, hash_of_right)
        persons.set_disabled(connection, "root", closed.id, True)
    yield ledger


def tried(checks: PasswordChecks, login: str, password: str, address: str = ELSEWHERE) -> Person | None:
    return asyncio.run(checks.checked(login, password, address))


def status_of(checks: PasswordChecks, login: str, password: str, address: str = ELSEWHERE) -> int:
    try:
        return 200 if tried(checks, login, password, address) else 403
    except TryLaterError as error:
        return error.status


def pass_seconds(ledger: Ledger, seconds: float) -> None:
    """The last wrong passwords become older."""
    with ledger.begin() as connection:
        for row in connection.execute(sa.select(t.wrong_password)).all():
            old = row.last_at - timedelta(seconds=seconds)
            change = sa.update(t.wrong_password).where(t.wrong_password.c.id == row.id)
            connection.execute(change.values(last_at=old))


def test_guesses_at_an_account_slow_their_address_and_not_its_owner(anna: Ledger) -> None:
    checks = PasswordChecks(anna)
    for _ in range(OF_LOGIN_FROM_ADDRESS.free):
        assert status_of(checks, "anna", "wrong") == 403
    assert status_of(checks, "anna", RIGHT) == 429, "the guesser waits, even with the right password"
    assert status_of(PasswordChecks(anna), "anna", RIGHT) == 429, "a second server of the ledger gives no more guesses"
    assert status_of(checks, "anna", RIGHT, HOME) == 200
    pass_seconds(anna, 31)
    assert status_of(checks, "anna", "wrong") == 403
    pass_seconds(anna, 31)
    assert status_of(checks, "anna", RIGHT) == 429, "the wait has doubled"
    pass_seconds(anna, 30)
    assert status_of(checks, "anna", RIGHT) == 200
    assert status_of(checks, "anna", "wrong") == 403, "the right password ends the wait"


@pytest.mark.parametrize("login", ["anna", "invited", "closed", "nobody", "x" * 500, "\ud800"])
def test_every_login_gets_the_same_answers(anna: Ledger, login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "OF_LOGIN_FROM_ADDRESS", Limit(free=2, first_seconds=30, longest_seconds=900))
    checks = PasswordChecks(anna)
    password = "wrong" if login == "anna" else RIGHT
    assert [status_of(checks, login, password) for _ in range(3)] == [403, 403, 429]
    with anna.read() as connection:
        entries = [entry for entry in audit.entries(connection) if entry.what == "failed to log in"]
    assert len(entries) == 2
    assert {entry.who for entry in entries} == {"anna" if login == "anna" else "somebody"}
    assert entries[0].payload == {"by": "browser", "address": ELSEWHERE}


def test_a_known_and_an_unknown_login_take_the_same_time(anna: Ledger) -> None:
    checks = PasswordChecks(anna)
    seconds: dict[str, list[float]] = {"anna": [], "nobody": []}
    for number in range(3):
        for login, times in seconds.items():
            begun = time.perf_counter()
            tried(checks, login, "wrong", f"192.0.2.{number}")
            times.append(time.perf_counter() - begun)
    known, unknown = (min(times) for times in seconds.values())
    assert known == pytest.approx(unknown, rel=0.5), {login: statistics.median(at) for login, at in seconds.items()}


def test_an_address_that_tries_many_logins_waits(anna: Ledger) -> None:
    checks = PasswordChecks(anna)
    with anna.begin() as connection:
        attempt = password_checks.Attempt("x", ELSEWHERE)
        wrong_passwords.of_subjects(connection, [attempt.of_address], for_update=True)
        wrong_passwords.count(connection, {attempt.of_address: OF_ADDRESS.free + 2})
    assert status_of(checks, "another", "wrong") == 429
    assert status_of(checks, "another", "wrong", HOME) == 403


def test_guesses_at_the_same_time_are_not_more_guesses(anna: Ledger) -> None:
    checks = PasswordChecks(anna)

    async def together() -> list[object]:
        guesses = [checks.checked("anna", "wrong", ELSEWHERE) for _ in range(10)]
        return await asyncio.gather(*guesses, return_exceptions=True)

    outcomes = asyncio.run(together())
    assert sum(outcome is None for outcome in outcomes) == OF_LOGIN_FROM_ADDRESS.free
    assert all(isinstance(outcome, TryLaterError) for outcome in outcomes if outcome is not None)


def test_a_full_queue_says_when_to_come_again(anna: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_checks, "MOST_AT_ONCE", 2)
    checks = PasswordChecks(anna)

    async def together() -> list[object]:
        guesses = [checks.checked("anna", RIGHT, f"192.0.2.{number}") for number in range(4)]
        return await asyncio.gather(*guesses, return_exceptions=True)

    outcomes = asyncio.run(together())
    refused = [outcome for outcome in outcomes if isinstance(outcome, TryLaterError)]
    assert len(refused) == 2 and {(error.status, error.seconds) for error in refused} == {(503, 3)}
    assert status_of(checks, "anna", RIGHT, HOME) == 200, "the queue is empty again, and nothing was counted"


def test_numbers_that_are_old_are_deleted(anna: Ledger) -> None:
    checks = PasswordChecks(anna)
    for number in range(3):
        tried(checks, f"nobody{number}", "wrong", f"192.0.2.{number}")
    pass_seconds(anna, 3700)
    tried(checks, "anna", RIGHT, HOME)
    with anna.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.wrong_password)).scalar_one() == 3


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("testclient", "testclient"),
        (None, "unknown"),
    ],
)
def test_an_address_counts_with_its_network(address: str | None, network: str) -> None:
    assert network_of(address) == network
