"""Opens input files: only regular files; gzip files are unpacked within limits."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, cast

from sciagent.errors import InputFileError

MAX_RATIO = 250
"""Largest number of unpacked bytes per packed byte. Tables of molecules have 5 to 20, a file of zeros has 1,000."""
RATIO_FREE = 32 << 20
"""Number of unpacked bytes up to which every ratio is allowed."""
MAX_UNPACKED = 64 << 30
"""Largest number of unpacked bytes of a file."""
BUFFER_BYTES = 1 << 17
"""Number of bytes that are unpacked at a time."""


def open_input(path: Path) -> BinaryIO:
    """Opens a file for reading bytes; a file that ends in .gz is unpacked while it is read.

    Raises InputFileError if it cannot be opened or is not a regular file, since a device or a pipe may never end.
    Reading raises InputFileError if a .gz file is damaged or exceeds the limits.
    """
    try:
        # without O_NONBLOCK, opening a pipe would wait for its writer
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise InputFileError(f"{path}:1:1: cannot be read: {error.strerror or error}") from None
    except ValueError:  # a null character in the name
        raise InputFileError(f"{str(path)!a} is no name of a file") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise InputFileError(f"{path}:1:1: not a regular file")
    file = os.fdopen(descriptor, "rb")
    if path.suffix.lower() != ".gz":
        return file
    return cast(BinaryIO, io.BufferedReader(_Unpacked(file, path, packed=status.st_size), BUFFER_BYTES))


class _Unpacked(io.RawIOBase):
    """The unpacked content of a gzip file; counts the bytes against the limits. packed: number of bytes of the file."""

    def __init__(self, file: BinaryIO, path: Path, packed: int) -> None:
        self._file = file
        self._content = gzip.GzipFile(fileobj=file)
        self._path = path
        self._limit = min(MAX_UNPACKED, max(RATIO_FREE, MAX_RATIO * packed))
        self._total = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        try:
            piece = self._content.read(len(view))
        except (OSError, EOFError, zlib.error) as error:
            raise InputFileError(f"{self._path}:1:1: cannot be unpacked: {error}") from error
        self._total += len(piece)
        if self._total > self._limit:
            raise InputFileError(f"{self._path}:1:1: unpacks to more than {self._limit} bytes")
        view[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        super().close()
        self._content.close()
        self._file.close()
