"""Collects what RDKit logs, for the messages on molecules that it cannot read."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

_active = threading.local()


class _Catch(logging.Filter):
    """A filter that takes log records from a thread while it collects messages."""

    def filter(self, record: logging.LogRecord) -> bool:
        messages: list[str] | None = getattr(_active, "messages", None)
        if messages is None:
            return True
        text = record.getMessage().strip()
        if text.startswith("[") and "] " in text:  # RDKit writes the time in brackets before the message
            _, text = text.split("] ", 1)
        messages.append(text)
        return False


@cache
def _redirect() -> None:
    from rdkit import rdBase

    rdBase.LogToPythonLogger()
    logging.getLogger("rdkit").addFilter(_Catch())


@contextmanager
def rdkit_messages() -> Iterator[list[str]]:
    """Yields a list that receives this thread's RDKit messages, which are then not printed. May be nested.

    The first use sends RDKit's log to Python's logger `rdkit` for the rest of the process.
    """
    _redirect()
    before = getattr(_active, "messages", None)
    messages: list[str] = []
    _active.messages = messages
    try:
        yield messages
    finally:
        _active.messages = before
