"""The page of a training run: its stages, their evaluations, and the curves, in one HTML file without scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from sciagent.report.page.build import environment
from sciagent.report.page.writer import replace_text
from sciagent.report.parts.training_charts import TrainingCurve, evaluation_chart, training_charts
from sciagent.training.progress import StageAnswer, TrainedStep

FILE = "report.html"


def curve_of(name: str, metrics: Path) -> TrainingCurve:
    """Reads the steps of a run from its `metrics.jsonl`; a last line that was cut by a kill is left out."""
    steps = list[TrainedStep]()
    for line in metrics.read_text(encoding="utf-8").splitlines() if metrics.is_file() else ():
        try:
            steps.append(TrainedStep.model_validate(json.loads(line)))
        except ValueError:
            break
    return TrainingCurve(name, steps)


def write_training_report(
    folder: Path, title: str, runs: Sequence[TrainingCurve], stages: Sequence[StageAnswer] = ()
) -> Path:
    """Writes `report.html` into the folder of a run. stages: of a recipe. Returns the file."""
    shown = [run for run in runs if run.steps]
    text = (
        environment()
        .get_template("training.html.j2")
        .render(
            campaign=title,
            runs=shown,
            stages=stages,
            evaluation=evaluation_chart(stages),
            charts=training_charts(shown),
        )
    )
    replace_text(folder / FILE, text)
    return folder / FILE
