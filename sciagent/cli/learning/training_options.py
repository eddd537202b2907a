"""Options that the commands of `sciagent train` share, each written once, as a field of a dataclass."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from sciagent.cli.shared import options
from sciagent.errors import UsageError

if TYPE_CHECKING:
    from sciagent.training.learner.settings import (
        CriticSettings,
        LossSettings,
        StepSettings,
        TeacherShare,
        TrainingWish,
    )


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of every training run."""

    model: Annotated[str, typer.Option("--model", "-m", metavar="NAME", help="A model in `sciagent models list`.")]
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Of the run; named again, the run goes on.")
    ]
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Of the new model; default: the name of the folder.")
    ] = None
    steps: Annotated[int | None, typer.Option("--steps", min=1, help="Most steps; default: all rows.")] = None
    learning_rate: Annotated[float | None, typer.Option("--learning-rate", min=0, help="Of AdamW.")] = None
    lora: Annotated[int, typer.Option("--lora", min=0, metavar="RANK", help="Rank of an adapter; 0: all weights.")] = 0
    seed: Annotated[int, typer.Option("--seed", help="Of the order of rows and of the adapter's first weights.")] = 0
    most_tokens: Annotated[
        int, typer.Option("--most-tokens", min=1, help="Tokens computed at once; less needs less memory.")
    ] = 8192
    save_every: Annotated[
        int, typer.Option("--save-every", min=1, metavar="STEPS", help="Steps between checkpoints.")
    ] = 20
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Of a CPU; with 1, a run can be repeated exactly.")
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

    rows_per_step: Annotated[int, typer.Option("--rows-per-step", min=1, help="Rows of a step; groups stay whole.")] = (
        32
    )
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="How often each row is trained.")] = 1

    def wish(self, training: str, rows: Path, settings: StepSettings, **more: Any) -> TrainingWish:
        """Returns the task of the run. more: further fields of `TrainingWish`."""
        from sciagent.training.learner.settings import TrainingWish

        return TrainingWish(
            *(training, rows, self.model, self.out, self.new_name, self.rows_per_step),
            epochs=self.epochs,
            steps=self.steps,
            rank=self.lora,
            seed=self.seed,
            save_every=self.save_every,
            threads=self.threads,
            settings=settings,
            **more,
        )


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

    def critic(self) -> CriticSettings:
        """Returns the settings of the value head."""
        from sciagent.training.learner.settings import CriticSettings

        return CriticSettings(
            learning_rate=self.value_learning_rate, discount=self.discount, decay=self.decay, passes=self.passes
        )


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


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Returns a command for typer which has, in place of each parameter of a dataclass, options for its fields."""
    given = inspect.signature(command, eval_str=True).parameters.values()
    spread = {each.name: each.annotation for each in given if is_dataclass(each.annotation)}
    shown = [part for each in given for part in (_parameters(spread[each.name]) if each.name in spread else [each])]

    @functools.wraps(command)
    def called(**values: Any) -> None:
        made = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})  # type: ignore[operator]
            for name, kind in spread.items()
        }
        command(**values, **made)

    called.__annotations__ = {each.name: each.annotation for each in shown}
    called.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    return called


def _parameters(kind: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(kind)
    ]
