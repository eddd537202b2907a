"""Text from models, engines and files, made safe to store and to show. No other module replaces characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_TEXT = 4000  # characters of a text that a verifier says
SHORTEST_SECRET = 8
"""Characters. What is shorter is no key that a provider gives out, and may well be an ordinary word."""
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def storable(text: str) -> str:
    """The text with U+FFFD for null characters and lone surrogates, which PostgreSQL and UTF-8 do not have."""
    return text if text.isprintable() else _UNSTORABLE.sub(REPLACEMENT, text)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """The text with U+FFFD for every control character but tab and line feed, cut to `limit` characters."""
    text = _CONTROL.sub(REPLACEMENT, text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escaped(text: str) -> str:
    """The text with \\uXXXX for control, format, private and surrogate characters and odd line breaks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c == " " or unicodedata.category(c)[0] not in "CZ" else _code(c) for c in text)


def _code(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def without_secrets(text: str, secrets: Iterable[str | None]) -> str:
    """The text with `[secret]` in place of each of the secrets that are long enough."""
    for secret in secrets:
        if secret and len(secret) >= SHORTEST_SECRET:
            text = text.replace(secret, "[secret]")
    return text
