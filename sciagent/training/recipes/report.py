"""Writes the report of a recipe's run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sciagent.domain.answers.training import StageAnswer


def write_report(out: Path, recipe: str, stages: Sequence[StageAnswer]) -> None:
    """Writes `report.html`."""
