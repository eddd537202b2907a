"""Migrations: SQLite upgrades itself after taking a copy, PostgreSQL only when told (`sciagent db upgrade`)."""

from __future__ import annotations

import sqlite3
from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Engine

from sciagent.errors import SchemaVersionError
from sciagent.store.engine import sqlite_path
from sciagent.store.tables import metadata

_ADVISORY_LOCK = 7_260_213  # any number, the same in every process


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("sciagent_migrations")).replace("%", "%%"))
    return config


def head() -> str:
    return str(ScriptDirectory.from_config(_config()).get_current_head())


def current(engine: Engine) -> str | None:
    """The revision the database is at; None for an empty one."""
    with engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def upgrade(engine: Engine, revision: str = "head") -> Path | None:
    """Upgrade; two starts at once are serialised. Returns the copy taken of a SQLite file that held data."""
    path = sqlite_path(engine)
    if path is not None:
        from filelock import FileLock

        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.upgrade.lock", timeout=120):
            before = current(engine)
            if revision == "head" and before == head():
                return None
            copy = _copy(path, before) if before else None
            _run(engine, revision)
            return copy
    with engine.connect() as lock:
        lock.exec_driver_sql(f"SELECT pg_advisory_lock({_ADVISORY_LOCK})")
        lock.commit()
        try:
            _run(engine, revision)
        finally:
            lock.exec_driver_sql(f"SELECT pg_advisory_unlock({_ADVISORY_LOCK})")
            lock.commit()
    return None


def _run(engine: Engine, revision: str) -> None:
    with engine.begin() as connection:
        config = _config()
        config.attributes["connection"] = connection
        if revision == "base" or revision.startswith("-"):
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)


def _copy(path: Path, revision: str) -> Path:
    target = path.with_name(f"{path.name}.before-{revision}")
    number = 1
    while target.exists():
        target = path.with_name(f"{path.name}.before-{revision}.{number}")
        number += 1
    with sqlite3.connect(path) as source, sqlite3.connect(target) as copy:
        source.backup(copy)
    return target


def ensure(engine: Engine) -> Path | None:
    """Bring SQLite to the code's revision; raise SchemaVersionError for a PostgreSQL that is behind or ahead."""
    at, need = current(engine), head()
    if at == need:
        return None
    known = {s.revision for s in ScriptDirectory.from_config(_config()).walk_revisions()}
    if at is not None and at not in known:
        raise SchemaVersionError(
            f"the ledger is at revision {at}, which is newer than this sciagent ({need}); upgrade sciagent"
        )
    if engine.dialect.name != "sqlite":
        raise SchemaVersionError(
            f"the ledger is at revision {at or 'none'}, this sciagent needs {need}; run: sciagent db upgrade --ledger URL"
        )
    return upgrade(engine)


def differences(engine: Engine) -> list[str]:
    """How the database differs from the tables of the code; empty when it is right."""
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        return [str(d) for d in compare_metadata(context, metadata)]
