"""The report of training runs: one HTML file without scripts, with their stages, evaluations and curves.

`training_charts` draws loss, reward, divergence, entropy and time by step, and `evaluation_chart` the evaluations by
stage. `write_training_report` writes the page of some runs; `write_report` writes the page of a recipe's run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from sciagent.domain.safe_text_and_durations import cut
from sciagent.report.page.html_page import environment, replace_text
from sciagent.report.parts.campaign_charts import COLOURS, LINES, figure, svg, with_chart_settings
from sciagent.training.command_answers import StageAnswer, TrainedStep
from sciagent.training.learner.run_state import METRICS

Points = Sequence[float | None]
"""A value for each step of some runs, one run after the other; None where a step has none."""
PHASES = {"sample": "sampling", "waited": "verification", "update": "update"}
"""Fields of `StepSeconds`, with their labels."""
COLOURS_OF_PHASES = ("passed", "failed", "refused")
SHARE = "share"  # label of an axis for values from 0 to 1
MIN_NAMED_SHARE = 0.14  # of the axis; a shorter run has no name above it
MAX_MARKED_STEPS = 30  # with more steps, lines have no markers


class TrainingCurve(NamedTuple):
    """The steps of one run."""

    name: str
    steps: Sequence[TrainedStep]

    @property
    def is_live(self) -> bool:
        """Whether the run rolled out its own rows while it trained."""
        return any(step.groups is not None for step in self.steps)


def training_charts(runs: Sequence[TrainingCurve]) -> list[tuple[str, str]]:
    """Returns pairs of a chart and its caption. Charts without a number are left out. runs: drawn in this order."""
    taught = [run for run in runs if not run.is_live]
    live = [run for run in runs if run.is_live]
    # rewards of live runs; if there are none, those that the rows of data sets state
    rewards = {"reward": _values(live or runs, lambda step: step.reward)}
    terms = {name: _values(live, partial(_term, name)) for name in _terms(live)}
    # of each chart: its runs, its lines, the label of its axis, its caption
    charts = [
        (taught, {"loss": _values(taught, lambda step: step.loss)}, "nats per token", "Loss on the rows of data sets"),
        (live, {"loss": _values(live, lambda step: step.loss)}, "loss", "Loss on the live ladder"),
        (live or runs, rewards | terms, "hits or utility", "Mean reward of an episode, and its parts"),
        (live, {"masked": _values(live, lambda step: step.masked)}, SHARE, "Share of tokens that were masked"),
        (runs, {"KL": _values(runs, lambda step: step.kl)}, "nats per token", "Divergence from the model at the start"),
        (runs, {"entropy": _values(runs, lambda step: step.entropy)}, "nats", "Entropy of the next token"),
    ]
    explained = {"explained": _values(runs, lambda step: step.explained_variance)}
    charts.append((runs, explained, SHARE, "Variance of what turns earned that the value head had foreseen"))
    drawn = []
    for runs_of_chart, lines, label, caption in charts:
        drawn.append((_by_step(runs_of_chart, lines, label, caption), caption))
    drawn.append((_time(runs), "Time of a step, by phase"))
    return [(chart, caption) for chart, caption in drawn if chart]


def _values(runs: Sequence[TrainingCurve], read: Callable[[TrainedStep], float | None]) -> Points:
    return [read(step) for run in runs for step in run.steps]


def _term(name: str, step: TrainedStep) -> float | None:
    return step.terms.get(name)


def _terms(runs: Sequence[TrainingCurve]) -> list[str]:
    """Returns the names of the parts of the reward, as many as a chart has lines for; no names if the reward has only
    one part, which is the reward itself."""
    names: dict[str, None] = {}
    for run in runs:
        for step in run.steps:
            names.update(dict.fromkeys(step.terms))
    if len(names) <= 1:
        return []
    return list(names)[: len(LINES) - 1]


@with_chart_settings
def _by_step(runs: Sequence[TrainingCurve], lines: Mapping[str, Points], label: str, title: str) -> str:
    """Draws lines against the steps of the runs, one after the other; empty without a number."""
    lines = {name: points for name, points in lines.items() if any(value is not None for value in points)}
    if not lines:
        return ""
    chart, axes = figure(4.6, 2.9)
    for (name, points), (colour, marker, dashes) in zip(lines.items(), LINES, strict=False):
        steps = [step for step, value in enumerate(points, 1) if value is not None]
        values = [value for value in points if value is not None]
        look = {"color": COLOURS[colour], "linestyle": dashes, "linewidth": 1.6, "markersize": 5}
        shown_marker = marker if len(points) <= MAX_MARKED_STEPS else ""
        axes.plot(steps, values, label=name, marker=shown_marker, **look)
    _steps(axes, runs)
    axes.set_ylabel(label)
    if label == SHARE:
        axes.set_ylim(0, max(0.01, axes.get_ylim()[1]))
    if len(lines) > 1:
        chart.legend(loc="outside upper left", ncols=3, fontsize=9.5, handlelength=3.2)
    return svg(chart, f"{title}, by step", f"training-{title}")


@with_chart_settings
def _time(runs: Sequence[TrainingCurve]) -> str:
    """Draws the seconds of each step, the phases upon each other; empty without steps."""
    steps = [step for run in runs for step in run.steps]
    if not steps:
        return ""
    chart, axes = figure(4.6, 2.9)
    below = [0.0] * len(steps)
    for (phase, label), colour in zip(PHASES.items(), COLOURS_OF_PHASES, strict=True):
        seconds = [getattr(step.seconds, phase) for step in steps]
        if any(seconds):
            above = [a + b for a, b in zip(below, seconds, strict=True)]
            edges = [number - 0.5 for number in range(1, len(steps) + 2)]  # of the steps; a step is 1 wide
            axes.stairs(above, edges, baseline=below, fill=True, color=COLOURS[colour], label=label, alpha=0.85)
            below = above
    _steps(axes, runs)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("seconds")
    chart.legend(loc="outside upper left", ncols=3, fontsize=9.5)
    return svg(chart, "Time of a step, by phase", "training-time")


def _steps(axes: object, runs: Sequence[TrainingCurve]) -> None:
    """Labels the axis of steps, and marks where each run begins."""
    ends = list(accumulate(len(run.steps) for run in runs))
    total = ends[-1]
    axes.set_xlim(0.5, total + 0.5)  # type: ignore[attr-defined]
    axes.set_xlabel("step")  # type: ignore[attr-defined]
    axes.xaxis.get_major_locator().set_params(integer=True)  # type: ignore[attr-defined]
    axes.grid(axis="y")  # type: ignore[attr-defined]
    if len(runs) == 1:
        return
    for run, end in zip(runs, ends, strict=True):
        if end < total:  # another run follows
            axes.axvline(end + 0.5, color=COLOURS["muted"], linewidth=1.0, linestyle=(0, (2, 3)))  # type: ignore[attr-defined]
        if len(run.steps) < MIN_NAMED_SHARE * total:
            continue
        middle = (end - len(run.steps) / 2) / total  # of the run, as a share of the axis
        look = {"ha": "center", "va": "bottom", "fontsize": 8.5, "color": COLOURS["muted"]}
        axes.text(middle, 1.01, cut(run.name, 12), transform=axes.transAxes, **look)  # type: ignore[attr-defined]


@with_chart_settings
def evaluation_chart(stages: Sequence[StageAnswer]) -> str:
    """Draws hits by verification of each stage's policy, with intervals of 95 %; empty if none was compared."""
    compared = [stage for stage in stages if stage.before is not None and stage.after is not None]
    if not compared:
        return ""
    chart, axes = figure(6.0, 3.0)
    pairs = {"the policy before": [stage.before for stage in compared], "its own": [stage.after for stage in compared]}
    # the two points of a stage stand beside each other
    for (name, points), (colour, marker, _), shift in zip(pairs.items(), LINES, (-0.1, 0.1), strict=False):
        intervals = [point for point in points if point is not None]
        means = [mean for mean, _, _ in intervals]
        below = [max(mean - lower, 0.0) for mean, lower, _ in intervals]
        above = [max(upper - mean, 0.0) for mean, _, upper in intervals]
        places = [place + shift for place in range(len(means))]
        look = {"color": COLOURS[colour], "fmt": marker, "capsize": 4, "markersize": 6}
        axes.errorbar(places, means, yerr=[below, above], label=name, **look)
    axes.set_xticks(range(len(compared)), [cut(stage.stage, 14) for stage in compared])
    axes.set_xlim(-0.5, len(compared) - 0.5)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("hits by verification")
    axes.grid(axis="y")
    chart.legend(loc="outside upper left", ncols=2, fontsize=9.5)
    return svg(chart, "Hits by verification on the held-out tasks, by stage", "training-evaluation")


FILE = "report.html"


def curve_of(name: str, metrics: Path) -> TrainingCurve:
    """Reads the steps of a run from its `metrics.jsonl`. A last line that a kill has cut is left out."""
    steps = list[TrainedStep]()
    if not metrics.is_file():
        return TrainingCurve(name, steps)
    for line in metrics.read_text(encoding="utf-8").splitlines():
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
    template = environment().get_template("training.html.j2")
    text = template.render(
        campaign=title, runs=shown, stages=stages, evaluation=evaluation_chart(stages), charts=training_charts(shown)
    )
    replace_text(folder / FILE, text)
    return folder / FILE


RUN = "run"  # folder of the training run, in the folder of its stage


def write_report(out: Path, recipe: str, stages: Sequence[StageAnswer]) -> None:
    """Writes `report.html` into the folder of the run."""
    stage_folders: dict[str, Path] = {}
    for path in sorted(out.iterdir()):
        if path.is_dir():
            _, _, stage_name = path.name.partition("-")  # after the stage's number
            stage_folders[stage_name] = path
    runs = []
    for stage in stages:
        if stage.policy is not None:
            runs.append(curve_of(stage.stage, stage_folders[stage.stage] / RUN / METRICS))
    write_training_report(out, recipe, runs, stages)
