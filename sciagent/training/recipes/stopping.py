"""Ends a run of a recipe from another thread, whatever it does at the moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event


class Stopping:
    """Knows whether the run has to end, and how to end what it does."""

    def __init__(self) -> None:
        self.event = Event()
        self._end: Callable[[], object] | None = None

    def stop(self) -> None:
        """Ends the run as soon as nothing is lost. May be called from any thread."""
        self.event.set()
        if self._end is not None:
            self._end()

    @property
    def is_set(self) -> bool:
        return self.event.is_set()

    @contextmanager
    def during(self, end: Callable[[], object]) -> Iterator[None]:
        """Holds the function that ends what is done in the `with` block."""
        self._end = end
        try:
            if self.is_set:
                end()
            yield
        finally:
            self._end = None


class Interrupted(Exception):
    """The run has to end; what is done so far is kept."""
