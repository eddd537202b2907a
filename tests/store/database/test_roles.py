"""Roles of PostgreSQL: what the printed SQL grants is what the check asks for."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

import psycopg
import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from sciagent.errors import UsageError
from sciagent.store.database import migrate_and_back_up, roles
from sciagent.store.database.engine import connect, ledger_url
from sciagent.store.database.ledger import Ledger
from sciagent.store.database.tables import APPEND_ONLY, metadata


@pytest.fixture
def owner(postgres_url: str) -> Iterator[sa.Engine]:
    """The owner of a ledger without rows."""
    engine = connect(ledger_url(postgres_url))
    migrate_and_back_up.upgrade(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def names(owner: sa.Engine) -> Iterator[Mapping[str, str]]:
    """Roles of this test, made by the printed SQL, which may run twice. Roles belong to the whole server."""
    mark = uuid.uuid4().hex[:8]
    names = {kind: f"{kind}_{mark}" for kind in ("web", "worker", "dispatcher")}
    address = owner.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(address, autocommit=True) as admin:
        for _ in range(2):
            admin.execute("\n".join(roles.statements(names)))
        yield names
        for name in names.values():
            admin.execute(f"DROP OWNED BY {name}")
            admin.execute(f"DROP ROLE {name}")


def faults(engine: sa.Engine, names: Mapping[str, str]) -> list[str]:
    with engine.connect() as connection:
        checks = roles.check(connection, names)
        return [line for each in checks for line in each.lines if not line.endswith("as it should be")]


def test_the_printed_sql_grants_what_the_check_asks_for(owner: sa.Engine, names: Mapping[str, str]) -> None:
    assert faults(owner, names) == []
    web = names["web"]
    worker = names["worker"]
    with owner.begin() as connection:
        connection.exec_driver_sql(f"GRANT UPDATE (value), DELETE ON quantity TO {web}")
        connection.exec_driver_sql(f"GRANT CREATE ON SCHEMA public TO {web}")
        connection.exec_driver_sql(f"REVOKE INSERT ON evidence FROM {worker}")
        connection.exec_driver_sql(f"ALTER ROLE {worker} CREATEROLE")
        connection.exec_driver_sql(f"GRANT SELECT ON person TO {worker}")
    assert faults(owner, names) == [
        f"{web} (web): too wide: CREATE in the schema of the ledger",
        f"{web} (web): too wide: DELETE on quantity",
        f"{web} (web): too wide: UPDATE of value on quantity",
        f"{worker} (worker): too wide: CREATEROLE",
        f"{worker} (worker): too wide: SELECT on person",
        f"{worker} (worker): missing: INSERT on evidence",
    ]
    gone = {**names, "web": "nobody_of_that_name"}
    assert faults(owner, gone)[0].startswith("nobody_of_that_name (web): missing: there is no such role")


def test_a_login_may_have_no_more_than_its_roles(owner: sa.Engine, names: Mapping[str, str]) -> None:
    login = f"login_{uuid.uuid4().hex[:8]}"
    with owner.begin() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {login} LOGIN IN ROLE {names['worker']}")
    mine = connect(make_url(owner.url).set(username=login))
    try:
        assert faults(mine, names) == []
        with owner.begin() as connection:
            connection.exec_driver_sql(f"GRANT TRIGGER ON evidence TO {login}")
        assert faults(mine, names) == [f"{login} (worker): too wide: TRIGGER on evidence"]
        with owner.begin() as connection:
            connection.exec_driver_sql(f"REVOKE {names['worker']} FROM {login}")
        assert faults(mine, names) == [f"{login}: too wide: TRIGGER on evidence"]
    finally:
        mine.dispose()
        with owner.begin() as connection:
            connection.exec_driver_sql(f"DROP OWNED BY {login}")
            connection.exec_driver_sql(f"DROP ROLE {login}")


@pytest.mark.parametrize("kind", ["web", "worker", "dispatcher"])
def test_no_role_changes_or_removes_what_is_append_only(kind: str) -> None:
    rights = roles.rights_of(kind)
    assert {table for table, _ in rights.columns}.isdisjoint(APPEND_ONLY)
    removed = {table for table, privilege in rights.tables if privilege == "DELETE"}
    assert removed == ({"membership", "wrong_password"} if kind == "web" else set())
    assert ("person", "SELECT") in rights.tables or kind != "web"
    for table, column in rights.columns:
        assert column in metadata.tables[table].columns


@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
def test_a_sqlite_ledger_has_no_roles(ledger: Ledger) -> None:
    with ledger.read() as connection, pytest.raises(UsageError, match="whoever may write its file"):
        roles.check(connection, {"web": "web"})
