"""Programs for tests: the mark for those that need xtb, and scripts that stand in for ORCA, Gaussian and CREST."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

needs_xtb = pytest.mark.usefixtures("xtb_program")
"""The mark of tests with the real xtb. Without it they fail: what was not run does not work."""

VERSIONS = {
    "orca": "                         Program Version 6.0.1  -  RELEASE  -",
    "g16": " Gaussian 16, Revision C.01,",
    "crest": "       Version 3.0.2, Tue Aug 20 2024",
}
ASKED = {"orca": '[ "$1" = --version ]', "g16": "! read -r line", "crest": '[ "$1" = --version ]'}


def put(folder: Path, command: str, does: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts an executable on the path that states its version if it is asked, and else does this (shell)."""
    folder.mkdir(exist_ok=True)
    file = folder / command
    file.write_text(f"#!/bin/sh\nif {ASKED[command]}; then echo '{VERSIONS[command]}'; exit 0; fi\n{does}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return file
