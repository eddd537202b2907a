"""Fast removal of scratch folders, most of which are empty."""

from __future__ import annotations

import shutil
from pathlib import Path


def remove_folder(folder: Path) -> None:
    """Removes a folder with its content; raises nothing. An empty folder, the usual case, is removed without a walk."""
    try:
        folder.rmdir()
    except FileNotFoundError:
        return
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
