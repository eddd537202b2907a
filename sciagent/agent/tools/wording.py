"""Shortens and escapes text of models and servers before a model reads it."""

from __future__ import annotations

from sciagent.domain.text import escaped

MAX_TEXT = 2000  # characters of an observation
MAX_COMPLAINTS = 6  # complaints about the arguments of one call


def short(text: str, limit: int = 60) -> str:
    """Returns the text on one line, cut at `limit` characters."""
    cut = escaped(text[: limit + 1])
    return cut if len(cut) <= limit else cut[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """Returns the text cut as by `short`, with each run of white space replaced by one space."""
    return short(" ".join(text[: 4 * limit].split()), limit)


def shown(value: object, limit: int = 60) -> str:
    """Returns a value for a message: quoted if it is a text, cut at `limit` characters."""
    return f'"{short(value, limit)}"' if isinstance(value, str) else short(repr(value), limit)


def bounded(text: str) -> str:
    """Returns text of several lines, escaped line by line, cut at MAX_TEXT characters."""
    lines = "\n".join(escaped(line) for line in text[: 4 * MAX_TEXT].split("\n"))
    return lines if len(lines) <= MAX_TEXT else lines[: MAX_TEXT - 6] + "… cut"
