"""A SQLite ledger whose file is deleted, replaced or cut short while a process has it open."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.errors import LedgerReplacedError
from sciagent.store.database import tables as t
from sciagent.store.database.engine import db_now
from sciagent.store.database.ledger import Ledger

N_EVENTS = 500


@pytest.fixture
def path(migrated_sqlite: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(migrated_sqlite, tmp_path / "l.db"))


@pytest.fixture
def open_ledger(path: Path) -> Iterator[Ledger]:
    """An open ledger with 500 events."""
    with closing(Ledger(str(path))) as ledger:
        with ledger.begin() as connection:
            write_events(connection)
        yield ledger


def write_events(connection: Connection) -> None:
    event = {"kind": "test", "payload": {"text": "x" * 200}, "at": db_now(connection)}
    connection.execute(sa.insert(t.event), [event] * N_EVENTS)


def n_events(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])


def delete(path: Path) -> None:
    for file in path.parent.glob("l.db*"):
        file.unlink()


def replace_by_another(path: Path) -> None:
    other = path.with_name("other.db")
    sqlite3.connect(other).close()
    other.rename(path)


def replace_by_a_copy(path: Path) -> None:
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").rename(path)


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (delete, "deleted or moved"),
        (replace_by_another, "replaced by another"),
        (replace_by_a_copy, "replaced by another"),
    ],
)
def test_the_next_write_says_that_the_file_is_gone_and_copies_what_it_held(
    open_ledger: Ledger, path: Path, harm: Callable[[Path], None], word: str
) -> None:
    harm(path)
    with pytest.raises(LedgerReplacedError) as caught:
        open_ledger.begin()
    copy = path.with_name(f"l.db.rescued-{os.getpid()}")
    assert f"{path} was {word}" in str(caught.value) and f"mv {copy} {path}" in str(caught.value)
    assert n_events(copy) == N_EVENTS
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with pytest.raises(LedgerReplacedError) as again:
        open_ledger.begin()
    assert str(again.value) == str(caught.value), "it is copied once"


def test_a_transaction_that_has_begun_is_in_the_copy(open_ledger: Ledger, path: Path) -> None:
    noticed = threading.Event()

    def write() -> None:
        try:
            open_ledger.begin()
        except LedgerReplacedError:
            noticed.set()

    with open_ledger.begin() as connection:
        write_events(connection)
        delete(path)
        thread = threading.Thread(target=write)
        thread.start()
        assert not noticed.wait(0.3)
    thread.join(timeout=20)
    assert noticed.is_set() and n_events(path.with_name(f"l.db.rescued-{os.getpid()}")) == 2 * N_EVENTS


def test_no_empty_file_is_made_in_place_of_a_deleted_ledger(open_ledger: Ledger, path: Path) -> None:
    with open_ledger.read():  # so that the next one needs another connection
        delete(path)
        with pytest.raises(LedgerReplacedError, match="It was copied to"), open_ledger.read() as connection:
            connection.execute(sa.select(t.event.c.id)).all()
    assert not path.exists()


def test_a_file_that_is_cut_short_is_noticed(open_ledger: Ledger, path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint")
    with open_ledger.begin():
        pass
    os.truncate(path, 4096)
    with pytest.raises(LedgerReplacedError, match="was cut short"):
        open_ledger.begin()


def test_a_vacuum_is_no_fault(open_ledger: Ledger, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE filler AS SELECT zeroblob(1000000) AS x")
        connection.execute("PRAGMA wal_checkpoint")
        with open_ledger.begin():
            pass
        size = path.stat().st_size
        connection.execute("DROP TABLE filler")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert path.stat().st_size < size - 900_000
    with open_ledger.begin() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(t.event)).scalar_one() == N_EVENTS
