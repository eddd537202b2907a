"""The ledger as an object: it opens the database, begins transactions and holds the artifact store.

Artifacts are files under their SHA-256, in a folder beside the ledger.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from sciagent.errors import LedgerError
from sciagent.store.database import migrate_and_back_up
from sciagent.store.database.detect_and_rescue_lost_sqlite_file import LedgerFile
from sciagent.store.database.engine import connect, ledger_url, read_only, sqlite_path
from sciagent.store.database.evidence_secret import FILE_VARIABLE, OPTION, EvidenceSecret


class ArtifactStore:
    """Stores files as `root/ab/cdef…`. A file is complete or absent, and stored only once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
        """The path of an artifact, whether it exists or not. Raises LedgerError for a text that is no SHA-256."""
        if len(sha256) != 64 or not all(c in "0123456789abcdef" for c in sha256):
            raise LedgerError(f"{sha256!r} is no SHA-256")
        return self.root / sha256[:2] / sha256[2:]

    def put(self, source: Path) -> tuple[str, int]:
        """Copy a file into the store; returns (SHA-256, size in bytes). Safe against a kill at any moment."""
        self.root.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.root, prefix=".incoming-", delete=False) as write:
            partial = Path(write.name)
            try:
                with source.open("rb") as read:
                    shutil.copyfileobj(read, write)
                write.flush()
                os.fsync(write.fileno())
                size = write.seek(0, os.SEEK_END)
                write.seek(0)
                sha256 = hashlib.file_digest(write, "sha256").hexdigest()
            except BaseException:  # an interrupt, too, must leave no partial file
                partial.unlink(missing_ok=True)
                raise
        target = self.path(sha256)
        target.parent.mkdir(exist_ok=True)
        partial.replace(target)
        _sync_folder(target.parent)  # a power cut must not remove the file but keep the rows that name it
        return sha256, size

    def get(self, sha256: str) -> bytes:
        """The content of an artifact, checked against its hash. Raises LedgerError if it is missing or damaged."""
        try:
            content = self.path(sha256).read_bytes()
        except FileNotFoundError as error:
            raise LedgerError(f"artifact {sha256} is missing from {self.root}") from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise LedgerError(f"artifact {sha256} is damaged")
        return content


def _sync_folder(folder: Path) -> None:
    """Writes the entries of a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def artifacts_folder(path: Path | None) -> Path:
    """The folder of artifacts of a ledger that names no other. path: the SQLite file; None for PostgreSQL."""
    return path.with_name(f"{path.stem}-artifacts") if path else Path("sciagent-artifacts")


class Ledger:
    """An open ledger at the code's revision.

    copy_taken: path of the copy of a SQLite file before its upgrade, or None. idle_seconds: see `engine.connect`.
    """

    def __init__(self, url: str, artifacts: Path | None = None, idle_seconds: float | None = None) -> None:
        self.url = ledger_url(url)
        self.engine: Engine = connect(self.url, idle_seconds)
        self.copy_taken = migrate_and_back_up.ensure(self.engine)
        path = sqlite_path(self.engine)
        self.artifacts = ArtifactStore(artifacts or artifacts_folder(path))
        self.secret = EvidenceSecret(self.artifacts.root)
        self.engine.update_execution_options(**{OPTION: self.secret})
        self._file = None if path is None else LedgerFile(path, self.engine)

    def begin(self) -> AbstractContextManager[Connection]:
        """A write transaction: committed whole, or not at all. Raises LedgerReplacedError if the file of the ledger is
        no longer at its path; nothing is written then."""
        if self._file is not None:
            self._file.check()
        return self.engine.begin()

    def read(self) -> AbstractContextManager[Connection]:
        """A read transaction: it sees a single snapshot, never waits for a writer and cannot write."""
        return read_only(self.engine)

    @property
    def is_mine_alone(self) -> bool:
        """Whether it is a SQLite file of this process's user, into which nobody else may write."""
        path = sqlite_path(self.engine)
        if path is None:
            return False
        status = path.stat()
        may_others_write = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
        return status.st_uid == os.geteuid() and not may_others_write

    def environment(self) -> dict[str, str]:
        """Returns the environment of a child process that works on this ledger.

        The address may hold a password. It is passed on in a variable and never as an argument, since every user of
        the machine can list the arguments of a process.
        """
        variables = os.environ | {"SCIAGENT_LEDGER": self.url.render_as_string(hide_password=False)}
        variables.pop("SCIAGENT_LEDGER_FILE", None)  # this variable may not be set together with SCIAGENT_LEDGER
        variables["SCIAGENT_ARTIFACTS"] = str(self.artifacts.root.resolve())
        if variables.get(FILE_VARIABLE):  # the secret itself is in no variable
            variables[FILE_VARIABLE] = str(self.secret.path.resolve())
        return variables

    def close(self) -> None:
        self.engine.dispose()
        if self._file is not None:
            self._file.close()
