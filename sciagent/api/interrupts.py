"""What Ctrl-C, an interrupted notebook cell and SIGTERM do to a campaign that runs in this process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def each_signal(*steps: Callable[[], None], last: Callable[[], None]) -> Iterator[None]:
    """The first SIGINT or SIGTERM takes the first step, the second the next step, and each further signal calls `last`.

    Only the main thread receives signals: in any other thread nothing is changed.
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
