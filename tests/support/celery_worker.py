"""A Celery worker whose jobs are files of a folder: `python -m tests.support.celery_worker '{"json": "settings"}'`.

A job is a file `todo/NAME` that holds how many seconds it takes; it is claimed by its renaming to `running/NAME`, and
ends as `done/NAME` with the owner of the slot inside. `died` gets a line for each slot that died.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

from sciagent.execution.celery import worker as celery_worker
from sciagent.store.database.ledger import Ledger
from sciagent.store.job_queue.workers_and_capacity import NewWorker


class Folder:
    """Where jobs lie."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in ("todo", "running", "done", "closed"):
            (root / name).mkdir(exist_ok=True)

    def put(self, name: str, seconds: float = 0.0) -> None:
        (self.root / "new").write_text(str(seconds))
        (self.root / "new").rename(self.root / "todo" / name)

    def names(self, state: str) -> list[str]:
        return sorted(one.name for one in (self.root / state).iterdir())


class FolderRunner:
    """Runs one job at a time; what is stopped goes back to `todo`."""

    campaigns: frozenset[int] = frozenset()

    def __init__(self, root: Path, owner: str) -> None:
        self._root, self._owner = root, owner
        self._stop = threading.Event()

    def run_next(self) -> int:
        for path in sorted((self._root / "todo").iterdir()):
            mine = self._root / "running" / path.name
            try:
                path.rename(mine)
            except FileNotFoundError:
                continue
            (self._root / "owners").mkdir(exist_ok=True)
            (self._root / "owners" / path.name).write_text(self._owner)
            if self._stop.wait(float(mine.read_text())):
                mine.rename(path)
                return 0
            mine.write_text(self._owner)
            mine.rename(self._root / "done" / path.name)
            return 1
        return 0

    def stop(self) -> None:
        self._stop.set()

    def close(self) -> None:
        (self._root / "closed" / self._owner.replace("/", "_")).touch()


def main(said: dict[str, Any]) -> None:
    logging.basicConfig(level=logging.INFO)
    root = Path(said.pop("folder"))
    celery_worker.SOFT_SECONDS = said.get("soft_seconds", celery_worker.SOFT_SECONDS)
    celery_worker.Runner = lambda ledger, owner, *given, **named: FolderRunner(root, owner)  # type: ignore
    new = NewWorker(said["name"], "here", os.getpid(), "celery", tuple(said["queues"]), said["slots"])
    celery_worker.serve(Ledger(said["ledger_url"]), said["broker_url"], new, root)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
