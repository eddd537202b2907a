"""A long simulation as a chain of pure steps, each of which leaves a file, so that a killed run goes on where it was.

Chunk 0 is the start. Chunk k is a function of the file of chunk k - 1 and of seeds, which derive from what is computed
(a key), from the replica and from k, and of nothing else. So a run that was killed and started again ends with the same
bits as one that was not, if the steps themselves are reproducible. The file of a chunk is written under the name
`NNN.tmp`, brought to the disk, and renamed to `NNN.zip`: a file of that name is complete. A run resumes by counting the
files; the chunk at which it was killed is lost. A chunk is a fixed amount of work and never a time, since other chunks
are another trajectory.

A file is a ZIP archive of named members with fixed dates; equal members give equal files. Its manifest names the chain,
so that files of another one are not continued.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import math
import os
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent_simulators.geometry_and_its_checks import failure

FORMAT = 1
MANIFEST = "manifest.json"
MAX_CHUNKS = 100_000
MAX_FILE = 1 << 30  # bytes of the members of a chunk
DAMAGED = (EOFError, KeyError, RuntimeError, zipfile.BadZipFile, zlib.error)  # of archives that cannot be read
READ_ONLY = 0o444  # a next attempt's folder then links the file instead of copying it
SAFETY = 1.2  # a chunk begins if the time to the deadline is this many times that of the longest so far

Members = Mapping[str, bytes]
"""The content of a chunk by the names of its parts."""
Progress = Callable[[float, float, str], None]
"""Takes `(done, of, text)`, amounts in chunks, at any rate."""


def _no_progress(done: float, of: float, text: str) -> None:
    """Ignores a report."""


@dataclass(frozen=True)
class ChunkPlace:
    """The place of a chunk in its chain, from which all its random numbers derive."""

    key: str
    """The name of the computation, such as the hash of an evidence key; the same key means the same trajectory."""
    replica: int
    number: int
    """0 for the start."""

    def seed(self, purpose: str) -> int:
        """Returns a seed from 1 to 2^31 - 1 for one of the chunk's sources of random numbers."""
        text = json.dumps([self.key, self.replica, self.number, purpose], separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).digest()
        return int.from_bytes(digest[:8], "big") % (2**31 - 1) + 1


Report = Callable[[float, str], None]
"""Takes the share of a chunk that is done, 0 to 1, and a text of at most 200 characters."""
Step = Callable[[ChunkPlace, Members | None, Report], Members]
"""Computes a chunk from its place and the content of the one before, which is None for chunk 0."""


@dataclass(frozen=True)
class ChunkChain:
    """A chain of `length` chunks after the start, whose files lie in a folder of its own."""

    folder: Path
    key: str
    replica: int
    length: int
    step: Step

    def __post_init__(self) -> None:
        if not 1 <= self.length <= MAX_CHUNKS:
            raise ValueError(f"a chain has 1 to {MAX_CHUNKS} chunks, not {self.length}")
        if self.replica < 0:
            raise ValueError(f"replicas are counted from 0, not {self.replica}")

    def place(self, number: int) -> ChunkPlace:
        """Returns the place of a chunk."""
        return ChunkPlace(self.key, self.replica, number)

    def path(self, number: int) -> Path:
        """Returns the file of a chunk, which may not exist."""
        return self.folder / f"{number:03d}.zip"

    def read(self, number: int) -> Members:
        """Returns the content of a chunk that is done.

        Raises SimulatorError crashed (bad_result) for a damaged file or one of another chain.
        """
        members = _unpacked(self.path(number), self.place(number))
        if members is None:
            raise failure(Reason.BAD_RESULT, f"{self.path(number).name} is missing, damaged or of another chain")
        return members

    def resume(self) -> int:
        """Returns the number of files that can be continued, 0 to length + 1, after removing all others.

        What is removed: unfinished files, files of another chain, and from the first missing or damaged one on all.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        n_done = 0
        while n_done <= self.length and _manifest(self.path(n_done)) == _expected_manifest(self.place(n_done)):
            n_done += 1
        while n_done and _unpacked(self.path(n_done - 1), self.place(n_done - 1)) is None:
            n_done -= 1
        kept = {self.path(number).name for number in range(n_done)}
        for path in self.folder.iterdir():
            if path.suffix in (".tmp", ".zip") and path.name not in kept:
                path.unlink()
        return n_done

    def run(self, progress: Progress = _no_progress, deadline: float = math.inf) -> Path:
        """Computes the chunks that are not done yet. Returns the file of the last one.

        progress: is called before, in and after each chunk, with amounts in chunks, the start included.
        deadline: time by `time.monotonic` before which to end. A chunk begins only if the time left suffices for the
        longest so far; the chunks that are done stay for a later run.

        Raises SimulatorError timeout (wall_limit), bad_environment (disk_full), and what the steps raise.
        """
        of = self.length + 1
        n_done = self.resume()
        longest = 0.0
        members = self.read(n_done - 1) if n_done else None
        progress(n_done, of, f"chunk {n_done} of {self.length} done" if n_done else "start")
        for number in range(n_done, of):
            began = time.monotonic()
            self._check_deadline(number, began + SAFETY * longest, deadline)

            def report(share: float, text: str, number: int = number) -> None:
                progress(number + min(max(share, 0.0), 1.0), of, text)

            members = self.step(self.place(number), members, report)
            write_chunk(self.path(number), self.place(number), members)
            longest = max(longest, time.monotonic() - began)
            progress(number + 1, of, f"chunk {number} of {self.length} done")
        return self.path(self.length)

    def _check_deadline(self, number: int, would_end: float, deadline: float) -> None:
        if would_end >= deadline:
            raise failure(
                Reason.WALL_LIMIT,
                f"stopped before chunk {number} of {self.length}, which would not end in time; a later run goes on",
                chunks_done=number,
                chunks=self.length + 1,
            )


def write_chunk(path: Path, place: ChunkPlace, members: Members) -> None:
    """Writes the file of a chunk, which exists after this with its whole content or not at all.

    Raises SimulatorError bad_environment (disk_full), ValueError for members that are too large or named as the
    manifest.
    """
    content = _packed(place, members)
    unfinished = path.with_suffix(".tmp")
    try:
        with unfinished.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        unfinished.chmod(READ_ONLY)
        unfinished.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise failure(Reason.DISK_FULL, f"{path.name}, {len(content)} bytes, does not fit on the disk") from error
        raise


def saved_array(values: NDArray[Any]) -> bytes:
    """Returns an array in NumPy's format, as the content of a member."""
    buffer = io.BytesIO()
    np.save(buffer, values, allow_pickle=False)
    return buffer.getvalue()


def loaded_array(members: Members, name: str) -> NDArray[Any]:
    """Returns the array that the member `name.npy` holds."""
    array: NDArray[Any] = np.load(io.BytesIO(members[f"{name}.npy"]), allow_pickle=False)
    return array


def _sync_folder(folder: Path) -> None:
    """Brings the names of a folder's files to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _expected_manifest(place: ChunkPlace) -> bytes:
    fields = {"format": FORMAT, "key": place.key, "replica": place.replica, "number": place.number}
    return json.dumps(fields, sort_keys=True).encode()


def _packed(place: ChunkPlace, members: Members) -> bytes:
    """Returns the archive of a chunk; equal members give equal bytes."""
    size = sum(map(len, members.values()))
    if size > MAX_FILE or MANIFEST in members:
        raise ValueError(f"a chunk of {size} bytes with the members {sorted(members)} cannot be written")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in {MANIFEST: _expected_manifest(place), **members}.items():
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    return buffer.getvalue()


def _manifest(path: Path) -> bytes | None:
    """Returns the manifest of a chunk's file; None without a file or for one that is no archive with a manifest."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(MANIFEST) as file:
            return file.read(10_000)
    except (FileNotFoundError, *DAMAGED):
        return None


def _unpacked(path: Path, place: ChunkPlace) -> Members | None:
    """Returns the members of a chunk's file; None for one that is missing, damaged, too large, or of another chain."""
    if _manifest(path) != _expected_manifest(place):
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename != MANIFEST]
            if sum(entry.file_size for entry in entries) > MAX_FILE:
                return None
            return {entry.filename: archive.read(entry) for entry in entries}  # checks the CRC of each
    except DAMAGED:
        return None
