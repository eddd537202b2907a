"""The commands of `sciagent train`: `sft`, `grpo`, `ppo`, `distill`, `hindsight`, and `recipe`.

Each trains a model of this machine and adds the new one to the models. `sciagent train RECIPE.yaml` trains by stages,
each gated by an evaluation. The steps of a run are shown as lines of JSON, as a bar, or as lines of text.
"""

from __future__ import annotations

import json as jsons
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sciagent.api.terminal_tables_and_signals import Part, plain_table
from sciagent.cli import options
from sciagent.cli.options_from_settings import settings_of, with_options
from sciagent.cli.output_logging_and_given_structures import Exit, open_ledger, plural, put, put_answer, say
from sciagent.domain.safe_text_and_durations import Paragraph
from sciagent.errors import UsageError
from sciagent.training.settings import (
    LiveSettings,
    LiveTraining,
    LossSettings,
    RunSettings,
    TaskShare,
    TrainingSettings,
)

if TYPE_CHECKING:
    from sciagent.store.database.ledger import Ledger
    from sciagent.training.command_answers import RecipeAnswer, TrainedPolicy, TrainedStep
    from sciagent.training.learner.training_run import Tell


@contextmanager
def shown(json: bool, folder: Path) -> Iterator[Tell]:
    """Yields the function that shows a step: as a line of JSON on stdout, in a bar on a terminal, or on stderr.

    folder: folder of the run; TensorBoard gets the steps there, where it is installed.
    """
    from sciagent.training.learner.run_state import ScalarWriter

    scalars = ScalarWriter(folder)
    with _step_output(json) as tell, closing(scalars):

        def show_and_log(step: TrainedStep, of: int) -> None:
            tell(step, of)
            scalars.add(step)

        yield show_and_log


@contextmanager
def _step_output(json: bool) -> Iterator[Tell]:
    """Yields the function that shows a step and the number of steps."""
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
        put_answer(answer, json=False, parts=parts)
    if answer.stopped_by == "interrupt":
        say("stopped; go on with the same command")
        raise typer.Exit(Exit.INTERRUPTED)


def step_line(step: TrainedStep, of: int) -> str:
    """Returns the figures of a step in one line. of: number of steps."""
    parts = {
        "loss": step.loss,
        "reward": step.reward,
        "kl": step.kl,
        "entropy": step.entropy,
        "value loss": step.value_loss,
        "explained": step.explained_variance,
    }
    figures = "".join(f"  {name} {value:.4g}" for name, value in parts.items() if value is not None)
    masked = f"  masked {step.masked:.2%}" if step.masked else ""
    dropped = f"  {step.dropped} groups taught nothing" if step.dropped else ""
    notes = "".join(f"\n  {note}" for note in step.notes)
    return f"step {step.step}/{of}{figures}{masked}{dropped}{notes}"


RECIPE_COMMAND = "recipe"


class TrainGroup(TyperGroup):
    """The commands of `sciagent train`. A recipe in place of a command's name is run."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_recipe = Path(args[0]).suffix in (".yaml", ".yml")
        if is_recipe:
            args = [RECIPE_COMMAND, *args]
        return super().resolve_command(ctx, args)


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
    from sciagent.api.terminal_tables_and_signals import each_signal, raise_interrupt
    from sciagent.training.learner.load_and_publish import check_extra
    from sciagent.training.recipes.recipe_file import load_recipe

    spec = load_recipe(file)
    check_extra()
    from sciagent.training.recipes.recipe_run import RecipeRun
    from sciagent.training.recipes.run_stage import RecipeRunSettings

    store = open_ledger(ledger, create=True)
    folder = out or Path(spec.recipe)
    settings = RecipeRunSettings(
        folder=file.resolve().parent,
        out=folder,
        name=name or folder.resolve().name,
        threads=threads,
        workers=workers,
        command=shlex.join(["sciagent", *sys.argv[1:]]),
    )
    with _recipe_output(json) as output:
        run = RecipeRun(spec, settings, store, output)
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
        self._bar = bar
        self._tasks = dict[str, Any]()  # the bar of the present stage, by the stage's name

    def say(self, line: str) -> None:
        self._bar.console.print(line, markup=False, highlight=False)

    def step(self, stage: str, step: TrainedStep, of: int) -> None:
        if stage not in self._tasks:  # its bar takes the place of the one before
            for task in self._tasks.values():
                self._bar.remove_task(task)
            self._tasks = {stage: self._bar.add_task("")}
        self._bar.update(self._tasks[stage], completed=step.step, total=of, description=step_line(step, of))


@contextmanager
def _recipe_output(json: bool) -> Iterator[_Lines | _Bar]:
    """Yields the object that shows what a run does: a bar on a terminal, else lines."""
    if json or not sys.stderr.isatty():
        yield _Lines(json)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield _Bar(bar)


def _recipe_parts(answer: RecipeAnswer) -> Iterator[Part]:
    table = plain_table("stage", "steps", "hits by verification", "difference", "policy", left=["policy"])
    for stage in answer.stages:
        hits = ""
        if stage.after is not None:
            mean, _, _ = stage.after
            hits = f"{mean:.3g}"
        difference = ""
        if stage.difference is not None:
            mean, low, high = stage.difference
            difference = f"{mean:+.3g} ({low:+.3g} to {high:+.3g})"
        note = "" if stage.taken else " (not taken over)"
        policy = f"{stage.policy or ''}{note}"
        table.add_row(stage.stage, str(stage.steps or ""), hits, difference, policy)
    yield table
    ends = {"stages": "all stages are done", "until": "the stage that was named is done"}
    why = ends.get(answer.stopped_by, f"stopped by {answer.stopped_by}")
    yield Paragraph(f"{answer.policy or 'no policy yet'}: {why}; {answer.folder}/report.html has the curves")


HELP = "Train a model on a data set, on campaigns, or by the stages of a recipe: sciagent train RECIPE.yaml."
app = typer.Typer(cls=TrainGroup, help=HELP, no_args_is_help=True)
app.command(RECIPE_COMMAND, epilog="Example: sciagent train recipe campaigns/training/gaps.yaml --out gaps")(recipe)


Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="ROWS_FOLDER|CAMPAIGN.yaml...", help="A folder of `dataset build rows`, or campaigns to roll out."
    ),
]
Stated = Mapping[str, Any]
"""The values that the options of a command state, by field of the settings."""


@app.callback()
def _group() -> None:
    """Train a model on a data set, on campaigns, or by the stages of a recipe: sciagent train RECIPE.yaml."""


@app.command(epilog="Example: sciagent train sft sft --model smollm2 --out smollm2-sft")
@with_options(TrainingSettings, kind="sft", without=LossSettings)
def sft(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build sft` or `hindsight`."),
    *,
    stated: Stated,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Teach a model the verified answers of a data set: supervised fine-tuning.

    The same command goes on after a stop or a crash. The new model is in `sciagent models`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    _train(settings_of(TrainingSettings, stated, training="sft", rows=folder), ledger, json)


@app.command(
    epilog="Example: sciagent train grpo small.yaml --rewards rewards.yaml --model smollm2-sft --out live --lora 16"
)
@with_options(TrainingSettings, LiveSettings, kind="grpo")
def grpo(sources: Sources, *, stated: Stated, ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Train a model by the policy gradient on token rows with advantages.

    The rows are those of a data set, or of campaigns on the live ladder: then each step rolls out groups of episodes by
    the model as it is, waits for the verdicts on what they propose, and trains on the rewards.

    Groups whose siblings all earned the same are left out. A token is dropped from the loss where its probability is
    less than half or more than five times what it was when it was drawn.

    The same command goes on after a stop or a crash. The new model is in `sciagent models`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    _train_policy("grpo", sources, stated, ledger, json)


@app.command(epilog="Example: sciagent train ppo rows --model smollm2-sft --out smollm2-ppo --lora 16")
@with_options(TrainingSettings, LiveSettings, kind="ppo")
def ppo(sources: Sources, *, stated: Stated, ledger: options.Ledger = None, json: options.Json = False) -> None:
    """Train a model by PPO: the advantages come from a value head, not from siblings.

    The value head learns what the rest of an episode earns. The first step still compares siblings, and fits the value
    head before the policy's first update. Its weights are in the checkpoint of the run, not in the new model.

    The same command goes on after a stop or a crash. The new model is in `sciagent models`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    _train_policy("ppo", sources, stated, ledger, json)


def _train_policy(
    training: LiveTraining, sources: Sequence[Path], stated: Stated, ledger: str | None, json: bool
) -> None:
    """Trains on a folder of rows, or on campaigns. Raises UsageError for options of the other source."""
    if sources[0].is_file() or sources[0].suffix in (".yaml", ".yml"):
        for source in sources:
            if not source.is_file():
                raise UsageError(f"{source} is no file of a campaign")
        tasks = [TaskShare(file=source) for source in sources]
        tasks += stated.get("tasks", ())
        live = settings_of(LiveSettings, stated, TrainingSettings, training=training, tasks=tasks)
        _train_live(live, ledger, json)
    elif len(sources) > 1:
        raise UsageError(f"{sources[0]} is no file of a campaign; of folders of rows, state one")
    else:
        settings = settings_of(TrainingSettings, stated, LiveSettings, training=training, rows=sources[0])
        _train(settings, ledger, json)


@app.command(epilog="Example: sciagent train distill rows --teacher large --model small --out small-taught")
@with_options(TrainingSettings, kind="distill")
def distill(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build rows`."),
    *,
    stated: Stated,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Teach a model what larger or special models would have answered: on-policy distillation.

    At each token that the model sampled, its distribution moves toward those of the teachers: the loss is the reverse
    KL divergence over the whole vocabulary. Rewards are not needed.

    The same command goes on after a stop or a crash. The new model is in `sciagent models`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    _train(settings_of(TrainingSettings, stated, training="distill", rows=folder), ledger, json)


@app.command(epilog="Example: sciagent train hindsight hindsight --model smollm2-sft --out smollm2-hindsight")
@with_options(TrainingSettings, kind="hindsight")
def hindsight(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build hindsight` or `skill`."),
    *,
    stated: Stated,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Teach a model what it would have answered with a hint from the verdict: it is its own teacher.

    The teacher is the model at the start. It sees the hint of a failed turn before the tokens that were sampled; the
    model that is trained does not. The loss is the reverse KL divergence over the whole vocabulary.

    The same command goes on after a stop or a crash. The new model is in `sciagent models`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    _train(settings_of(TrainingSettings, stated, training="hindsight", rows=folder), ledger, json)


def _train(settings: TrainingSettings, ledger: str | None, json: bool) -> None:
    from sciagent.training.learner.load_and_publish import check_extra

    check_extra()
    from sciagent.training.learner.training_run import processes, train

    is_main = processes().is_main_process  # the only process that writes
    with shown(json, settings.out) as tell:
        answer = train(settings, _ledger(ledger) if is_main else None, tell)
    processes().destroy_process_group()
    if is_main:
        _put(settings, answer, json)
    elif answer.stopped_by == "interrupt":
        raise typer.Exit(Exit.INTERRUPTED)


def _train_live(settings: LiveSettings, address: str | None, json: bool) -> None:
    from threading import Event

    from sciagent.api.terminal_tables_and_signals import each_signal, raise_interrupt
    from sciagent.training.learner.load_and_publish import check_extra

    check_extra()
    from sciagent.training.learner.training_run import processes
    from sciagent.training.live.live_run import train_live

    if processes().num_processes > 1:
        raise UsageError("training on campaigns takes one process; `accelerate launch` is for folders of rows")
    ledger = open_ledger(address, create=True)
    stop = Event()
    with shown(json, settings.out) as tell, each_signal(stop.set, last=raise_interrupt):
        answer = train_live(settings, ledger, tell, stop=stop)
    _put(settings, answer, json)


def _put(settings: RunSettings, answer: TrainedPolicy, json: bool) -> None:
    from sciagent.training.recipes.training_charts_and_html_report import curve_of, write_training_report

    name = settings.new_name
    write_training_report(settings.out, name, [curve_of(name, settings.out / "metrics.jsonl")])
    put_trained(answer, json, _parts(answer))


def _ledger(given: str | None) -> Ledger | None:
    """Returns the ledger that gets the policy; None if none is named and there is none."""
    from sciagent.inputs.environment_variables import ledger_address
    from sciagent.store.database.engine import ledger_url

    place = ledger_url(ledger_address(given))
    if given is None and place.get_backend_name() == "sqlite" and not Path(str(place.database)).exists():
        return None
    return open_ledger(given)


def _parts(answer: TrainedPolicy) -> Iterator[Part]:
    if answer.left_out:
        table = plain_table("left out", "number")
        for why, n in answer.left_out.items():
            table.add_row(why, str(n))
        yield table
    steps = f"{plural(answer.steps, 'step')}, ended by {answer.stopped_by}"
    if answer.why is not None:
        yield Paragraph(f"stopped by the guard {answer.stopped_by}: {answer.why}")
    if answer.policy is None:
        yield Paragraph(f"{answer.folder}: {steps}; no new model yet")
    else:
        yield Paragraph(f"{answer.policy}, from {answer.parent}: {steps}; in {answer.folder}/policy")
