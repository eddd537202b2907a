"""Checkpoints of long verifications. Each attempt has its own folder, which starts as a copy of the previous attempt's.
A worker that lost its lease and still writes changes only its own files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from sciagent.store.database.artifacts import ArtifactStore
from sciagent.verification.sandbox.scratch import remove_folder

_HOMES, _PREFIX = "checkpoints", "fence-"


def scratch_of(artifacts: ArtifactStore) -> Path:
    """The scratch folder for jobs of this ledger, beside the artifacts and on the same disk."""
    root = artifacts.root
    return root.with_name(f"{root.name.removesuffix('-artifacts')}-scratch")


def home_of(scratch: Path, evidence_key: str) -> Path:
    """The folder of the checkpoints of all attempts under this evidence key."""
    return scratch / _HOMES / evidence_key


def left_in(scratch: Path) -> set[str]:
    """The evidence keys that have checkpoints."""
    homes = scratch / _HOMES
    return {home.name for home in homes.iterdir()} if homes.is_dir() else set()


def folders_of(scratch: Path, attempts: Iterable[tuple[str, int]]) -> tuple[Path, ...]:
    """The checkpoint folder of each attempt. attempts: (evidence key, fence)."""
    return tuple(adopt(home_of(scratch, key), fence) for key, fence in attempts)


def adopt(home: Path, fence: int) -> Path:
    """Returns the folder of the attempt with this fence. A new folder is a copy of the previous attempt's, if any."""
    folder = home / f"{_PREFIX}{fence}"
    if not home.is_dir() or folder.exists():
        return folder
    fences = [int(path.name.removeprefix(_PREFIX)) for path in home.glob(f"{_PREFIX}*")]
    before = max((number for number in fences if number < fence), default=None)
    if before is not None:
        partial = home / f".{folder.name}"
        remove_folder(partial)
        shutil.copytree(home / f"{_PREFIX}{before}", partial, symlinks=True)
        partial.rename(folder)  # only a complete copy gets the final name
    return folder
