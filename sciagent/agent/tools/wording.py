"""Cuts and escapes text that a model or a server wrote, before it is shown to a model."""

from __future__ import annotations

from sciagent.domain.text import escaped

MAX_TEXT = 2000  # characters of an observation
MAX_COMPLAINTS = 6  # about the arguments of a call


def short(text: str, limit: int = 60) -> str:
    """The text on one line, cut at `limit` characters."""
    cut = escaped(text[: limit + 1])
    return cut if len(cut) <= limit else cut[: limit - 1] + "…"


def one_line(text: str, limit: int) -> str:
    """As `short`, with a single blank for white space."""
    return short(" ".join(text[: 4 * limit].split()), limit)


def shown(value: object, limit: int = 60) -> str:
    """A value as the model wrote it."""
    return f'"{short(value, limit)}"' if isinstance(value, str) else short(repr(value), limit)


def bounded(text: str) -> str:
    """Text of several lines, escaped line by line, cut at MAX_TEXT characters."""
    lines = "\n".join(escaped(line) for line in text[: 4 * MAX_TEXT].split("\n"))
    return lines if len(lines) <= MAX_TEXT else lines[: MAX_TEXT - 6] + "… cut"
