"""A consistent copy of a ledger that is in use, complete or absent."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from sqlalchemy.engine import URL

from sciagent.errors import LedgerError, UsageError


def back_up(url: URL, target: Path) -> None:
    """Write a copy, which gets its name only when it is complete.

    Raises UsageError if the target exists or there is no ledger, LedgerError if pg_dump is missing or fails.
    """
    if target.exists():
        raise UsageError(f"{target} is there already; a backup never overwrites one")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {target.parent}")
    partial = target.with_name(f"{target.name}.partial")
    partial.unlink(missing_ok=True)
    try:
        if url.get_backend_name() == "sqlite":
            _sqlite(Path(str(url.database)), partial)
        else:
            _postgresql(url, partial)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _sqlite(path: Path, target: Path) -> None:
    if not path.is_file():
        raise UsageError(f"no ledger at {path}")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(target)) as copy:
        source.backup(copy, pages=4096)


def _postgresql(url: URL, target: Path) -> None:
    """Copy by pg_dump, which reads a single snapshot. The command line has no password, since others can read it."""
    if shutil.which("pg_dump") is None:
        raise LedgerError("pg_dump is not installed here; it comes with PostgreSQL's client package")
    plain = url.set(drivername="postgresql", password=None)
    environment = os.environ | ({"PGPASSWORD": str(url.password)} if url.password else {})
    command = ["pg_dump", "--format=custom", "--file", str(target), "--dbname", plain.render_as_string(False)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise LedgerError(f"pg_dump failed: {done.stderr.strip()[-1000:]}")
