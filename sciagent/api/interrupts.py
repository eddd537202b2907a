"""Handling of Ctrl-C, an interrupted notebook cell and SIGTERM while a campaign runs in this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def each_signal(*steps: Callable[[], None], last: Callable[[], None]) -> Iterator[None]:
    """Calls the first step at the first SIGINT or SIGTERM, the next step at the next, and then `last` at each.

    In a thread other than the main thread it does nothing, since only the main thread receives signals.
    """
    left = list(steps)

    def on_signal(number: int, frame: FrameType | None) -> None:
        left.pop(0)() if left else last()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def raise_interrupt() -> None:
    raise KeyboardInterrupt
