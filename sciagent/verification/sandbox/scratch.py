"""Scratch folders: quickly removed where they are empty, as most are."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path


def remove_folder(folder: Path) -> None:
    """Most jobs leave nothing, and walking a tree takes longer than they do. Nothing is raised."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def empty_folder(folder: Path) -> None:
    """Leave the folder and nothing in it; what cannot be removed stays."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                remove_folder(Path(entry.path))
            else:
                Path(entry.path).unlink(missing_ok=True)
