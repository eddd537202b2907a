"""`sciagent train`: a model of this machine is trained on a data set, and the new one added to the models."""

from __future__ import annotations

import json as jsons
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.api.terminal import Paragraph, Part, plain_table
from sciagent.cli.shared import options
from sciagent.cli.shared.common import Exit, put, put_answer, say

if TYPE_CHECKING:
    from sciagent.domain.answers.training import TrainedPolicy, TrainedStep
    from sciagent.store.database.ledger import Ledger
    from sciagent.training.learner.running import Tell
    from sciagent.training.learner.settings import TrainingWish

app = typer.Typer(help="Train a model on a data set.", no_args_is_help=True)

Model = Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="A model in `sciagent models list`.")]
Out = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Of the run; named again, the run goes on.")]
Name = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Of the new model; default: the name of the folder.")
]
RowsPerStep = Annotated[int, typer.Option("--rows-per-step", min=1, help="Rows of a step; groups stay whole.")]
Epochs = Annotated[int, typer.Option("--epochs", min=1, help="How often each row is trained.")]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Most steps; default: all rows.")]
LearningRate = Annotated[float | None, typer.Option("--learning-rate", min=0, help="Of AdamW.")]
Lora = Annotated[int, typer.Option("--lora", min=0, metavar="RANK", help="Rank of a LoRA adapter; 0: all weights.")]
Seed = Annotated[int, typer.Option("--seed", help="Of the order of rows and of the adapter's first weights.")]
MicroBatch = Annotated[
    int, typer.Option("--most-tokens", min=1, help="Tokens computed at once; less needs less memory.")
]
SaveEvery = Annotated[int, typer.Option("--save-every", min=1, metavar="STEPS", help="Steps between checkpoints.")]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, help="Of a CPU; with 1, a run can be repeated exactly.")
]


@app.callback()
def _group() -> None:
    """Train a model on a data set."""


@app.command(epilog="Example: sciagent train sft sft --model smollm2 --out smollm2-sft")
def sft(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build sft` or `hindsight`."),
    *,
    model: Model,
    out: Out,
    name: Name = None,
    rows_per_step: RowsPerStep = 32,
    epochs: Epochs = 1,
    steps: Steps = None,
    learning_rate: LearningRate = None,
    lora: Lora = 0,
    seed: Seed = 0,
    most_tokens: MicroBatch = 8192,
    save_every: SaveEvery = 20,
    threads: Threads = None,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Teach a model the verified answers of a data set: supervised fine-tuning.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    from sciagent.training.learner.settings import StepSettings, TrainingWish

    settings = StepSettings(2e-5 if learning_rate is None else learning_rate, most_tokens=most_tokens)
    wish = TrainingWish(
        "sft",
        folder,
        model,
        out,
        name or out.resolve().name,
        rows_per_step,
        epochs=epochs,
        steps=steps,
        rank=lora,
        seed=seed,
        save_every=save_every,
        threads=threads,
        settings=settings,
    )
    _train(wish, ledger, json)


@app.command(epilog="Example: sciagent train grpo rows --model smollm2-sft --out smollm2-grpo --lora 16")
def grpo(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build rows`."),
    *,
    model: Model,
    out: Out,
    name: Name = None,
    rows_per_step: RowsPerStep = 32,
    epochs: Epochs = 1,
    steps: Steps = None,
    learning_rate: LearningRate = None,
    kl: float = typer.Option(0.0, "--kl", min=0, help="Factor of the KL divergence from the model at the start."),
    kl_budget: float | None = typer.Option(
        None, "--kl-budget", min=0, metavar="NATS", help="End where this divergence, per token, is larger."
    ),
    lora: Lora = 0,
    seed: Seed = 0,
    most_tokens: MicroBatch = 8192,
    save_every: SaveEvery = 20,
    threads: Threads = None,
    ledger: options.Ledger = None,
    json: options.Json = False,
) -> None:
    """Train a model by the policy gradient on token rows with advantages.

    Groups whose siblings all earned the same are left out. A token is dropped from the loss where its probability is
    less than half or more than five times what it was when it was drawn.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    from sciagent.training.learner.settings import LossSettings, StepSettings, TrainingWish

    rate = 1e-6 if learning_rate is None else learning_rate
    settings = StepSettings(rate, most_tokens=most_tokens, loss=LossSettings(kl=kl))
    wish = TrainingWish(
        "grpo",
        folder,
        model,
        out,
        name or out.resolve().name,
        rows_per_step,
        epochs=epochs,
        steps=steps,
        rank=lora,
        seed=seed,
        save_every=save_every,
        threads=threads,
        settings=settings,
        kl_budget=kl_budget,
    )
    _train(wish, ledger, json)


def _train(wish: TrainingWish, ledger: str | None, json: bool) -> None:
    from sciagent.training.learner.loading import check_extra

    check_extra()
    from sciagent.training.learner.running import train

    with _shown(json) as tell:
        answer = train(wish, _ledger(ledger), tell)
    if json:
        put(jsons.dumps(answer.model_dump()))
    else:
        put_answer(answer, False, _parts(answer))
    if answer.stopped_by == "interrupt":
        say("stopped; go on with the same command")
        raise typer.Exit(Exit.INTERRUPTED)


def _ledger(given: str | None) -> Ledger | None:
    """Returns the ledger that gets the policy; None if none is named and there is none."""
    from sciagent.cli.shared.common import open_ledger
    from sciagent.settings import ledger_address
    from sciagent.store.database.engine import ledger_url

    place = ledger_url(ledger_address(given))
    if given is None and place.get_backend_name() == "sqlite" and not Path(str(place.database)).exists():
        return None
    return open_ledger(given)


@contextmanager
def _shown(json: bool) -> Iterator[Tell]:
    """Yields what shows the steps: lines of JSON on stdout; a bar on a terminal; else lines on stderr."""
    if json:
        yield lambda step, of: put(jsons.dumps(step.model_dump()))
    elif not sys.stderr.isatty():
        yield lambda step, of: say(_line(step, of))
    else:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        columns = BarColumn(), TextColumn("{task.description}"), TimeRemainingColumn()
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("")
            yield lambda step, of: bar.update(task, completed=step.step, total=of, description=_line(step, of))


def _line(step: TrainedStep, of: int) -> str:
    parts = {"loss": step.loss, "reward": step.reward, "kl": step.kl, "entropy": step.entropy}
    told = "".join(f"  {name} {value:.4g}" for name, value in parts.items() if value is not None)
    masked = f"  masked {step.masked:.2%}" if step.masked else ""
    return f"step {step.step}/{of}{told}{masked}"


def _parts(answer: TrainedPolicy) -> Iterator[Part]:
    if answer.left_out:
        table = plain_table("", "left out", "number")
        for why, n in answer.left_out.items():
            table.add_row(why, str(n))
        yield table
    steps = f"{answer.steps} step{'' if answer.steps == 1 else 's'}, ended by {answer.stopped_by}"
    if answer.policy is None:
        yield Paragraph(f"{answer.folder}: {steps}; no new model yet")
    else:
        yield Paragraph(f"{answer.policy}, from {answer.parent}: {steps}; in {answer.folder}/policy")
