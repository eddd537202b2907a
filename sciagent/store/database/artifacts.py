"""Artifacts: files under their SHA-256, in a folder beside the ledger."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from sciagent.errors import LedgerError


class ArtifactStore:
    """Stores files as `root/ab/cdef…`. A file is complete or absent, and stored only once."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, sha256: str) -> Path:
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
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
