"""Checkpoints of long verifications: a folder for each attempt, which begins with a copy of the last one's. A worker
that was taken for dead and goes on writing changes only its own files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from sciagent.store.database.artifacts import ArtifactStore
from sciagent.verification.sandbox.scratch import remove_folder

_HOMES, _PREFIX = "checkpoints", "fence-"


def scratch_of(artifacts: ArtifactStore) -> Path:
    """The folder beside the artifacts, on the same disk, where jobs of this ledger work."""
    root = artifacts.root
    return root.with_name(f"{root.name.removesuffix('-artifacts')}-scratch")


def home_of(scratch: Path, evidence_key: str) -> Path:
    """The folder of all attempts under this key."""
    return scratch / _HOMES / evidence_key


def left_in(scratch: Path) -> set[str]:
    """The keys under which anything was left."""
    homes = scratch / _HOMES
    return {home.name for home in homes.iterdir()} if homes.is_dir() else set()


def folders_of(scratch: Path, attempts: Iterable[tuple[str, int]]) -> tuple[Path, ...]:
    """The folders of attempts, by evidence key and fence."""
    return tuple(adopt(home_of(scratch, key), fence) for key, fence in attempts)


def adopt(home: Path, fence: int) -> Path:
    """The folder of the attempt under this fence, with a copy of what the attempt before it left."""
    mine = home / f"{_PREFIX}{fence}"
    if not home.is_dir() or mine.exists():
        return mine
    fences = [int(path.name.removeprefix(_PREFIX)) for path in home.glob(f"{_PREFIX}*")]
    before = max((number for number in fences if number < fence), default=None)
    if before is not None:
        partial = home / f".{mine.name}"
        remove_folder(partial)
        shutil.copytree(home / f"{_PREFIX}{before}", partial, symlinks=True)
        partial.rename(mine)  # only a complete copy has the name
    return mine
