"""Makes text from models, engines and files safe to store and to show. No other module replaces characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_TEXT = 4000  # characters of a text from a verifier
MAX_OBSERVATION = 2000  # characters of what a model reads at once
SHORTEST_SECRET = 8
"""Length in characters; a shorter text is not a provider's key and may be an ordinary word."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def storable(text: str) -> str:
    """Replaces null characters and lone surrogates, which PostgreSQL and UTF-8 do not allow, by U+FFFD."""
    return text if text.isprintable() else _UNSTORABLE.sub(REPLACEMENT, text)


def read_id(text: str) -> int | None:
    """Returns the number of a row of the ledger, such as that of a task; None for any other text.

    `str.isdigit` alone also allows signs that `int` does not read, such as a superscript two."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 18 else None


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Replaces every control character except tab and line feed by U+FFFD, and cuts the text to `limit` characters."""
    return cut(_CONTROL.sub(REPLACEMENT, text), limit)


def cut(text: str, limit: int) -> str:
    """Returns the text, cut at `limit` characters; `…` ends a text that was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escaped(text: str) -> str:
    """Replaces control, format, private-use and surrogate characters and all separators but a space by \\uXXXX."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == " " or unicodedata.category(c)[0] not in "CZ" else _code(c) for c in text)


def short(text: str, limit: int = 60) -> str:
    """Returns the text on one line, cut at `limit` characters."""
    return cut(escaped(text[: limit + 1]), limit)


def one_line(text: str, limit: int) -> str:
    """Returns the text cut as by `short`, with each run of white space replaced by one space."""
    return short(" ".join(text[: 4 * limit].split()), limit)


def shown(value: object, limit: int = 60) -> str:
    """Returns a value for a message: quoted if it is a text, cut at `limit` characters."""
    return f'"{short(value, limit)}"' if isinstance(value, str) else short(repr(value), limit)


def bounded(text: str) -> str:
    """Returns text of several lines, escaped line by line, cut at MAX_OBSERVATION characters."""
    lines = "\n".join(escaped(line) for line in text[: 4 * MAX_OBSERVATION].split("\n"))
    return lines if len(lines) <= MAX_OBSERVATION else lines[: MAX_OBSERVATION - 6] + "… cut"


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def without_secrets(text: str, secrets: Iterable[str | None]) -> str:
    """Replaces each secret of at least SHORTEST_SECRET characters by `[secret]`."""
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[secret]")
    return text
