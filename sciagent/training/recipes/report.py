"""The report of a recipe's run: its stages, their evaluations, and the curves of all steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sciagent.report.page.training import curve_of, write_training_report
from sciagent.training.learner.state import METRICS
from sciagent.training.progress import StageAnswer

RUN = "run"  # folder of the training run in that of its stage


def write_report(out: Path, recipe: str, stages: Sequence[StageAnswer]) -> None:
    """Writes `report.html` into the folder of the run."""
    places = {path.name.partition("-")[2]: path for path in sorted(out.iterdir()) if path.is_dir()}
    runs = [curve_of(stage.stage, places[stage.stage] / RUN / METRICS) for stage in stages if stage.policy is not None]
    write_training_report(out, recipe, runs, stages)
