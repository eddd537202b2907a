"""Scratch folders: quickly removed where they are empty, as most are."""

from __future__ import annotations

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
