"""Structures on the command line: a text, or the name of a file that holds one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sciagent.errors import UsageError

FILES = (".cif", ".vasp", ".poscar", ".xyz", ".extxyz", ".json")
MAX_BYTES = 1_000_000


def structure(text: str) -> str:
    """Returns the content of the file that a text names, or the text itself if it names none.

    Raises UsageError for a file that does not exist, is too large, or holds no text."""
    path = Path(text)
    if not (path.name.startswith(("POSCAR", "CONTCAR")) or path.suffix.lower() in FILES):
        return text
    if "\n" in text:
        return text
    try:
        if not path.is_file():
            raise UsageError(f'no such file: "{text}"')
        if path.stat().st_size > MAX_BYTES:
            raise UsageError(f"{path} has more than {MAX_BYTES} bytes; give the structures of a large file with --file")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def structures(texts: Iterable[str] | None) -> list[str]:
    """Returns the structures of several texts, as `structure` does."""
    return [structure(text) for text in texts or ()]
