"""The audit trail: a change of any byte is found."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from sciagent.domain.people import Actor
from sciagent.errors import LedgerError, UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.people import audit, persons
from sciagent.store.people.audit import AuditEntry
from tests.support import rows

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


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize("value", ["payload = '5'", "at = 'infinity'"])
def test_an_entry_that_cannot_be_read_is_named_with_the_error(trail: Ledger, value: str) -> None:
    tamper(trail, f"UPDATE audit_entry SET {value} WHERE id = 3")
    with trail.read() as connection:
        checked = audit.check(connection)
        assert checked.entries == 2 and checked.fault is not None
        assert checked.fault.startswith("audit_entry 3 cannot be read: ") and "Error: " in checked.fault
        with pytest.raises(LedgerError, match="audit_entry 3 cannot be read: "):
            list(audit.entries(connection))
        assert len([entry for entry in audit.readable_entries(connection) if isinstance(entry, AuditEntry)]) == 4


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
@pytest.mark.parametrize("number", [0, -7])
def test_an_entry_before_the_first_is_refused_and_found(trail: Ledger, number: int) -> None:
    """Whoever can write the file of a SQLite ledger gets past its constraints, too."""
    copied = [column.name for column in t.audit_entry.columns if column.name not in ("id", "hash")]
    names = ", ".join(copied)
    insert = f"INSERT INTO audit_entry (id, hash, {names}) SELECT {number}, 'f', {names} FROM audit_entry WHERE id = 3"
    with pytest.raises(sa.exc.IntegrityError, match="ck_audit_entry_id"), trail.begin() as connection:
        connection.exec_driver_sql(insert)
    with trail.begin() as connection:
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
        connection.exec_driver_sql(insert)
        connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")
    with trail.read() as connection:
        fault = audit.check(connection).fault
        assert [entry.id for entry in audit.entries(connection)] == [number, 1, 2, 3, 4, 5]
    assert fault == f"entry {number} stands before the first, which is entry 1"


def test_an_entry_past_the_counter_is_found(trail: Ledger) -> None:
    with trail.begin() as connection:
        audit.append(connection, "eve", "signed", "submission", None, number=9)
        connection.execute(sa.update(t.watermark).where(t.watermark.c.id == audit.COUNTER).values(value=5))
    with trail.read() as connection:
        checked = audit.check(connection)
    assert checked.fault == "entry 6 was added past the counter of the entries, which is at 5"


def test_a_submission_that_no_entry_names_is_found(trail: Ledger) -> None:
    with trail.begin() as connection:
        row = rows.campaign(connection)
    [job_id] = rows.queued_jobs(trail, row)
    with trail.begin() as connection:
        text = "INSERT INTO submission (key, job_id, fence, revision, kind, who, said, files, at) "
        connection.exec_driver_sql(f"{text} VALUES ('k', {job_id}, 1, 0, 'result', 'eve', '{{}}', '[]', '2026-01-01')")
        [id_] = connection.execute(sa.select(t.submission.c.id)).scalars()
    with trail.read() as connection:
        assert audit.check(connection).fault == f"no entry names submission {id_}"


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
