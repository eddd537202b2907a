"""Guards the file of an open SQLite ledger: a file that was deleted or replaced is noticed, and rescued by a copy."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from sciagent.errors import LedgerError, LedgerReplacedError
from sciagent.store.database.engine import BUSY_SECONDS


class LedgerFile:
    """The file of an open SQLite ledger. It is the same file as long as device and inode of its path stay the same.

    A deleted or replaced file lives on, unseen, while a process has it open: all that is written is gone when the last
    such process ends. So the first check that finds the file gone copies the ledger to a new file.

    This class opens the file only through SQLite, since closing any other handle of the file would release the locks
    that SQLite holds on it in this process.
    """

    def __init__(self, path: Path, engine: Engine) -> None:
        self._path = path
        self._fault = ""
        self._one_at_a_time = threading.Lock()
        self._spare = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=BUSY_SECONDS)
        """A connection outside the pool, whose connections may all be in use when the file has gone."""
        self._spare.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log as well
        self._opened = self._status()
        self._n_bytes = 0 if self._opened is None else self._opened.st_size
        event.listen(engine, "do_connect", self._before_connecting)

    def check(self) -> None:
        """Raises LedgerReplacedError if the file was deleted, replaced or cut short since it was opened."""
        if not self._fault and self._is_here() and not self._has_shrunk():
            return
        with self._one_at_a_time:
            if not self._fault and self._is_here() and not self._is_cut_short():
                return
            if not self._fault:
                self._fault = self._describe()
        raise LedgerReplacedError(self._fault)

    def close(self) -> None:
        self._spare.close()

    def _before_connecting(self, dialect: Any, record: Any, arguments: Any, options: Any) -> None:
        """Keeps the pool from creating an empty file at the path, and from opening the file that replaced the ledger.
        Raises LedgerReplacedError."""
        self.check()

    def _status(self) -> os.stat_result | None:
        """Returns the status of the file at the path; None if there is none."""
        try:
            return self._path.stat()
        except OSError:
            return None

    def _is_here(self) -> bool:
        """Returns whether the path still leads to the file that was opened."""
        present = self._status()
        return present is not None and self._opened is not None and os.path.samestat(present, self._opened)

    def _has_shrunk(self) -> bool:
        """Returns whether the file has become shorter since the last call; if not, its size is remembered."""
        present = self._status()
        n_bytes = 0 if present is None else present.st_size
        if n_bytes < self._n_bytes:
            return True
        self._n_bytes = n_bytes
        return False

    def _is_cut_short(self) -> bool:
        """Returns whether the file has shrunk and is shorter than its pages.

        After a VACUUM, which also shrinks the file, it is as long as its pages.
        """
        present = self._status()
        if present is None or not self._has_shrunk():
            return False
        [n_pages] = self._spare.execute("PRAGMA page_count").fetchone()
        [page_bytes] = self._spare.execute("PRAGMA page_size").fetchone()
        if present.st_size < n_pages * page_bytes:
            return True
        self._n_bytes = present.st_size
        return False

    def _describe(self) -> str:
        """Copies the ledger, and returns the message for people."""
        is_there = self._status() is not None
        if self._is_here():
            fault = "cut short"
        elif is_there:
            fault = "replaced by another file"
        else:
            fault = "deleted or moved"
        event_text = f"{self._path} was {fault} while this process had it open"
        try:
            copy = self._rescue()
        except (OSError, sqlite3.Error, LedgerError) as error:
            return f"{event_text}, and could not be copied ({error}). Go back to the last backup of sciagent db backup"
        aside = f"move {self._path} out of the way, " if is_there else ""
        return (
            f"{event_text}; nothing more is written to it, and what was written since then is in that file alone. "
            f"It was copied to {copy}. To go on: end all other processes of this ledger, {aside}remove "
            f"{self._path}-wal and {self._path}-shm if they exist, mv {copy} {self._path}, sciagent db check"
        )

    def _rescue(self) -> Path:
        """Copies the ledger through a connection that still has the file open. Returns the path of the copy."""
        copy = _new_private_file(self._path)
        try:
            with closing(sqlite3.connect(copy)) as target:
                with suppress(sqlite3.OperationalError):
                    self._spare.execute("BEGIN IMMEDIATE")  # waits for a transaction that another thread has begun
                    self._spare.execute("ROLLBACK")  # a connection in a write transaction cannot be copied
                self._spare.backup(target)
                [answer] = target.execute("PRAGMA quick_check(1)").fetchone()
            if answer != "ok":
                raise LedgerError(f"the copy is damaged: {answer}")
        except BaseException:
            copy.unlink(missing_ok=True)
            raise
        return copy


def _new_private_file(path: Path) -> Path:
    """Creates an empty file beside the path, or in the folder for temporary files if that one is gone as well."""
    name = f"{path.name}.rescued-{os.getpid()}"
    folder = path.parent if path.parent.is_dir() else Path(tempfile.gettempdir())
    os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    return folder / name
