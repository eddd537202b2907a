"""Options that the commands of `sciagent train` share, each written once, as a field of a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sciagent.cli import options
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.training.learner.settings import (
        CriticSettings,
        LossSettings,
        StepSettings,
        TeacherShare,
        TrainingWish,
    )
    from sciagent.training.live.settings import LiveWish, TaskShare


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every training run."""

    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="A model in `sciagent models`.")]
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the run; named again, the run goes on.")
    ]
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new model; default: that of the folder.")
    ] = None
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Most steps; default: all rows.")] = None
    learning_rate: Annotated[
        float | None, typer.Option("--learning-rate", min=0, help="Of AdamW; default: 2e-5, for grpo and ppo 1e-6.")
    ] = None
    lora: Annotated[int, typer.Option("--lora", min=0, metavar="RANK", help="Rank of an adapter; 0: all weights.")] = 0
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the order of rows and of the adapter's first weights.")
    ] = 0
    most_tokens: Annotated[
        int, typer.Option("--most-tokens", min=1, help="Tokens computed at once; less needs less memory.")
    ] = 8192
    save_every: Annotated[
        int | None,
        typer.Option(
            "--save-every", min=1, metavar="STEPS", help="Steps between checkpoints; default: 20, with campaigns 1."
        ),
    ] = None
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads on a CPU; with 1, a run can be repeated exactly.")
    ] = None
    ledger: options.Ledger = None
    json: options.Json = False

    @property
    def new_name(self) -> str:
        """The name of the new model."""
        return self.name or self.out.resolve().name

    def step_settings(self, learning_rate: float, loss: LossSettings | None = None) -> StepSettings:
        """Returns the settings of a step. learning_rate: where none is given."""
        from sciagent.training.learner.settings import LossSettings, StepSettings

        rate = learning_rate if self.learning_rate is None else self.learning_rate
        return StepSettings(rate, most_tokens=self.most_tokens, loss=loss or LossSettings())


@dataclass(frozen=True, kw_only=True)
class RowsOptions(RunOptions):
    """The options of a run on the rows of a data set."""

    PANEL = "Options for a folder of rows"

    rows_per_step: Annotated[int, typer.Option("--rows-per-step", min=1, help="Rows of a step; groups stay whole.")] = (
        32
    )
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="How often each row is trained.")] = 1

    def wish(self, training: str, rows: Path, settings: StepSettings, **more: Any) -> TrainingWish:
        """Returns the task of the run. more: further fields of `TrainingWish`."""
        from sciagent.training.learner.settings import TrainingWish, filled

        given = {"training": training, "rows": rows, "name": self.new_name, "rank": self.lora, "settings": settings}
        return filled(TrainingWish, self, **given, save_every=self.save_every or 20, **more)


@dataclass(frozen=True, kw_only=True)
class LiveOptions:
    """The options of a run on the live ladder."""

    PANEL = "Options for campaigns"

    rewards: Annotated[
        Path | None, typer.Option("--rewards", metavar="FILE", help="The description of the rewards.")
    ] = None
    task: Annotated[
        list[str], typer.Option("--task", metavar="FILE=WEIGHT", help="One more, with its share of groups.")
    ] = field(default_factory=list)
    groups: Annotated[int, typer.Option("--groups", "-g", min=1, max=1000, help="Groups of a step.")] = 4
    siblings: Annotated[int, typer.Option("--siblings", "-s", min=2, max=1000, help="Episodes in a group.")] = 8
    turns: Annotated[int, typer.Option("--turns", "-t", min=1, max=1000, help="Most answers in an episode.")] = 6
    begins: Annotated[
        str,
        typer.Option("--from", metavar="now[:N]|seeds[:N]", help="What groups see: all candidates, or seeds; N drawn."),
    ] = "now"
    credit: Annotated[
        str | None, typer.Option("--credit", help="Estimator of the advantages; default: as in --rewards.")
    ] = None
    further: Annotated[
        int | None, typer.Option(min=0, help="Most groups in place of those that teach nothing; default: --groups.")
    ] = None
    patience: Annotated[
        float, typer.Option("--patience", min=0, metavar="SECONDS", help="Longest wait for paid rungs.")
    ] = 3600.0
    workers: Annotated[int | None, typer.Option("--workers", "-w", min=1, help="Paid jobs at once.")] = None
    parts: Annotated[
        int, typer.Option("--parts", min=1, help="Parts of the groups; one samples while others are verified.")
    ] = 4
    ahead: Annotated[
        int, typer.Option("--ahead", min=0, max=1, help="1 rolls out the next step while one is trained.")
    ] = 0
    lag: Annotated[
        int, typer.Option("--lag", min=0, help="Most steps after which a late verdict is still trained.")
    ] = 1
    guard: Annotated[
        list[str],
        typer.Option(
            "--guard",
            metavar="NAME=LIMIT",
            help="Limit of a guard that stops the run, as control_gap=0.2 or unsettled=off; off: no guards.",
        ),
    ] = field(default_factory=list)
    endpoint: Annotated[
        str | None, typer.Option("--endpoint", metavar="URL", help="Sample by `serve-model --trainable`, with --lora.")
    ] = None
    actors: Annotated[
        int, typer.Option("--actors", min=0, help="Processes of Ray that roll out; 0: this one does.")
    ] = 0
    ray_address: Annotated[
        str | None, typer.Option("--ray-address", metavar="ADDRESS", help="Of a cluster for --actors; default: none.")
    ] = None

    def guards(self) -> Mapping[str, Any] | None:
        """Returns the limits of the guards; None for the usual ones. Raises UsageError."""
        from sciagent.training.guards import guard_settings

        return guard_settings(self.guard).model_dump() if self.guard else None

    def wish(
        self, run: RunOptions, training: str, files: Sequence[Path], settings: StepSettings, **more: Any
    ) -> LiveWish:
        """Returns the task of a run on campaigns. more: further fields of `LiveWish`. Raises UsageError."""
        from sciagent.training.learner.settings import filled
        from sciagent.training.live.settings import LiveWish, TaskShare

        if self.rewards is None:
            raise UsageError("training on campaigns needs --rewards FILE, the description of the rewards")
        tasks = (*map(TaskShare, files), *map(_share, self.task))
        given = {"tasks": tasks, "name": run.new_name, "training": training, "rank": run.lora, "settings": settings}
        limits = {"steps": run.steps or 20, "save_every": run.save_every or 1}
        return filled(LiveWish, run, self, **given, **limits, **more)


def _share(text: str) -> TaskShare:
    """Returns the task that `FILE=WEIGHT` names. Raises UsageError."""
    from sciagent.training.live.settings import TaskShare

    file, _, weight = text.rpartition("=")
    try:
        return TaskShare(Path(file), float(weight))
    except ValueError as error:
        raise UsageError(f"--task {text}: write FILE=WEIGHT, as in --task small.yaml=2") from error


@dataclass(frozen=True, kw_only=True)
class DivergenceOptions:
    """The options that keep a policy near the model at the start."""

    kl: Annotated[
        float, typer.Option("--kl", min=0, help="Factor of the KL divergence from the model at the start.")
    ] = 0.0
    kl_budget: Annotated[
        float | None,
        typer.Option("--kl-budget", min=0, metavar="NATS", help="End where this divergence, per token, is larger."),
    ] = None
    entropy: Annotated[
        float, typer.Option("--entropy", min=0, help="Factor of a bonus for the entropy of the next token, in nats.")
    ] = 0.0

    def loss(self, distillation: float = 0.0) -> LossSettings:
        """Returns the constants of the loss."""
        from sciagent.training.learner.settings import LossSettings, filled

        return filled(LossSettings, self, distillation=distillation)


@dataclass(frozen=True, kw_only=True)
class CriticOptions:
    """The options of PPO's value head."""

    passes: Annotated[int, typer.Option("--passes", min=1, help="Updates on the rows of a step.")] = 4
    decay: Annotated[
        float, typer.Option("--decay", min=0, max=1, help="Lambda of GAE: 0 trusts the value head, 1 the rewards.")
    ] = 0.95
    discount: Annotated[float, typer.Option("--discount", min=0, max=1, help="Gamma: of the next turn's reward.")] = 1.0
    value_learning_rate: Annotated[float, typer.Option("--value-learning-rate", min=0, help="Of the value head.")] = (
        1e-3
    )
    warmup: Annotated[
        int, typer.Option("--critic-warmup", min=0, help="Updates of the value head before the policy's first update.")
    ] = 20
    clip: Annotated[
        float | None,
        typer.Option(
            "--value-clip",
            min=0,
            metavar="SD",
            help="Largest useful change of a value in a step, in standard deviations of its targets; default: none.",
        ),
    ] = None

    def critic(self) -> CriticSettings:
        """Returns the settings of the value head."""
        from sciagent.training.learner.settings import CriticSettings, filled

        return filled(CriticSettings, self, learning_rate=self.value_learning_rate)


def teacher_share(text: str) -> TeacherShare:
    """Returns a teacher from `NAME` or `NAME=WEIGHT`. Raises UsageError for a weight that is no positive number."""
    from sciagent.training.learner.settings import TeacherShare

    name, _, weight = text.partition("=")
    try:
        share = TeacherShare(name, float(weight or 1))
    except ValueError:
        share = TeacherShare(name, 0.0)
    if not name or not 0 < share.weight < float("inf"):
        raise UsageError(f"--teacher {text}: state NAME or NAME=WEIGHT, where the weight is a number above 0")
    return share


def refuse_stated(options: Any, why: str, besides: type | None = None) -> None:
    """Raises UsageError for an option that is not at its default. besides: a class whose options may be stated."""
    allowed = {each.name for each in fields(besides)} if besides is not None else set()
    hints = get_type_hints(type(options), include_extras=True)
    for each in fields(options):
        if each.name not in allowed and getattr(options, each.name) != _default(each):
            [option] = hints[each.name].__metadata__
            names = option.default, *(option.param_decls or ())  # inside Annotated, typer keeps the first name there
            typed = next((name for name in names if str(name).startswith("--")), f"--{each.name.replace('_', '-')}")
            raise UsageError(f"{typed} is {why}")


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command for typer which has, in place of each parameter of a dataclass, options for its fields."""
    given = inspect.signature(command, eval_str=True).parameters.values()
    spread = {each.name: each.annotation for each in given if is_dataclass(each.annotation)}
    shown = [part for each in given for part in (_parameters(spread[each.name]) if each.name in spread else [each])]

    @functools.wraps(command)
    def called(**values: Any) -> None:
        made = {
            name: kind(**{each.name: values.pop(each.name) for each in fields(kind)})  # type: ignore[operator]
            for name, kind in spread.items()
        }
        command(**values, **made)

    called.__annotations__ = {each.name: each.annotation for each in shown}
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return called


def _parameters(kind: Any) -> list[inspect.Parameter]:
    """Returns a parameter for each field. `--help` shows those that the class itself declares below its `PANEL`."""
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.__annotations__ if hasattr(kind, "PANEL") else ():
        hints[name].__metadata__[0].rich_help_panel = kind.PANEL
    return [
        inspect.Parameter(
            each.name, inspect.Parameter.KEYWORD_ONLY, default=_default(each), annotation=hints[each.name]
        )
        for each in fields(kind)
    ]


def _default(of: Field[Any]) -> Any:
    if of.default_factory is not MISSING:
        return of.default_factory()
    return inspect.Parameter.empty if of.default is MISSING else of.default
