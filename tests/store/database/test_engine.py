"""Which database errors say that the ledger is away, and which say that something is wrong."""

from __future__ import annotations

import logging
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.errors import DiskFullError, LedgerAwayError, SchemaVersionError, UsageError
from sciagent.store.database import engine
from sciagent.store.database.ledger import Ledger
from tests.support.servers.postgres import Postgres


@pytest.mark.parametrize("statement", ["SELECT colour FROM job", "SELECT * FROM jobs", "UPDATE job SET colour = 1"])
def test_another_schema_is_an_error_and_not_an_absence(ledger: Ledger, statement: str) -> None:
    with pytest.raises(SchemaVersionError, match=r"colour|jobs.*sciagent db upgrade"), ledger.begin() as connection:
        connection.execute(sa.text(statement))


@pytest.mark.parametrize("statement", ["SELEC 1", "SELECT no_such_function(1)"])
def test_a_statement_that_is_wrong_is_an_error_and_not_an_absence(ledger: Ledger, statement: str) -> None:
    with pytest.raises(sa.exc.DBAPIError), ledger.begin() as connection:
        connection.execute(sa.text(statement))


def test_sqlite_is_away_where_the_file_cannot_be_opened(tmp_path: Path) -> None:
    made = engine.connect(engine.ledger_url(str(tmp_path / "gone" / "sciagent.db")))
    with pytest.raises(LedgerAwayError, match="unable to open"), made.begin():
        pass


def test_postgresql_is_away_when_it_ends_the_connection_and_when_it_is_down(own_postgres_server: Postgres) -> None:
    made = engine.connect(engine.ledger_url(own_postgres_server.url))
    with pytest.raises(LedgerAwayError), made.begin() as connection:
        connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))
    own_postgres_server.stop()
    try:
        with pytest.raises(LedgerAwayError), made.begin():
            pass
    finally:
        own_postgres_server.start()


@pytest.mark.parametrize("state", ["57P01", "57P03", "53300", "55P03", "40001", "40P01", "08006"])
def test_states_of_postgresql_that_say_it_is_away(postgres: str, state: str) -> None:
    made = engine.connect(engine.ledger_url(postgres))
    raising = f"DO $$ BEGIN RAISE EXCEPTION 'as asked' USING ERRCODE = '{state}'; END $$"
    with pytest.raises(LedgerAwayError), made.begin() as connection:
        connection.execute(sa.text(raising))
    made.dispose()


def test_a_password_in_the_query_is_hidden_as_one_before_the_host_is() -> None:
    found = engine.ledger_url("postgresql://anna@db/sciagent?sslmode=require&password=S3cret")
    assert found.password == "S3cret" and dict(found.query) == {"sslmode": "require"}
    assert "S3cret" not in found.render_as_string()


@pytest.mark.parametrize(
    "address",
    [
        "mysql://anna:S3cret@db/sciagent",
        "postgresql://anna:S3cret",  # what follows the colon is read as a port
        "postgresql://anna:S3cret@db:port/sciagent",
        "post gresql://anna:S3cret@db/sciagent",
        "postgresql://anna@db/sciagent?sslpassword=S3cret",
    ],
)
def test_an_address_that_is_refused_is_shown_without_its_password(address: str) -> None:
    with pytest.raises(UsageError, match="--ledger") as refused:
        engine.ledger_url(address)
    assert "S3cret" not in str(refused.value)


def test_a_full_disk_is_named_with_its_folder(tmp_path: Path) -> None:
    """SQLite itself says that the disk is full, here since the file may have no more pages."""
    ledger = Ledger(str(tmp_path / "l.db"))
    insert = sa.text("INSERT INTO property (name, unit, kind, description) VALUES ('p', 'eV', 'k', :text)")
    with pytest.raises(DiskFullError) as error, ledger.begin() as connection:
        [n_pages] = connection.exec_driver_sql("PRAGMA page_count").one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={n_pages}")
        connection.execute(insert, {"text": "x" * 1_000_000})
    assert f"the disk that holds {tmp_path} is full" in str(error.value)
    assert "l.db-wal" in str(error.value)
    ledger.close()


@pytest.mark.parametrize(("locked_for", "is_given_up"), [(0.6, False), (3.0, True)])
def test_a_writer_waits_for_the_lock_with_a_word_and_not_without_end(
    locked_for: float,
    is_given_up: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(engine, "LOCK_WORD_SECONDS", 0.2)
    monkeypatch.setattr(engine, "LOCK_SECONDS", 1.0)
    ledger = Ledger(str(tmp_path / "l.db"))
    with closing(sqlite3.connect(tmp_path / "l.db", isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN EXCLUSIVE")
        timer = threading.Timer(locked_for, other.rollback)
        timer.start()
        with caplog.at_level(logging.WARNING):
            if is_given_up:
                with pytest.raises(LedgerAwayError, match=r"has held the lock of .*l\.db for 1 s"), ledger.begin():
                    pass
            else:
                with ledger.begin() as connection:
                    assert connection.execute(sa.text("SELECT count(*) FROM campaign")).scalar_one() == 0
        timer.join()
    assert [record.getMessage() for record in caplog.records] == [
        f"waits for the lock of {tmp_path / 'l.db'}, which another process holds"
    ]
    ledger.close()
