"""Checkpoints of long verifications. Each attempt has its own folder, which starts as a copy of the previous attempt's.
A worker that lost its lease and still writes changes only its own files."""

from __future__ import annotations

import shutil
from pathlib import Path

from sciagent.store.database.artifacts import ArtifactStore


def scratch_of(artifacts: ArtifactStore) -> Path:
    """The scratch folder for jobs of this ledger, beside the artifacts and on the same disk."""
    root = artifacts.root
    return root.with_name(f"{root.name.removesuffix('-artifacts')}-scratch")


def home_of(scratch: Path, evidence_key: str) -> Path:
    """The folder of the checkpoints of all attempts under this evidence key."""
    return scratch / "checkpoints" / evidence_key


def folder_of(scratch: Path, evidence_key: str, fence: int) -> Path:
    """Returns the folder of the attempt with this fence. A new folder is a copy of the previous attempt's, if any."""
    home = home_of(scratch, evidence_key)
    folder = home / f"fence-{fence}"
    fences = [int(path.name.removeprefix("fence-")) for path in home.glob("fence-*")]
    before = max((number for number in fences if number < fence), default=None)
    if before is not None and not folder.exists():
        partial = home / f".{folder.name}"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(home / f"fence-{before}", partial, symlinks=True)
        partial.rename(folder)  # only a complete copy gets the final name
    return folder
