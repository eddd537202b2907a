"""`sciagent train RECIPE.yaml`: training by stages, each gated by an evaluation."""

from __future__ import annotations

import json as jsons
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from sciagent.api.terminal import Paragraph, Part, plain_table
from sciagent.cli import options
from sciagent.cli.learning.training_steps import put_trained, step_line
from sciagent.cli.shared import Exit, open_ledger, put, say

if TYPE_CHECKING:
    from sciagent.training.progress import RecipeAnswer, TrainedStep

COMMAND = "recipe"


class TrainGroup(TyperGroup):
    """The commands of `sciagent train`. A recipe in place of a command's name is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_recipe = Path(args[0]).suffix in (".yaml", ".yml")
        return super().resolve_command(ctx, [COMMAND, *args] if is_recipe else args)


def recipe(
    file: Path = typer.Argument(metavar="RECIPE.yaml", help="Model, tasks, rewards and stages."),
    out: Path | None = typer.Option(
        None, "--out", "-o", metavar="FOLDER", help="Of the run; named again, the run goes on. Default: its name."
    ),
    name: str | None = typer.Option(
        None, "--name", metavar="NAME", help="Beginning of the names of the models; default: the name of the folder."
    ),
    until: str | None = typer.Option(None, metavar="STAGE", help="The last stage to run; default: all."),
    threads: int | None = typer.Option(None, min=1, help="Of a CPU; with 1, a run can be repeated exactly."),
    workers: int = typer.Option(1, "--workers", "-w", min=1, help="Campaigns of an evaluation at once."),
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Train a model by the stages of a recipe: demonstrations, supervised fine-tuning, hindsight, GRPO, audit.

    The policy of each stage is compared with the one before on held-out tasks. One that is worse is not taken over.
    FOLDER has a folder for each stage, and report.html with the curves. `sciagent train RECIPE.yaml` is the same.

    The same command goes on after a stop or a crash. A run that is complete does nothing.

    Exit codes: 0 ok, 1 a stage made the policy worse or a guard stopped it, 2 the file or the call is wrong, 130 the
    run was stopped.
    """
    from sciagent.api.interrupts import each_signal, raise_interrupt
    from sciagent.training.learner.loading import check_extra
    from sciagent.training.recipes.spec import load_recipe

    spec = load_recipe(file)
    check_extra()
    from sciagent.training.recipes.running import RecipeRun
    from sciagent.training.recipes.stage_work import RecipeRunSettings

    store = open_ledger(ledger, create=True)
    place, command = out or Path(spec.recipe), shlex.join(["sciagent", *sys.argv[1:]])
    settings = RecipeRunSettings(file.resolve().parent, place, name or place.resolve().name, threads, workers, command)
    with _watched(json) as watching:
        run = RecipeRun(spec, settings, store, watching)
        with each_signal(run.stop, last=raise_interrupt):
            answer = run.run(until)
    put_trained(answer, json, _recipe_parts(answer))
    if answer.stopped_by not in ("stages", "until"):
        raise typer.Exit(Exit.FAILED)


class _Lines:
    """Shows what a run does, as lines on stderr; steps as lines of JSON on stdout where scripts read them."""

    def __init__(self, json: bool) -> None:
        self._json = json

    def say(self, line: str) -> None:
        say(line)

    def step(self, stage: str, step: TrainedStep, of: int) -> None:
        if self._json:
            put(jsons.dumps({"stage": stage, **step.model_dump()}))
        else:
            say(f"  {step_line(step, of)}")


class _Bar:
    """Shows what a run does on a terminal: lines, and a bar for the steps of a stage."""

    def __init__(self, bar: Any) -> None:
        self._bar, self._tasks = bar, dict[str, Any]()

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False)

    def step(self, stage: str, step: TrainedStep, of: int) -> None:
        if stage not in self._tasks:
            for task in self._tasks.values():
                self._bar.remove_task(task)
            self._tasks = {stage: self._bar.add_task("")}
        self._bar.update(self._tasks[stage], completed=step.step, total=of, description=step_line(step, of))


@contextmanager
def _watched(json: bool) -> Iterator[_Lines | _Bar]:
    if json or not sys.stderr.isatty():
        yield _Lines(json)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar)


def _recipe_parts(answer: RecipeAnswer) -> Iterator[Part]:
    table = plain_table("", "stage", "steps", "hits by verification", "difference", "policy", left=["policy"])
    for stage in answer.stages:
        after = "" if stage.after is None else f"{stage.after[0]:.3g}"
        minus = "" if stage.difference is None else "{:+.3g} ({:+.3g} to {:+.3g})".format(*stage.difference)
        policy = (stage.policy or "") + ("" if stage.taken else " (not taken over)")
        table.add_row(stage.stage, str(stage.steps or ""), after, minus, policy)
    yield table
    ended = {"stages": "all stages are done", "until": "the stage that was named is done"}
    why = ended.get(answer.stopped_by, f"stopped by {answer.stopped_by}")
    yield Paragraph(f"{answer.policy or 'no policy yet'}: {why}; {answer.folder}/report.html has the curves")
