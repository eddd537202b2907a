"""Migrations, on both databases: up, with rows, to a later revision, from a newer one, two at once."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from sqlalchemy.engine import make_url

from sciagent.errors import SchemaVersionError, UsageError
from sciagent.store.database import migrate_and_back_up
from sciagent.store.database import tables as t
from sciagent.store.database.engine import connect, ledger_url, read_only
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from sciagent_migrations.snapshot import of_scripts
from tests.support import rows
from tests.support.servers.postgres import postgres_folders

HEAD = migrate_and_back_up.head()
LATER = '''
"""A later version: one new column on a table that others refer to, rebuilt on SQLite, with its rows."""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "later", "HEAD", None, None


def upgrade():
    with op.batch_alter_table("candidate", recreate="auto") as batch:
        batch.add_column(sa.Column("remark", sa.Text(), nullable=False, server_default="none"))
        batch.alter_column("formula", type_=sa.String(500))


def downgrade():
    with op.batch_alter_table("candidate") as batch:
        batch.drop_column("remark")
'''.replace("HEAD", HEAD)


def test_the_head_that_is_written_down_is_that_of_the_scripts() -> None:
    assert migrate_and_back_up.head() == migrate_and_back_up.HEAD


def lines_of(text: str) -> list[list[str]]:
    """Returns the lines of each statement, sorted: Alembic orders the constraints of a rebuilt table by chance."""
    return sorted(sorted(line.strip().rstrip(",") for line in each.split("\n")) for each in text.split(";\n"))


def test_the_snapshot_is_what_the_scripts_make() -> None:
    kept = files("sciagent_migrations").joinpath(migrate_and_back_up.SNAPSHOT).read_text(encoding="utf-8")
    assert lines_of(kept) == lines_of(of_scripts()), "sqlite.sql is old: snapshot.py says how to write it"


@pytest.fixture
def later_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of tomorrow: one migration more."""
    folder = tmp_path / "later"
    folder.mkdir()
    (folder / "later.py").write_text(LATER)
    today = migrate_and_back_up._config

    def tomorrow() -> Config:
        config = today()
        shipped = Path(str(config.get_main_option("script_location"))) / "versions"
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", f"{shipped}\n{folder}")
        return config

    monkeypatch.setattr(migrate_and_back_up, "_config", tomorrow)
    monkeypatch.setattr(migrate_and_back_up, "HEAD", migrate_and_back_up.head())


@pytest.fixture
def engine(empty_url: str):
    made = connect(ledger_url(empty_url))
    yield made
    made.dispose()


def tables_of(engine: sa.Engine) -> set[str]:
    inspector = sa.inspect(engine)
    return {*inspector.get_table_names(), *inspector.get_view_names()}


def with_rows(engine: sa.Engine) -> int:
    with engine.begin() as connection:
        row = rows.campaign(connection)
        ids = rows.entered(connection, row, 3)
        evidence.record(connection, [rows.new_evidence(i, rows.gap(), source="old.csv") for i in ids])
    return len(ids)


def definitions(connection: sa.Connection) -> set[tuple[str, ...]]:
    """Returns columns, constraints and indexes of the ledger's tables, as the database itself states them."""
    if connection.dialect.name == "sqlite":
        query = "SELECT tbl_name, name, sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL"
        found = [(table, name, *lines_of(sql)[0]) for table, name, sql in connection.exec_driver_sql(query)]
    else:
        queries = (
            "SELECT table_name, column_name, udt_name, character_maximum_length, is_nullable, column_default "
            "FROM information_schema.columns WHERE table_schema = 'public'",
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE connamespace = 'public'::regnamespace",
            "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
        )
        found = [tuple(map(str, row)) for query in queries for row in connection.exec_driver_sql(query)]
    return {row for row in found if row[0] in t.metadata.tables}


def triggers(connection: sa.Connection) -> set[str]:
    if connection.dialect.name == "sqlite":
        return set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'trigger'").scalars())
    return set(connection.exec_driver_sql("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal").scalars())


def test_an_empty_database_gets_exactly_the_tables_of_the_code(engine: sa.Engine, backend: str) -> None:
    with engine.connect() as connection:
        t.metadata.create_all(connection)
        wanted = definitions(connection)
        connection.rollback()
    migrate_and_back_up.upgrade(engine)
    assert migrate_and_back_up.current(engine) == migrate_and_back_up.head()
    assert migrate_and_back_up.differences(engine) == []
    ends = ("no_update", "no_delete") if backend == "sqlite" else ("append_only", "no_truncate")
    with engine.connect() as connection:
        assert definitions(connection) == wanted and len(wanted) > 100
        assert triggers(connection) == {f"{table}_{end}" for table in (*t.APPEND_ONLY, *t.CHANGEABLE) for end in ends}


def test_a_missing_trigger_is_a_difference(engine: sa.Engine, backend: str) -> None:
    migrate_and_back_up.upgrade(engine)
    on = "" if backend == "sqlite" else " ON spend"
    name = "spend_no_delete" if backend == "sqlite" else "spend_append_only"
    with engine.begin() as connection:
        connection.exec_driver_sql(f"DROP TRIGGER {name}{on}")
    assert migrate_and_back_up.differences(engine) == [f"spend: trigger {name} is missing"]


def test_a_missing_constraint_is_a_difference(tmp_path: Path) -> None:
    text = files("sciagent_migrations").joinpath("sqlite.sql").read_text(encoding="utf-8")
    without = text.replace("\tCONSTRAINT ck_evidence_watermark CHECK (watermark > 0), \n", "")
    assert without != text
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as connection:
        connection.executescript(without)
    engine = connect(ledger_url(str(tmp_path / "ledger.db")))
    assert migrate_and_back_up.differences(engine) == ["evidence: constraint ck_evidence_watermark is missing"]


def test_an_upgrade_keeps_the_rows(engine: sa.Engine, request: pytest.FixtureRequest) -> None:
    migrate_and_back_up.upgrade(engine)
    n = with_rows(engine)
    request.getfixturevalue("later_version")
    copy = migrate_and_back_up.upgrade(engine)
    assert migrate_and_back_up.current(engine) == "later"
    with engine.begin() as connection:
        remarks = connection.exec_driver_sql("SELECT remark FROM candidate").scalars().all()
        assert remarks == ["none"] * n
        assert connection.execute(sa.select(sa.func.count()).select_from(t.current_evidence)).scalar() == n
        rows.new_evidence(1)
        with pytest.raises(sa.exc.IntegrityError), connection.begin_nested():  # references hold after the rebuild
            connection.exec_driver_sql(
                "INSERT INTO candidate_parent (candidate_id, parent_id, proposal_id) VALUES (9, 9, 9)"
            )
    assert (copy is None) == (engine.dialect.name == "postgresql")


def test_sqlite_is_copied_before_it_upgrades_itself(tmp_path: Path, migrated_sqlite: Path, later_version: None) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    today = connect(ledger_url(str(path)))
    with_rows(today)
    today.dispose()
    opened = Ledger(str(path))
    assert migrate_and_back_up.current(opened.engine) == "later"
    opened.close()
    assert opened.copy_taken == tmp_path / f"ledger.db.before-{HEAD}"
    with closing(sqlite3.connect(opened.copy_taken)) as copy:
        assert copy.execute("SELECT version_num FROM alembic_version").fetchall() == [(HEAD,)]
        assert copy.execute("SELECT count(*) FROM evidence").fetchall() == [(3,)]
    again = Ledger(str(path))
    assert again.copy_taken is None
    again.close()


def test_an_earlier_copy_is_never_overwritten(tmp_path: Path, migrated_sqlite: Path, later_version: None) -> None:
    path = tmp_path / "ledger.db"
    (tmp_path / f"ledger.db.before-{HEAD}").write_text("precious")
    path.write_bytes(migrated_sqlite.read_bytes())
    opened = Ledger(str(path))
    opened.close()
    assert opened.copy_taken == tmp_path / f"ledger.db.before-{HEAD}.1"
    assert (tmp_path / f"ledger.db.before-{HEAD}").read_text() == "precious"


def test_a_failed_upgrade_leaves_everything_as_it_was(
    engine: sa.Engine, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    migrate_and_back_up.upgrade(engine)
    n = with_rows(engine)
    request.getfixturevalue("later_version")
    script = tmp_path / "later" / "later.py"
    script.write_text(LATER.replace("\n\n\ndef downgrade", "\n    raise RuntimeError('half way')\n\n\ndef downgrade"))
    with pytest.raises(RuntimeError, match="half way"):
        migrate_and_back_up.upgrade(engine)
    assert migrate_and_back_up.current(engine) == HEAD
    assert migrate_and_back_up.differences(engine) == []
    with engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.evidence)).scalar() == n


def test_postgresql_refuses_until_told(postgres_url: str) -> None:
    with pytest.raises(SchemaVersionError, match=r"at revision none.*sciagent db upgrade"):
        Ledger(postgres_url)
    engine = connect(ledger_url(postgres_url))
    assert tables_of(engine) == set()
    migrate_and_back_up.upgrade(engine)
    engine.dispose()
    Ledger(postgres_url).close()


def test_an_older_postgresql_is_refused(ledger_url: str, backend: str, later_version: None) -> None:
    if backend == "postgresql":
        with pytest.raises(SchemaVersionError, match=f"at revision {HEAD}, this sciagent needs later"):
            Ledger(ledger_url)
    else:
        Ledger(ledger_url).close()


def test_a_newer_ledger_is_refused(engine: sa.Engine, empty_url: str) -> None:
    migrate_and_back_up.upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaVersionError, match="revision 9999, which is newer"):
        Ledger(empty_url)
    with pytest.raises(SchemaVersionError, match="newer"):
        migrate_and_back_up.upgrade(engine)


def _open(url: str, start: object, said: object) -> None:
    start.wait()
    try:
        engine = connect(ledger_url(url))
        migrate_and_back_up.upgrade(engine)
        said.put(str(migrate_and_back_up.differences(engine)))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent shall see it
        said.put(repr(error))


@pytest.mark.parametrize("backend", [pytest.param("sqlite", marks=pytest.mark.long), "postgresql"], indirect=True)
def test_processes_that_upgrade_at_once(empty_url: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    start, said = spawn.Barrier(2), spawn.Queue()
    processes = [spawn.Process(target=_open, args=(empty_url, start, said)) for _ in range(2)]
    for process in processes:
        process.start()
    assert [said.get(timeout=60) for _ in processes] == ["[]"] * 2
    for process in processes:
        process.join(10)


def test_a_ledger_opens_while_another_process_writes(migrated_sqlite: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    writer = connect(ledger_url(str(path)))
    with writer.begin() as connection:
        connection.exec_driver_sql("UPDATE watermark SET value = 5")
        reader = Ledger(str(path))
        with reader.read() as other:
            assert evidence.read_watermark(other) == 0
        reader.close()
    writer.dispose()


def test_a_reader_cannot_write(engine: sa.Engine) -> None:
    migrate_and_back_up.upgrade(engine)
    with read_only(engine) as connection, pytest.raises(sa.exc.DBAPIError, match=r"read-?only"):
        evidence.next_watermark(connection)
    with engine.begin() as connection:  # and the connection, back from the pool, can
        assert evidence.next_watermark(connection) == 1


def test_a_reader_sees_one_snapshot(engine: sa.Engine) -> None:
    migrate_and_back_up.upgrade(engine)
    with read_only(engine) as reader:
        before = evidence.read_watermark(reader)
        with engine.begin() as writer:
            evidence.next_watermark(writer)
        assert evidence.read_watermark(reader) == before


@pytest.fixture(params=[0o000, 0o022, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_ledger_and_its_copies_are_for_their_owner_alone(
    tmp_path: Path, umask: int, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(str(path), artifacts=tmp_path / "artifacts")
    with_rows(ledger.engine)
    files = [path, tmp_path / "ledger.db-wal", tmp_path / "ledger.db-shm"]
    assert [mode(file) for file in files] == [0o600] * 3
    migrate_and_back_up.back_up(ledger.url, tmp_path / "copy.db")
    ledger.close()
    assert mode(tmp_path / "copy.db") == 0o600
    os.umask(0o022)  # the code of tomorrow is written by the test
    request.getfixturevalue("later_version")
    os.umask(umask)
    opened = Ledger(str(path), artifacts=tmp_path / "artifacts")
    opened.close()
    assert opened.copy_taken is not None and mode(opened.copy_taken) == mode(path) == 0o600


def test_a_ledger_that_a_group_shares_stays_as_it_is(tmp_path: Path, migrated_sqlite: Path) -> None:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    path.chmod(0o660)
    ledger = Ledger(str(path))
    with_rows(ledger.engine)
    assert [mode(tmp_path / f"ledger.db{end}") for end in ("", "-wal", "-shm")] == [0o660] * 3
    ledger.close()


def test_a_backup_where_nobody_can_write_is_refused(tmp_path: Path, migrated_sqlite: Path) -> None:
    (tmp_path / "copy.db.partial").mkdir()
    with pytest.raises(UsageError, match=r"copy\.db\.partial cannot be written"):
        migrate_and_back_up.back_up(ledger_url(str(migrated_sqlite)), tmp_path / "copy.db")


@pytest.mark.parametrize("where", ["before the host", "in the query"])
def test_a_backup_of_postgresql_is_private_and_its_program_gets_no_password_as_argument(
    where: str, migrated_postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    """A script in the place of pg_dump writes down its arguments, and then runs the real one."""
    os.umask(0o022)
    folders = [folder for folder in postgres_folders() if (folder / "pg_dump").exists()]
    real = shutil.which("pg_dump", path=os.pathsep.join([*map(str, folders), os.environ["PATH"]]))
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "pg_dump"
    script.write_text(f'#!/bin/sh\nprintf "%s\\n" "$PGPASSWORD" "$@" > {tmp_path}/told\nexec {real} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    url = make_url(migrated_postgres)
    url = url.set(password="S3cret") if where == "before the host" else url.update_query_dict({"password": "S3cret"})
    os.umask(umask)
    migrate_and_back_up.back_up(ledger_url(url.render_as_string(hide_password=False)), tmp_path / "dump")
    assert mode(tmp_path / "dump") == 0o600 and (tmp_path / "dump").stat().st_size > 1000
    password, *arguments = (tmp_path / "told").read_text().splitlines()
    assert password == "S3cret" and not any("S3cret" in argument for argument in arguments)
