"""The audit trail: a change of any byte is found."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.domain.people import Actor
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons

COLUMNS = ("at", "who", "what", "object", "object_id", "payload", "previous_hash", "hash", "person_id")


@pytest.fixture
def trail(ledger: Ledger) -> Ledger:
    """A trail of five acts, the last three of an account."""
    with ledger.begin() as connection:
        anna = persons.add(connection, "root", "anna", "Anna Berg")
        audit.append(connection, "root", "claimed", "task", 4, why="µ ± 1")
    for number in range(3):
        with ledger.begin() as connection:
            audit.append(connection, Actor("anna", anna.id), "signed", "submission", None, number=number, share=0.1)
    return ledger


def tamper(ledger: Ledger, statement: str) -> None:
    """Changes the trail as the owner of the database can, without its triggers."""
    with ledger.begin() as connection:
        if connection.dialect.name == "sqlite":
            for verb in ("update", "delete"):
                connection.exec_driver_sql(f"DROP TRIGGER IF EXISTS audit_entry_no_{verb}")
        else:
            connection.exec_driver_sql("ALTER TABLE audit_entry DISABLE TRIGGER USER")
        connection.exec_driver_sql(statement)
        if connection.dialect.name == "postgresql":  # other tests use this database afterwards
            connection.exec_driver_sql("ALTER TABLE audit_entry ENABLE TRIGGER USER")


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
def test_the_chain_fits_and_names_accounts(trail: Ledger) -> None:
    with trail.read() as connection:
        done, [*entries] = audit.check(connection), audit.entries(connection)
        assert (done.entries, done.fault, done.head) == (5, None, entries[-1].hash)
        assert [entry.id for entry in entries] == [1, 2, 3, 4, 5]
        assert (entries[1].person_id, entries[2].person_id, entries[2].who) == (None, 1, "anna")
        assert audit.head(connection) == entries[-1]
        assert audit.check(connection, entries[2].hash).entries == 3


@pytest.mark.parametrize("column", COLUMNS)
def test_a_changed_value_is_found(trail: Ledger, column: str) -> None:
    new = {"at": "'2026-01-01 00:00:00'", "payload": '\'{"number": 0, "share": 0.2}\'', "person_id": "NULL"}
    tamper(trail, f"UPDATE audit_entry SET {column} = {new.get(column, 7)} WHERE id = 3")
    with trail.read() as connection:
        fault = audit.check(connection).fault
    assert fault is not None and "entry 3 (" in fault and "was changed" in fault


@pytest.mark.parametrize("entry", [1, 3, 5])
def test_a_removed_entry_is_found(trail: Ledger, entry: int) -> None:
    tamper(trail, f"DELETE FROM audit_entry WHERE id = {entry}")
    with trail.read() as connection:
        fault = audit.check(connection).fault
    assert fault is not None and str(entry) in fault and "missing" in fault


def test_a_rewritten_tail_is_found_from_a_noted_hash(trail: Ledger) -> None:
    with trail.read() as connection:
        noted = audit.check(connection).head
    tamper(trail, "DELETE FROM audit_entry WHERE id > 3")
    with trail.begin() as connection:
        connection.execute(sa.update(t.watermark).where(t.watermark.c.id == audit.COUNTER).values(value=3))
        for number in range(2):
            audit.append(connection, "anna", "signed", "submission", None, number=number)
    with trail.read() as connection:
        assert audit.check(connection).fault is None, "a whole new tail fits in itself"
        with pytest.raises(UsageError, match="was rewritten"):
            audit.check(connection, noted)
