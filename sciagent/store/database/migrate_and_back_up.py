"""Migrations and backups. Opening a SQLite ledger copies and upgrades it; `sciagent db upgrade` upgrades PostgreSQL.

Alembic is imported only for a migration, since every command opens a ledger and few ledgers are old. A new SQLite
ledger is written from a snapshot of the tables that the migration scripts make.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import warnings
from contextlib import closing, suppress
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from sqlalchemy.engine import URL, Engine

from sciagent.errors import LedgerError, SchemaVersionError, UsageError
from sciagent.store.database.engine import ledger_url, read_only, sqlite_path
from sciagent.store.database.tables import APPEND_ONLY, CHANGEABLE, metadata

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

HEAD = "0001"  # the revision of the last script, as `head` reads it
_ADVISORY_LOCK = 7_260_213  # any number, the same in every process
SNAPSHOT = "sqlite.sql"  # the statements that write the tables of a new SQLite ledger
VERSION = sa.table("alembic_version", sa.column("version_num", sa.String))


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("sciagent_migrations")).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())


def head() -> str:
    """The revision of the last script."""
    return str(_scripts().get_current_head())


def current(engine: Engine) -> str | None:
    """The revision of the database; None if it is empty."""
    path = sqlite_path(engine)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):  # the ledger is there, or SQLite says why it cannot be made
            _make_private(path.resolve())
    with read_only(engine) as connection:
        if not sa.inspect(connection).has_table(VERSION.name):
            return None
        return connection.execute(sa.select(VERSION.c.version_num)).scalar_one_or_none()


def _make_private(path: Path) -> None:
    """Makes an empty file that only its owner can read, whatever the umask. Raises OSError, also if the file exists.

    An empty file is an empty SQLite database, and SQLite gives its `-wal` and `-shm` the permissions of the database.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.fchmod(descriptor, 0o600)  # the umask may have taken permissions from its owner
    finally:
        os.close(descriptor)


def upgrade(engine: Engine) -> Path | None:
    """Upgrade the database; concurrent upgrades are serialised. Returns the copy taken of a SQLite file with data.

    Raises SchemaVersionError if the ledger is newer than this sciagent.
    """
    refuse_newer(current(engine))
    path = sqlite_path(engine)
    if path is not None:
        from filelock import FileLock

        with FileLock(f"{path}.upgrade.lock", timeout=120):
            before = current(engine)
            if before is None:
                _write_snapshot(engine)
            if current(engine) == HEAD:
                return None
            copy = _copy(path, before) if before else None
            run_scripts(engine)
            return copy
    with engine.connect() as lock:
        lock.exec_driver_sql(f"SELECT pg_advisory_lock({_ADVISORY_LOCK})")
        lock.commit()
        try:
            run_scripts(engine)
        finally:
            lock.exec_driver_sql(f"SELECT pg_advisory_unlock({_ADVISORY_LOCK})")
            lock.commit()
    return None


def _write_snapshot(engine: Engine) -> None:
    """Writes the tables of a new SQLite ledger. The text begins and commits a transaction."""
    text = files("sciagent_migrations").joinpath(SNAPSHOT).read_text(encoding="utf-8")
    with engine.connect() as connection:
        raw: sqlite3.Connection = connection.connection.driver_connection  # type: ignore[assignment]
        raw.execute("PRAGMA query_only=0")
        try:
            raw.executescript(text)
        finally:
            if raw.in_transaction:
                raw.rollback()


def run_scripts(engine: Engine) -> None:
    """Run the migrations in a single transaction.

    On SQLite foreign keys are off meanwhile, since a table is dropped before it is built again. They are checked before
    the commit.
    """
    from alembic import command

    with engine.connect() as connection:
        is_sqlite = engine.dialect.name == "sqlite"
        raw = connection.connection
        if is_sqlite:
            raw.execute("PRAGMA foreign_keys=OFF")
        try:
            with connection.begin():
                config = _config()
                config.attributes["connection"] = connection
                command.upgrade(config, "head")
                broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all() if is_sqlite else []
                if broken:
                    raise LedgerError(f"the migration would break references: {broken[:5]}")
        finally:
            if is_sqlite:
                raw.execute("PRAGMA foreign_keys=ON")


def _copy(path: Path, revision: str) -> Path:
    """Copies a SQLite ledger beside it, under a name that no file has; returns the path of the copy."""
    target = path.with_name(f"{path.name}.before-{revision}")
    number = 1
    while target.exists():
        target = path.with_name(f"{path.name}.before-{revision}.{number}")
        number += 1
    back_up(ledger_url(str(path)), target)
    return target


def ensure(engine: Engine) -> Path | None:
    """Upgrade SQLite to the code's revision. Raises SchemaVersionError for PostgreSQL at any other revision."""
    at = current(engine)
    if at == HEAD:
        return None
    refuse_newer(at)
    if engine.dialect.name != "sqlite":
        raise SchemaVersionError(
            f"the ledger is at revision {at or 'none'}, this sciagent needs {HEAD}; run: "
            "sciagent db upgrade --ledger URL"
        )
    return upgrade(engine)


def refuse_newer(at: str | None) -> None:
    """Raises SchemaVersionError for a revision that this sciagent does not know."""
    if at in (None, HEAD):
        return
    known = {script.revision for script in _scripts().walk_revisions()}
    if at not in known:
        raise SchemaVersionError(
            f"the ledger is at revision {at}, which is newer than this sciagent ({head()}); upgrade sciagent"
        )


def differences(engine: Engine) -> list[str]:
    """The differences between the database and the tables of the code; empty if there are none."""
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with read_only(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        with warnings.catch_warnings():
            # SQLite's expression-based indexes cannot be compared
            warnings.filterwarnings("ignore", ".*expression-based index")
            differing = [str(difference) for difference in compare_metadata(context, metadata)]
        if engine.dialect.name == "sqlite":
            suffixes = ("no_update", "no_delete")
            query = "SELECT name FROM sqlite_master WHERE type = 'trigger'"
        else:
            suffixes = ("append_only", "no_truncate")
            query = "SELECT tgname FROM pg_trigger WHERE tgenabled <> 'D'"
        triggers = set(connection.exec_driver_sql(query).scalars())
        checks = sa.inspect(connection).get_multi_check_constraints()
        present = {check["name"] for of_table in checks.values() for check in of_table}
    for of_code in metadata.tables.values():
        for constraint in of_code.constraints:
            if isinstance(constraint, sa.CheckConstraint) and constraint.name not in present:
                differing.append(f"{of_code.name}: constraint {constraint.name} is missing")
    for table in (*APPEND_ONLY, *CHANGEABLE):
        for suffix in suffixes:
            trigger = f"{table}_{suffix}"
            if trigger not in triggers:
                differing.append(f"{table}: trigger {trigger} is missing")
    return differing


def back_up(url: URL, target: Path) -> None:
    """Write a copy that only its owner can read. The copy gets its name only when it is complete.

    Raises UsageError if the target exists or cannot be written, or if there is no ledger; LedgerError if pg_dump is
    missing or fails.
    """
    if target.exists():
        raise UsageError(f"{target} is there already; a backup never overwrites one")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    partial = target.with_name(f"{target.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        _make_private(partial)
    except OSError as error:
        raise UsageError(f"{partial} cannot be written: {error.strerror}") from None
    try:
        if url.get_backend_name() == "sqlite":
            _sqlite(Path(str(url.database)), partial)
        else:
            _postgresql(url, partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _sqlite(path: Path, target: Path) -> None:
    """Copy by SQLite's backup, which gives a consistent copy while others write."""
    if not path.is_file():
        raise UsageError(f"no ledger at {path}")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy, pages=4096)


def _postgresql(url: URL, target: Path) -> None:
    """Copy by pg_dump, which reads a single snapshot. The command line has no password, since others can read it."""
    if shutil.which("pg_dump") is None:
        raise LedgerError("pg_dump is not installed here; it comes with PostgreSQL's client package")
    without_password = URL.create(
        "postgresql",
        username=url.username,
        password=None,
        host=url.host,
        port=url.port,
        database=url.database,
        query=url.query,
    )
    environment = dict(os.environ)
    if url.password:
        environment["PGPASSWORD"] = str(url.password)
    address = without_password.render_as_string(hide_password=False)
    command = ["pg_dump", "--format=custom", "--file", str(target), "--dbname", address]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise LedgerError(f"pg_dump failed: {done.stderr.strip()[-1000:]}")
