"""Text that a model wrote, cut and escaped so that it can be shown to the model again."""

from __future__ import annotations

from sciagent.domain.text import escaped

MAX_TEXT = 2000  # characters of an observation


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
