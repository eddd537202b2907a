"""A spool, and the marks that an element leaves in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.execution.slurm.array_folders_submission_and_polling import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    found = Spool(str(tmp_path))
    found.write([0], "")
    return found


def leave(spool: Spool, code: int, warned: bool = False, stopped: bool = False) -> None:
    """As the script does."""
    if warned:
        (spool.folder / "warned.0").touch()
    text = json.dumps({"code": code, "warned": warned, "stopped": stopped})
    (spool.folder / "exit.0").write_text(text + "\n")
