"""Which database errors say that the ledger is away, and which say that something is wrong."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.errors import LedgerAwayError, SchemaVersionError, UsageError
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


def test_sqlite_is_away_while_it_is_locked(tmp_path: Path) -> None:
    path = tmp_path / "sciagent.db"
    ledger = Ledger(str(path))
    with ledger.read() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout=10")
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerAwayError, match="locked"), ledger.begin():
            pass
    with ledger.begin() as connection:
        connection.execute(sa.text("SELECT 1"))


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
