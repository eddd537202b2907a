"""Text that is safe to store and to show, lengths of time as text, the check of http addresses, and paragraphs.

No other module replaces characters. A length of time is short: `42 s`, `3 min`, `5 h`, `2 d`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlsplit

MAX_TEXT = 4000  # characters of a text from a verifier
MAX_OBSERVATION = 2000  # characters of what a model reads at once
SHORTEST_SECRET = 8
"""Length in characters; a shorter text is not a provider's key and may be an ordinary word."""
MAX_ID_DIGITS = 17  # digits of a number that fits into 64 bits
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
KEPT_SPACES = " \u202f"
"""The spaces that `escaped` leaves: the common one, and the narrow one between thousands."""

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def storable(text: str) -> str:
    """Replaces null characters and lone surrogates, which PostgreSQL and UTF-8 do not allow, by U+FFFD."""
    return text if text.isprintable() else _UNSTORABLE.sub(REPLACEMENT, text)


def read_id(text: str) -> int | None:
    """Returns the number of a row of the ledger, such as a task's number; None for any other text.

    `str.isdigit` alone also allows signs that `int` does not read, such as a superscript two."""
    is_number = text.isascii() and text.isdigit()
    if not is_number or len(text) > MAX_ID_DIGITS:
        return None
    return int(text)


def clean(text: str, limit: int = MAX_TEXT) -> str:
    """Replaces every control character except tab and line feed by U+FFFD, and cuts the text to `limit` characters."""
    return cut(_CONTROL.sub(REPLACEMENT, text), limit)


def cut(text: str, limit: int) -> str:
    """Returns the text, cut at `limit` characters; `…` ends a text that was cut."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def escaped(text: str) -> str:
    """Replaces characters that could steer a terminal by their code, such as \\u001b.

    These are control, format, private-use and surrogate characters, and separators except `KEPT_SPACES`.
    """
    if text.isascii() and text.isprintable():
        return text
    characters = []
    for character in text:
        # the categories C are control, format, private use and surrogate; the categories Z are separators
        is_safe = character in KEPT_SPACES or unicodedata.category(character)[0] not in "CZ"
        characters.append(character if is_safe else _code(character))
    return "".join(characters)


def for_terminal(text: str) -> str:
    """Returns the text with all characters escaped that could steer a terminal; its lines and tabs stay."""
    return "\n".join("\t".join(escaped(piece) for piece in line.split("\t")) for line in text.split("\n"))


def short(text: str, limit: int = 60) -> str:
    """Returns the text on one line, cut at `limit` characters."""
    beginning = text[: limit + 1]  # enough, since escapes only lengthen it
    return cut(escaped(beginning), limit)


def one_line(text: str, limit: int) -> str:
    """Returns the text cut as by `short`, with each run of white space replaced by one space."""
    beginning = text[: 4 * limit]  # so that a huge text is not split as a whole
    return short(" ".join(beginning.split()), limit)


def shown(value: object, limit: int = 60) -> str:
    """Returns a value for a message: quoted if it is a text, cut at `limit` characters."""
    if isinstance(value, str):
        return f'"{short(value, limit)}"'
    return short(repr(value), limit)


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


UNITS = ((172_800, 86_400, "d"), (7200, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
"""(shortest time shown in the unit, length of the unit, its symbol), both in seconds, longest first."""


def duration(seconds: float) -> str:
    """Returns a length of time as text, such as `3 min`."""
    size, unit = _unit(seconds)
    return f"{seconds / size:.0f} {unit}"


def range_of(low: float, high: float) -> str:
    """Returns a range of times in seconds, such as `4 to 11 min`; a single time if both ends read the same."""
    first = duration(low)
    last = duration(high)
    if first == last:
        return f"about {last}"
    if _unit(low) == _unit(high):  # the unit is said once
        first, _ = first.split()
    return f"{first} to {last}"


def ago(now: datetime, then: datetime | None) -> str:
    """Returns the time from `then` to `now` as text; `0 s` if `then` is None or later than `now`."""
    if then is None:
        return duration(0.0)
    return duration(max(0.0, (now - then).total_seconds()))


def _unit(seconds: float) -> tuple[int, str]:
    """Returns the length in seconds and the name of the unit in which a time is shown."""
    for least, size, unit in UNITS:
        if seconds >= least:
            return size, unit
    raise ValueError(f"a negative time: {seconds}")


_ALLOWED = re.compile(r"[A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]+")  # RFC 3986, without the fragment


def address_fault(address: str) -> str:
    """Returns why the text is not a valid http address, or an empty string for a valid one."""
    if not re.match(r"https?://", address):
        return "it must begin with http:// or https://"
    if not _ALLOWED.fullmatch(address):
        invalid = next(character for character in address if not _ALLOWED.fullmatch(character))
        return f"an address cannot hold the character {invalid!a}"
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises ValueError for an invalid port
    except ValueError as error:
        return str(error)
    return "" if parts.hostname else "it names no server"


class Paragraph(NamedTuple):
    """A paragraph that is wrapped between words and indented; an empty paragraph is an empty line."""

    text: str
    depth: int = 1
    """Level of indentation, two spaces each; paragraphs of depth 0 are headings."""
    style: str = ""
