"""What a model wrote, made safe to show, to store and to read back."""

from __future__ import annotations

import unicodedata

MAX_TEXT = 2000  # characters of an observation


def escaped(text: str) -> str:
    """Control, format, private and surrogate characters and odd line breaks as \\uXXXX; the rest as it is."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == " " or unicodedata.category(c)[0] not in "CZ" else _code(c) for c in text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def short(text: str, limit: int = 60) -> str:
    """The text on one line, cut."""
    cut = escaped(text[: limit + 1])
    return cut if len(cut) <= limit else cut[: limit - 1] + "…"


def shown(value: object, limit: int = 60) -> str:
    """A value as a model would recognise it."""
    return f'"{short(value, limit)}"' if isinstance(value, str) else short(repr(value), limit)


def bounded(text: str) -> str:
    """Several lines, escaped line by line, at most MAX_TEXT characters."""
    lines = "\n".join(escaped(line) for line in text[: 4 * MAX_TEXT].split("\n"))
    return lines if len(lines) <= MAX_TEXT else lines[: MAX_TEXT - 6] + "… cut"
