"""`sciagent train`: a model of this machine is trained on a data set, and the new one added to the models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sciagent.api.terminal import Paragraph, Part, plain_table
from sciagent.cli.learning.recipe import COMMAND, TrainGroup, recipe
from sciagent.cli.learning.training_steps import put_trained, shown
from sciagent.cli.shared import Exit, say_upgraded
from sciagent.cli.training_options import (
    CriticOptions,
    DivergenceOptions,
    LiveOptions,
    RowsOptions,
    RunOptions,
    refuse_stated,
    teacher_share,
    with_options,
)
from sciagent.errors import UsageError
from sciagent.training.learner.settings import POLICY_RATE, SUPERVISED_RATE

if TYPE_CHECKING:
    from sciagent.store.database.ledger import Ledger
    from sciagent.training.learner.settings import StepSettings, TrainingWish
    from sciagent.training.live.settings import LiveWish
    from sciagent.training.progress import TrainedPolicy

HELP = "Train a model on a data set, on campaigns, or by the stages of a recipe: sciagent train RECIPE.yaml."
app = typer.Typer(cls=TrainGroup, help=HELP, no_args_is_help=True)
app.command(COMMAND, epilog="Example: sciagent train recipe campaigns/training/gaps.yaml --out gaps")(recipe)


Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="ROWS_FOLDER|CAMPAIGN.yaml...", help="A folder of `dataset build rows`, or campaigns to roll out."
    ),
]


@app.callback()
def _group() -> None:
    """Train a model on a data set, on campaigns, or by the stages of a recipe: sciagent train RECIPE.yaml."""


@app.command(epilog="Example: sciagent train sft sft --model smollm2 --out smollm2-sft")
@with_options
def sft(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build sft` or `hindsight`."),
    *,
    run: RowsOptions,
) -> None:
    """Teach a model the verified answers of a data set: supervised fine-tuning.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    _train(run, run.wish("sft", folder, run.step_settings(SUPERVISED_RATE)))


@app.command(
    epilog="Example: sciagent train grpo small.yaml --rewards rewards.yaml --model smollm2-sft --out live --lora 16"
)
@with_options
def grpo(sources: Sources, *, run: RowsOptions, live: LiveOptions, divergence: DivergenceOptions) -> None:
    """Train a model by the policy gradient on token rows with advantages.

    The rows are those of a data set, or of campaigns on the live ladder: then each step rolls out groups of episodes by
    the model as it is, waits for the verdicts on what they propose, and trains on the rewards.

    Groups whose siblings all earned the same are left out. A token is dropped from the loss where its probability is
    less than half or more than five times what it was when it was drawn.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    settings = run.step_settings(POLICY_RATE, divergence.loss())
    _train_policy("grpo", sources, run, live, settings, divergence)


@app.command(epilog="Example: sciagent train ppo rows --model smollm2-sft --out smollm2-ppo --lora 16")
@with_options
def ppo(
    sources: Sources, *, run: RowsOptions, live: LiveOptions, divergence: DivergenceOptions, critic: CriticOptions
) -> None:
    """Train a model by PPO: the advantages come from a value head, not from siblings.

    The value head learns what the rest of an episode earns. The first step still compares siblings, and fits the value
    head before the policy's first update. Its weights are in the checkpoint of the run, not in the new model.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    from dataclasses import replace

    settings = replace(run.step_settings(POLICY_RATE, divergence.loss()), critic=critic.critic())
    _train_policy("ppo", sources, run, live, settings, divergence)


def _train_policy(
    training: str,
    sources: Sequence[Path],
    run: RowsOptions,
    live: LiveOptions,
    settings: StepSettings,
    divergence: DivergenceOptions,
) -> None:
    """Trains on a folder of rows, or on campaigns. Raises UsageError for options of the other one."""
    if sources[0].is_file() or sources[0].suffix in (".yaml", ".yml"):
        if missing := next((source for source in sources if not source.is_file()), None):
            raise UsageError(f"{missing} is no file of a campaign")
        refuse_stated(run, "for a folder of rows, and has no effect on campaigns", besides=RunOptions)
        limits = {"kl_budget": divergence.kl_budget, "guards": live.guards()}
        _train_live(run, live.wish(run, training, sources, settings, **limits))
    elif len(sources) > 1:
        raise UsageError(f"{sources[0]} is no file of a campaign; of folders of rows, state one")
    else:
        refuse_stated(live, f"for campaigns, and has no effect on the folder of rows {sources[0]}")
        _train(run, run.wish(training, sources[0], settings, kl_budget=divergence.kl_budget))


@app.command(epilog="Example: sciagent train distill rows --teacher large --model small --out small-taught")
@with_options
def distill(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build rows`."),
    *,
    teacher: Annotated[
        list[str],
        typer.Option("--teacher", metavar="NAME[=WEIGHT]", help="A model with the same tokenizer. May be repeated."),
    ],
    run: RowsOptions,
    divergence: DivergenceOptions,
) -> None:
    """Teach a model what larger or special models would have answered: on-policy distillation.

    At each token that the model sampled, its distribution moves toward those of the teachers: the loss is the reverse
    KL divergence over the whole vocabulary. Rewards are not needed.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    settings = run.step_settings(SUPERVISED_RATE, divergence.loss(distillation=1.0))
    shares = tuple(map(teacher_share, teacher))
    _train(run, run.wish("distill", folder, settings, kl_budget=divergence.kl_budget, teachers=shares))


@app.command(epilog="Example: sciagent train hindsight hindsight --model smollm2-sft --out smollm2-hindsight")
@with_options
def hindsight(
    folder: Path = typer.Argument(metavar="ROWS_FOLDER", help="A folder of `dataset build hindsight` or `skill`."),
    *,
    run: RowsOptions,
    divergence: DivergenceOptions,
) -> None:
    """Teach a model what it would have answered with a hint from the verdict: it is its own teacher.

    The teacher is the model at the start. It sees the hint of a failed turn before the tokens that were sampled; the
    model that is trained does not. The loss is the reverse KL divergence over the whole vocabulary.

    The same command goes on after a stop or a crash. The new model is in `sciagent models list`.

    Exit codes: 0 ok, 2 the call is wrong, 130 the run was stopped.
    """
    settings = run.step_settings(SUPERVISED_RATE, divergence.loss(distillation=1.0))
    _train(run, run.wish("hindsight", folder, settings, kl_budget=divergence.kl_budget))


def _train(run: RowsOptions, wish: TrainingWish) -> None:
    from sciagent.training.learner.loading import check_extra

    check_extra()
    from sciagent.training.learner.running import processes, train

    main = processes().is_main_process
    with shown(run.json, run.out) as tell:
        answer = train(wish, _ledger(run.ledger) if main else None, tell)
    processes().destroy_process_group()
    if main:
        _put(run, answer)
    elif answer.stopped_by == "interrupt":
        raise typer.Exit(Exit.INTERRUPTED)


def _train_live(run: RowsOptions, wish: LiveWish) -> None:
    from threading import Event

    from sciagent.api.interrupts import each_signal, raise_interrupt
    from sciagent.cli.shared import open_ledger
    from sciagent.training.learner.loading import check_extra

    check_extra()
    from sciagent.training.learner.running import processes
    from sciagent.training.live.running import train_live

    if processes().num_processes > 1:
        raise UsageError("training on campaigns takes one process; `accelerate launch` is for folders of rows")
    ledger, stop = open_ledger(run.ledger, create=True), Event()
    say_upgraded(ledger)
    with shown(run.json, run.out) as tell, each_signal(stop.set, last=raise_interrupt):
        answer = train_live(wish, ledger, tell, stop=stop)
    _put(run, answer)


def _put(run: RowsOptions, answer: TrainedPolicy) -> None:
    from sciagent.report.page.training import curve_of, write_training_report

    write_training_report(run.out, run.new_name, [curve_of(run.new_name, run.out / "metrics.jsonl")])
    put_trained(answer, run.json, _parts(answer))


def _ledger(given: str | None) -> Ledger | None:
    """Returns the ledger that gets the policy; None if none is named and there is none."""
    from sciagent.cli.shared import open_ledger
    from sciagent.inputs.settings import ledger_address
    from sciagent.store.database.engine import ledger_url

    place = ledger_url(ledger_address(given))
    if given is None and place.get_backend_name() == "sqlite" and not Path(str(place.database)).exists():
        return None
    return open_ledger(given)


def _parts(answer: TrainedPolicy) -> Iterator[Part]:
    if answer.left_out:
        table = plain_table("", "left out", "number")
        for why, n in answer.left_out.items():
            table.add_row(why, str(n))
        yield table
    steps = f"{answer.steps} step{'' if answer.steps == 1 else 's'}, ended by {answer.stopped_by}"
    if answer.why is not None:
        yield Paragraph(f"stopped by the guard {answer.stopped_by}: {answer.why}")
    if answer.policy is None:
        yield Paragraph(f"{answer.folder}: {steps}; no new model yet")
    else:
        yield Paragraph(f"{answer.policy}, from {answer.parent}: {steps}; in {answer.folder}/policy")
