"""Wrong passwords are counted by subject, and forgotten."""

from __future__ import annotations

import sqlalchemy as sa

from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import wrong_passwords

ANNA, ADDRESS = wrong_passwords.subject("login", "anna"), wrong_passwords.subject("address", "192.0.2.1")


def counted(ledger: Ledger) -> dict[str, int]:
    with ledger.read() as connection:
        found = wrong_passwords.of_subjects(connection, [ANNA, ADDRESS])
    return {name: wrong.number for name, wrong in found.items()}


def test_numbers_are_counted_taken_back_and_forgotten(ledger: Ledger) -> None:
    assert counted(ledger) == {}
    for number in (1, 2):
        with ledger.begin() as connection:
            wrong_passwords.of_subjects(connection, [ANNA, ADDRESS], for_update=True)
            wrong_passwords.count(connection, {ANNA: number, ADDRESS: number})
    assert counted(ledger) == {ANNA: 2, ADDRESS: 2}
    with ledger.begin() as connection:
        wrong_passwords.take_back(connection, [ADDRESS])
        wrong_passwords.forget(connection, ANNA)
    assert counted(ledger) == {ADDRESS: 1}
    with ledger.begin() as connection:
        old = db_now(connection) - wrong_passwords.FORGOTTEN_AFTER
        connection.execute(sa.update(t.wrong_password).values(last_at=old))
    assert counted(ledger) == {}
    with ledger.begin() as connection:
        wrong_passwords.count(connection, {})
        assert wrong_passwords.old_rows(connection) == []
        assert connection.execute(sa.select(t.wrong_password.c.id)).all() == []


def test_two_parts_of_a_subject_are_not_one_text() -> None:
    assert wrong_passwords.subject("a", "bc") != wrong_passwords.subject("ab", "c")
