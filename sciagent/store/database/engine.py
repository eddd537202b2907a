"""Database engines: SQLite in WAL mode with immediate transactions, PostgreSQL through psycopg 3.

All processes share the database's clock.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, Engine, ExceptionContext, make_url

from sciagent.errors import DiskFullError, LedgerAwayError, LedgerError, SchemaVersionError, UsageError
from sciagent.store.database.table_building_blocks import UtcDateTime

log = logging.getLogger(__name__)
BUSY_SECONDS = 15
LOCK_SECONDS = 60.0
"""Longest wait of a write transaction for the lock of a SQLite file."""
LOCK_WORD_SECONDS = 5.0
"""Time after which a write transaction says that it waits for the lock."""
CACHE_KIB = 65536  # page cache of a connection; the default, 2 MB, is too small for the inner pages of a large ledger

# pages of 4 KiB in the log before they are written into the file; with the default, 1000, each page of an index is
# written again for every few hundred rows
LOG_PAGES = 16384


# SQLite's result codes of statements that may succeed later
_SQLITE_AWAY = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL}
)
# parts of SQLite's messages about a table or a column that the ledger lacks
_SQLITE_SCHEMA = ("no such column", "no such table", "has no column named")

# beginnings of PostgreSQL's codes of statements that may succeed later: lost connections, no resources, shutdown, I/O
# errors, locks, deadlocks and idle timeouts
_SQLSTATE_AWAY = ("08", "53", "57P01", "57P02", "57P03", "57P05", "58030", "55P03", "40001", "40P01", "25P03")
_SQLSTATE_SCHEMA = ("42703", "42P01")  # undefined column, undefined table


def ledger_url(text: str) -> URL:
    """Returns the URL for a file path (SQLite) or a SQLAlchemy URL (SQLite or PostgreSQL). A password in its query is
    moved to `URL.password`, where messages hide it. Raises UsageError, which shows no password."""
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().resolve()))
    shown = f"{text.partition('://')[0]}://…"
    try:
        url = make_url(text)
    except (sa.exc.ArgumentError, ValueError):  # its text may quote the password
        raise UsageError(f'--ledger "{shown}" is neither a path nor a database URL') from None
    backend = url.get_backend_name()
    if backend == "postgresql":
        for password in url.normalized_query.get("password", ()):
            url = url.set(password=password)
        if "sslpassword" in url.query:
            raise UsageError(
                f'--ledger "{shown}": sslpassword would be shown to others; take a client key without a password, '
                "which only its owner can read"
            )
        return url.difference_update_query(["password"]).set(drivername="postgresql+psycopg")
    if backend != "sqlite" or not url.database or url.database == ":memory:":
        raise UsageError(f'--ledger "{shown}": give a file path, sqlite:///FILE or postgresql://USER@HOST/DATABASE')
    return url


def connect(url: URL, idle_seconds: float | None = None) -> Engine:
    """Returns an engine. On SQLite a write transaction takes the lock at its start (`BEGIN IMMEDIATE`).

    idle_seconds: PostgreSQL ends a transaction that is idle for this time, so that a frozen process does not block
    others; None for processes that compute during a transaction.
    """
    # the last used connection is used next, since a write through a connection empties the page caches of all others
    options: dict[str, Any] = {"pool_use_lifo": True}
    is_postgresql = url.get_backend_name() == "postgresql"
    if is_postgresql:
        # each connection is tested before it is used again, since a restarted server has dropped it
        options |= {"pool_pre_ping": True, "connect_args": {**_keepalive_options(idle_seconds), **url.query}}
    try:
        engine = sa.create_engine(url, **options)
    except ModuleNotFoundError as error:
        raise LedgerError("PostgreSQL needs an extra: pip install 'sciagent[postgres]'") from error
    event.listen(engine, "handle_error", _translate)
    if is_postgresql:
        return engine

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # `_on_begin` sends BEGIN
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
        _switch_to_wal(cursor)
        # a commit survives the kill of any process; a power cut may undo the last commits, but damages nothing
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        cursor.execute(f"PRAGMA wal_autocheckpoint={LOG_PAGES}")
        cursor.execute("PRAGMA foreign_keys=ON")
        # otherwise INSERT OR REPLACE deletes a row without firing the append-only triggers
        cursor.execute("PRAGMA recursive_triggers=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        read_only = bool(connection.get_execution_options().get("read_only"))
        connection.exec_driver_sql(f"PRAGMA query_only={int(read_only)}")
        if read_only:
            connection.exec_driver_sql("BEGIN")
        else:
            _begin_writing(connection)

    return engine


def _begin_writing(connection: Connection) -> None:
    """Begins a write transaction of SQLite, which waits for the lock of the file. Raises LedgerAwayError if another
    process holds it for `LOCK_SECONDS`."""
    database: Any = connection.connection.driver_connection
    began = time.monotonic()
    is_said = False
    database.execute(f"PRAGMA busy_timeout={int(1000 * LOCK_WORD_SECONDS)}")
    try:
        while True:
            try:
                database.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                path = connection.engine.url.database
                seconds = time.monotonic() - began
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    break
                if seconds > LOCK_SECONDS:
                    raise LedgerAwayError(
                        f"another process has held the lock of {path} for {seconds:.0f} s; lsof {path} says which one"
                    ) from error
                if not is_said:
                    log.warning("waits for the lock of %s, which another process holds", path)
                    is_said = True
    finally:
        database.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000}")
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # raises the error again, as `_translate` says it


def _translate(context: ExceptionContext) -> None:
    """Raises LedgerAwayError or SchemaVersionError in place of a database error with that meaning."""
    if context.is_pre_ping:
        return  # the pool makes another connection
    error = context.original_exception
    text = str(error).strip().split("\n", 1)[0]
    if _is_disk_full(error):
        raise DiskFullError(_full_disk(context.engine)) from error
    if context.is_disconnect or _is_away(error):
        raise LedgerAwayError(text) from error
    state = getattr(error, "sqlstate", None)
    if state in _SQLSTATE_SCHEMA or (state is None and any(fault in text for fault in _SQLITE_SCHEMA)):
        raise SchemaVersionError(
            f"the ledger has another schema than this sciagent expects: {text}; run: sciagent db upgrade, or install "
            "the version of sciagent that the others use"
        ) from error


def _is_disk_full(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL
    return getattr(error, "sqlstate", None) == "53100"


def _full_disk(engine: Engine | None) -> str:
    """Returns the message on the full disk of a ledger."""
    path = None if engine is None else sqlite_path(engine)
    if path is None:
        return "the disk of the database server is full; free some space there. What was recorded is kept"
    return (
        f"the disk that holds {path.parent} is full, where the ledger is; free some space there, at least the "
        f"{LOG_PAGES * 4 // 1024} MB that its log {path.name}-wal may need. What was recorded is kept"
    )


def _is_away(error: BaseException) -> bool:
    if isinstance(error, sqlite3.OperationalError):
        return error.sqlite_errorcode & 0xFF in _SQLITE_AWAY  # the lower byte is the primary code
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return str(state).startswith(_SQLSTATE_AWAY)
    # psycopg gives no state if there was no connection, or if it broke
    return type(error).__module__.startswith("psycopg") and any(
        base.__name__ in ("OperationalError", "InterfaceError") for base in type(error).__mro__
    )


def _keepalive_options(idle_seconds: float | None) -> Mapping[str, Any]:
    """Connection arguments that make both ends notice within half a minute that the other cannot be reached.

    With Linux's default, a disconnected machine would hold its locks for two hours.
    """
    alive = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
    patience = {"tcp_user_timeout": 25_000}
    server = {f"tcp_{name}": value for name, value in alive.items()} | patience
    if idle_seconds is not None:
        server["idle_in_transaction_session_timeout"] = int(1000 * idle_seconds)
    options = " ".join(f"-c {name}={value}" for name, value in server.items())
    return {"connect_timeout": 10, "options": options, **alive, **patience}


def _switch_to_wal(cursor: Any) -> None:
    """Switch a new file to WAL, and retry until it succeeds.

    Only a single process gets the lock for this, and SQLite does not wait for the lock, whatever its busy timeout.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def read_only(engine: Engine) -> Connection:
    """A connection whose transaction sees one snapshot, never waits for a writer, and cannot write."""
    if engine.dialect.name == "sqlite":
        return engine.connect().execution_options(read_only=True)
    return engine.connect().execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def sqlite_path(engine: Engine) -> Path | None:
    """The database file, or None for PostgreSQL."""
    return Path(str(engine.url.database)) if engine.dialect.name == "sqlite" else None


_clock_readings: WeakKeyDictionary[Connection, tuple[datetime, float]] = WeakKeyDictionary()
"""{connection: (server's time, local monotonic clock in seconds at the same moment)}."""


def db_now(connection: Connection) -> datetime:
    """The present time in UTC.

    PostgreSQL's clock is read once per transaction; the time since then is counted by the local clock. SQLite uses the
    machine's clock, since all its users are on the same machine.
    """
    if connection.dialect.name != "postgresql":
        return datetime.now(UTC)
    if connection not in _clock_readings:
        now = connection.execute(sa.select(sa.func.clock_timestamp())).scalar_one()
        _clock_readings[connection] = now.astimezone(UTC), time.monotonic()
    server_time, local_seconds = _clock_readings[connection]
    return server_time + timedelta(seconds=time.monotonic() - local_seconds)


def now_column(connection: Connection) -> sa.ColumnElement[datetime]:
    """The present time as a column, for a statement that also reads other things: the clock then needs no statement of
    its own."""
    if connection.dialect.name != "postgresql":
        return sa.literal(datetime.now(UTC), UtcDateTime())
    return sa.func.clock_timestamp(type_=UtcDateTime())
