"""What Ctrl-C and SIGTERM do to a command that stays: step by step, and at last it ends at once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from sciagent.cli.shared.common import Exit


@contextmanager
def each_signal(*steps: Callable[[], None]) -> Iterator[None]:
    """The first signal takes the first step, the next one the next; who finds none left ends the process at once."""
    left = list(steps)

    def on_signal(number: int, frame: FrameType | None) -> None:
        left.pop(0)() if left else end_at_once()

    before = {one: signal.signal(one, on_signal) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_at_once() -> None:
    """Without another word: what was started sees its pipe close, or dies with this process."""
    os._exit(Exit.INTERRUPTED)
