"""Shows the steps of a training run and its answer: lines of JSON, a bar, or lines of text."""

from __future__ import annotations

import json as jsons
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sciagent.api.terminal import Part
from sciagent.cli.shared import Exit, put, put_answer, say

if TYPE_CHECKING:
    from sciagent.training.learner.running import Tell
    from sciagent.training.progress import RecipeAnswer, TrainedPolicy, TrainedStep


@contextmanager
def shown(json: bool, folder: Path) -> Iterator[Tell]:
    """Yields what shows the steps: lines of JSON on stdout; a bar on a terminal; else lines on stderr.

    folder: of the run; TensorBoard gets the steps there, where it is installed.
    """
    from sciagent.training.recipes.scalars import ScalarWriter

    scalars = ScalarWriter(folder)
    with _told(json) as tell, closing(scalars):

        def both(step: TrainedStep, of: int) -> None:
            tell(step, of)
            scalars.add(step)

        yield both


@contextmanager
def _told(json: bool) -> Iterator[Tell]:
    if json:
        yield lambda step, of: put(jsons.dumps(step.model_dump()))
    elif not sys.stderr.isatty():
        yield lambda step, of: say(step_line(step, of))
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("")
            yield lambda step, of: bar.update(task, completed=step.step, total=of, description=step_line(step, of))


def put_trained(answer: TrainedPolicy | RecipeAnswer, json: bool, parts: Iterable[Part]) -> None:
    """Prints the answer of a training: as one line of JSON, or its parts. Raises typer.Exit if it was interrupted."""
    if json:
        put(jsons.dumps(answer.model_dump()))
    else:
        put_answer(answer, False, parts)
    if answer.stopped_by == "interrupt":
        say("stopped; go on with the same command")
        raise typer.Exit(Exit.INTERRUPTED)


def step_line(step: TrainedStep, of: int) -> str:
    """Returns the figures of a step in one line. of: number of steps."""
    parts = {"loss": step.loss, "reward": step.reward, "kl": step.kl, "entropy": step.entropy}
    parts |= {"value loss": step.value_loss, "explained": step.explained_variance}
    told = "".join(f"  {name} {value:.4g}" for name, value in parts.items() if value is not None)
    masked = f"  masked {step.masked:.2%}" if step.masked else ""
    dropped = f"  {step.dropped} groups taught nothing" if step.dropped else ""
    notes = "".join(f"\n  {note}" for note in step.notes)
    return f"step {step.step}/{of}{told}{masked}{dropped}{notes}"
