"""What shared libraries ask for, read from the files themselves: the tools that tell are not on every machine."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_LOAD, _DYNAMIC = 1, 2  # types of segments
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29  # tags of the dynamic section


@dataclass(frozen=True)
class Asking:
    """needed: names of libraries. looks_in: folders where they are looked for before the system's."""

    needed: tuple[str, ...] = ()
    looks_in: tuple[Path, ...] = ()


def asking(path: Path) -> Asking:
    """Of a 64-bit little-endian ELF file; nothing for another file."""
    data = path.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        return Asking()
    segments = list(_segments(data))
    loads = [(start, start + size, offset) for kind, offset, start, size in segments if kind == _LOAD]
    tags = [
        struct.unpack_from("<qQ", data, at)
        for kind, offset, _, size in segments
        if kind == _DYNAMIC
        for at in range(offset, offset + size, 16)
    ]
    strings = next((value for tag, value in tags if tag == _STRINGS), None)
    if strings is None:
        return Asking()
    begin = next(strings - start + offset for start, end, offset in loads if start <= strings < end)
    folders = [
        Path(folder.replace("$ORIGIN", str(path.parent)).replace("${ORIGIN}", str(path.parent)))
        for tag, value in tags
        if tag in (_RPATH, _RUNPATH)
        for folder in _text(data, begin + value).split(":")
    ]
    return Asking(tuple(_text(data, begin + value) for tag, value in tags if tag == _NEEDED), tuple(folders))


def _segments(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """(type, offset in the file, address, size in the file)"""
    (table,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", data, at)
        yield kind, offset, address, length


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode()


def asked_of_the_system(folder: Path) -> dict[str, str]:
    """Libraries that files below the folder ask for and the folder does not bring, each with one that asks. Copies that
    a wheel brings have a hash in their name, and whoever asks for one by that name finds it loaded already."""
    files = [path for path in folder.rglob("*.so*") if path.is_file()]
    brought = {path.name for path in files if re.search(r"-[0-9a-f]{8}\b", path.name)}
    found = {}
    for path in files:
        its = asking(path)
        missing = [name for name in its.needed if not any((one / name).exists() for one in its.looks_in)]
        found |= {name: str(path.relative_to(folder)) for name in missing if name not in brought}
    return found
