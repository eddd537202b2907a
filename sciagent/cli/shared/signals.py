"""What Ctrl-C and SIGTERM do to a command that stays: step by step, and at last it ends at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from sciagent.api import interrupts
from sciagent.cli.shared.common import Exit


def each_signal(*steps: Callable[[], None]) -> AbstractContextManager[None]:
    """The first signal takes the first step, the next one the next; one that finds none left ends the process."""
    return interrupts.each_signal(*steps, last=end_at_once)


def end_at_once() -> None:
    """Without another word: what was started sees its pipe close, or dies with this process."""
    os._exit(Exit.INTERRUPTED)
