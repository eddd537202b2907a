"""The command line of sciagent, whose process is killed where it would write its second checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

from sciagent.cli.main import main
from sciagent.training.learner import run_state

calls: Iterator[int] = iter(range(1, 1000))
save = run_state.RunFolder.save


def killed(self: run_state.RunFolder, learner: Any, step: int) -> None:
    if next(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, learner, step)


if __name__ == "__main__":
    run_state.RunFolder.save = killed  # type: ignore[method-assign]
    main()
