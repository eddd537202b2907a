"""Where long verifications leave what they can go on from: a folder for each attempt, which begins with a copy of the
last one's. A worker that was thought dead and goes on writing spoils nobody's files but its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from sciagent.store.database.artifacts import ArtifactStore
from sciagent.verification.sandbox.scratch import remove_folder

_HOMES, _OF = "checkpoints", "fence-"


def scratch_of(artifacts: ArtifactStore) -> Path:
    """The folder beside the artifacts, on the same disk, where jobs of this ledger work."""
    root = artifacts.root
    return root.with_name(f"{root.name.removesuffix('-artifacts')}-scratch")


def home_of(scratch: Path, evidence_key: str) -> Path:
    """What all attempts under this key have left."""
    return scratch / _HOMES / evidence_key


def left_in(scratch: Path) -> set[str]:
    """The keys under which anything was left."""
    homes = scratch / _HOMES
    return {home.name for home in homes.iterdir()} if homes.is_dir() else set()


def folders_of(scratch: Path, attempts: Iterable[tuple[str, int]]) -> tuple[Path, ...]:
    """Those of attempts by evidence key and fence. Where nobody has left anything yet there is nothing to look for."""
    homes = scratch / _HOMES
    if homes.is_dir():
        return tuple(adopt(homes / key, fence) for key, fence in attempts)
    return tuple(homes.joinpath(key, f"{_OF}{fence}") for key, fence in attempts)


def adopt(home: Path, fence: int) -> Path:
    """The folder of the attempt under this fence, with what the one before it left, if it left anything."""
    mine = home / f"{_OF}{fence}"
    if not home.is_dir() or mine.exists():
        return mine
    before = max((n for one in home.iterdir() if (n := _fence(one)) < fence), default=-1)
    if before >= 0:
        partial = home / f".{mine.name}"
        remove_folder(partial)
        shutil.copytree(home / f"{_OF}{before}", partial, symlinks=True)
        partial.rename(mine)  # a copy is whole, or not under its name
    return mine


def _fence(folder: Path) -> int:
    number = folder.name.removeprefix(_OF)
    return int(number) if folder.name.startswith(_OF) and number.isdigit() and folder.is_dir() else -1
