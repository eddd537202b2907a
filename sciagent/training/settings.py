"""The settings of training, each written once: options of commands, keys of recipes and arguments in Python.

A setting is a field with its description, unit, bounds and default. Settings that belong together are one model. The
settings of a run, a stage of a recipe and the options of a command are put together from these models.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from sciagent.domain.omit_unset import omitted_if_unset
from sciagent.errors import UsageError, did_you_mean
from sciagent.inputs.yaml_validation import FAULT, fault
from sciagent.rewards.reward_spec import Credit

Training = Literal["sft", "grpo", "ppo", "distill", "hindsight"]
LiveTraining = Literal["grpo", "ppo"]
DatasetKind = Literal["rows", "sft", "hindsight", "preference", "unpaired", "skill"]
DATASET_KINDS: tuple[DatasetKind, ...] = get_args(DatasetKind)

Count = Annotated[int, Field(strict=True, ge=1, le=10**6)]
Natural = Annotated[int, Field(strict=True, ge=0)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Portion = Annotated[float, Field(strict=True, ge=0, le=1)]
Text = Annotated[str, Field(min_length=1)]

SUPERVISED_RATE = 2e-5  # learning rate of AdamW for imitation and distillation, unless another is stated
POLICY_RATE = 1e-6  # learning rate of AdamW for policy gradients, unless another is stated
MOST_TOKENS = 8192  # largest number of tokens of a micro-batch, unless another number is stated
OFF = "off"  # the limit of a guard that is turned off, as an option states it


@dataclass(frozen=True)
class CountsFor:
    """Marks the type of a field that only some trainings, or kinds of data sets, have a use for. Others refuse it."""

    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Option:
    """Marks the type of a field whose option is not called like the field, or is typed in another way."""

    names: tuple[str, ...] = ()
    """Names of the option, such as `--groups` and `-g`; empty: `--` and the name of the field."""
    metavar: str | None = None
    """What the help shows in place of the option's value; None: the usual word for the type."""
    parse: Callable[[Sequence[str]], Any] | None = None
    """Reads the texts of an option that may be repeated. Raises UsageError."""


class NoOption:
    """Marks the type of a field that has no option: a command sets it itself, or it is for Python alone."""


class Problem(NamedTuple):
    """A setting that contradicts the others, or that has no effect."""

    field: str
    message: str
    way_out: str


class SettingsGroup(BaseModel):
    """Settings that belong together: unknown names are refused, and values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def problems(self, kind: str) -> Iterator[Problem]:
        """Yields what is wrong with the settings as a whole. kind: the training, or kind of data set, that they are
        for."""
        for name, field in type(self).model_fields.items():
            if name in self.model_fields_set and getattr(self, name) is not None:
                for mark in field.metadata:
                    if isinstance(mark, CountsFor) and kind not in mark.kinds:
                        useful_for = ", ".join(mark.kinds)
                        yield Problem(name, f"has no effect for {kind}; it counts for {useful_for}", "leave it out")


NameOf = Callable[[Sequence[int | str]], str]
"""Returns the name of a setting, as a person stated it, from its path."""


class CheckedSettings(SettingsGroup):
    """Settings that are stated together. Wrong ones raise UsageError."""

    SOURCE: ClassVar[str] = ""
    """The input of a run with these settings, such as `campaigns`. A command may take settings of several kinds; its
    messages then say for which input an option is."""
    KIND: ClassVar[str] = "training"
    """Name of the field whose value decides which other fields have an effect; see `CountsFor`."""

    @model_validator(mode="wrap")
    @classmethod
    def _check(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        """Validates the settings. The context may have a function `name_of`, which names a setting in messages."""
        name_of: NameOf = (info.context or {}).get("name_of", _dotted)
        try:
            settings = handler(data)
        except ValidationError as error:
            raise UsageError(_sentences(error, name_of)) from None
        problems = list(settings.problems(getattr(settings, cls.KIND)))
        if problems:
            raise UsageError("\n".join(f"{name_of([each.field])}: {each.message}; {each.way_out}" for each in problems))
        return settings

    def with_changes(self, **changes: Any) -> Self:
        """Returns the settings with other values of some fields. Raises UsageError."""
        stated_values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**(stated_values | changes))


def _dotted(place: Sequence[int | str]) -> str:
    return ".".join(map(str, place))


def _sentences(error: ValidationError, name_of: NameOf) -> str:
    """Returns a line for each wrong value."""
    lines = []
    for wrong in error.errors(include_url=False):
        message = wrong["msg"]
        if wrong["type"] == "missing":
            message = "required, and missing"
        elif wrong["type"] == "extra_forbidden":
            message = "there is no such setting"
        elif wrong["type"] != FAULT:  # a fault of sciagent says all that there is to say
            message += f", not {wrong['input']!r}"
        lines.append(f"{name_of(wrong['loc'])}: {message}")
    return "\n".join(lines)


class StepSettings(SettingsGroup):
    """The step, and the weights that it changes."""

    learning_rate: Positive | None = Field(default=None, description="Of AdamW; left out: 2e-5, for grpo and ppo 1e-6.")
    lora: Annotated[Natural, Option(metavar="RANK")] = Field(
        default=0, description="Rank of a LoRA adapter; 0: all weights."
    )
    most_tokens: Count = Field(default=MOST_TOKENS, description="Tokens computed at once; less needs less memory.")
    save_every: Annotated[Count | None, Option(metavar="STEPS")] = Field(
        default=None, description="Steps between checkpoints; left out: 20, with campaigns 1."
    )


class DivergenceSettings(SettingsGroup):
    """What keeps a policy near the model at the start."""

    kl: NotNegative = Field(
        default=0.0, description="Factor of the KL divergence from the model at the start of the run or stage."
    )
    kl_budget: Annotated[NotNegative | None, Option(metavar="NATS")] = Field(
        default=None, description="Training ends where this divergence, in nats per token, is larger."
    )


class LossSettings(DivergenceSettings):
    """The parts of the loss beside those of the rows."""

    entropy: NotNegative = Field(
        default=0.0, description="Factor of a bonus for the entropy of the next token, in nats."
    )


class LearnerConstants(SettingsGroup):
    """The constants of the loss and of the optimiser. They are arguments in Python alone."""

    clip_low: NotNegative = Field(
        default=0.8, description="Smallest ratio that still gives a gradient to a token of negative advantage."
    )
    clip_high: NotNegative = Field(
        default=1.28, description="Largest ratio that still gives a gradient to a token of positive advantage."
    )
    mask_low: NotNegative = Field(default=0.5, description="A token with a smaller ratio is dropped.")
    mask_high: NotNegative = Field(default=5.0, description="A token with a larger ratio is dropped.")
    weight_decay: NotNegative = Field(default=0.0, description="Weight decay of AdamW.")
    most_gradient: Positive = Field(
        default=1.0, description="Norm of a gradient; one of a larger norm is scaled down to it."
    )
    value_loss: NotNegative = Field(
        default=0.1, description="Factor of the value head's loss, whose gradient reaches the policy's weights too."
    )


class CriticSettings(SettingsGroup):
    """The value head of PPO, and the advantages that it gives."""

    passes: Annotated[Count, Option(("--passes",))] = Field(default=4, description="Updates on the rows of a step.")
    decay: Annotated[Portion, Option(("--decay",))] = Field(
        default=0.95, description="Lambda of GAE: 0 trusts the value head, 1 the rewards."
    )
    discount: Annotated[Portion, Option(("--discount",))] = Field(
        default=1.0, description="Gamma: factor of the next turn's reward."
    )
    learning_rate: Annotated[Positive, Option(("--value-learning-rate",))] = Field(
        default=1e-3, description="Of the value head."
    )
    warmup: Annotated[Natural, Option(("--critic-warmup",))] = Field(
        default=20, le=10**6, description="Updates of the value head before the first update of the policy."
    )
    clip: Annotated[Positive | None, Option(("--value-clip",), "SD")] = Field(
        default=None,
        description="Largest change of a value in a step that still lowers its loss, in standard deviations of the "
        "targets; left out: no limit.",
    )


class LearnerSettings(LearnerConstants):
    """All that the learner computes with. A run makes them from its own settings."""

    learning_rate: NotNegative = Field(default=1e-5, description="Of AdamW.")
    most_tokens: Count = Field(default=MOST_TOKENS, description="Tokens of a micro-batch, after padding.")
    kl: NotNegative = Field(default=0.0, description="Factor of the KL divergence from the reference.")
    entropy: NotNegative = Field(default=0.0, description="Factor of the entropy bonus, in nats.")
    distillation: NotNegative = Field(default=0.0, description="Factor of the reverse KL divergence from the teachers.")
    critic: CriticSettings | None = Field(default=None, description="The value head of PPO; None: there is none.")


class RowsSettings(SettingsGroup):
    """The rows of a data set, and their order."""

    rows_per_step: Count = Field(default=32, description="Rows of a step; groups stay whole.")
    epochs: Count = Field(default=1, description="How often each row is trained.")
    steps: Count | None = Field(default=None, description="Most steps; left out: all rows.")


def read_teachers(texts: Sequence[str]) -> Mapping[str, float]:
    """Returns the weights of teachers from texts such as `NAME` or `NAME=WEIGHT`. Raises UsageError."""
    weights = dict[str, float]()
    for text in texts:
        name, _, weight = text.partition("=")
        weights[name] = _number(weight or "1")
        if not name or not 0 < weights[name] < math.inf:
            raise UsageError(f"--teacher {text}: state NAME or NAME=WEIGHT, where the weight is a number above 0")
    return weights


def _number(text: str) -> float:
    """Returns a number; NaN for another text."""
    try:
        return float(text)
    except ValueError:
        return math.nan


Teachers = Annotated[
    Mapping[str, Positive],
    Field(
        min_length=1,
        description="Weight of each teacher, by its name in `sciagent models`; at least one, with the same tokenizer.",
    ),
    CountsFor(("distill",)),
    Option(("--teacher",), "NAME[=WEIGHT]", read_teachers),
]


class TeacherSettings(SettingsGroup):
    """The models that teach in distillation."""

    teachers: Teachers


BEGINNING_PATTERN = r"^(now|seeds)(:[1-9][0-9]{0,2})?$"
BEGINNINGS = "now, seeds, now:N and seeds:N with N from 1 to 999"
"""The texts that the setting `from` takes, for messages. A text says which candidates an episode sees at its beginning:
all that the campaign has now, or its seeds; with `:N`, N that are drawn from them."""


def check_beginning(text: str) -> str:
    """Returns the text, if it says what episodes see at their beginning. Raises a fault for any other text."""
    if re.match(BEGINNING_PATTERN, text) is None:
        raise fault(f'"{text}" is none of {BEGINNINGS}')
    return text


class EpisodeSettings(SettingsGroup):
    """An episode: what it sees, and how long it is."""

    turns: Annotated[Count, Option(("--turns", "-t"))] = Field(default=6, description="Most answers in an episode.")
    begins: Annotated[str, AfterValidator(check_beginning), Option(("--from",), "now[:N]|seeds[:N]")] = Field(
        default="now",
        alias="from",
        json_schema_extra={"pattern": BEGINNING_PATTERN},
        description="What groups see: all candidates of the campaign (`now`) or its `seeds`; `seeds:8`: 8 drawn ones.",
    )


class RaySettings(SettingsGroup):
    """Processes of Ray that roll out the groups of a step. Each process rolls out the groups of its own tasks."""

    actors: Annotated[Count, Option(("--actors",))] = Field(
        description="Number of processes of Ray that roll out; a task is rolled out by one of them."
    )
    address: Annotated[Text | None, Option(("--ray-address",), "ADDRESS")] = Field(
        default=None, description="Of a cluster of Ray; left out: on this machine."
    )


class GuardSettings(SettingsGroup):
    """The limits of the guards; `null` turns one off."""

    control_gap: NotNegative | None = Field(
        default=0.1,
        description="Largest growth of the control gap since the run's first policy, in hits or utility. The gap is "
        "the mean payoff of candidates by the terminal rung, less their score by the control.",
    )
    exploitation: NotNegative | None = Field(
        default=0.1,
        description="Largest exploitation index, in hits or utility: the mean payoff that the law promises for "
        "candidates, less the mean payoff that is found where candidates are drawn at random and verified.",
    )
    kl_budget: NotNegative | None = Field(
        default=1.0,
        description="Largest growth of the divergence from the model at the start while one version of the rewards is "
        "in force, in nats per token.",
    )
    unsettled: Portion | None = Field(
        default=0.5,
        description="Largest share of the reward that the terminal rung has not confirmed, over the last five steps.",
    )
    level: Annotated[float, Field(strict=True, gt=0, lt=0.5)] = Field(
        default=0.05,
        description="Probability with which control_gap, and likewise exploitation, stops a run without cause, in all "
        "its steps together.",
    )


def read_guards(texts: Sequence[str]) -> GuardSettings:
    """Returns the limits that texts state: `control_gap=0.2`, `unsettled=off`, or `off`, which turns all guards off.

    Guards that no text names have their usual limits. Raises UsageError for anything else.
    """
    limits: dict[str, float | None] = dict(GuardSettings())
    for text in texts:
        name, separator, value = text.partition("=")
        if text == OFF:
            # `level` is no guard: it is the probability of stopping without cause
            limits |= {guard: None for guard in limits if guard != "level"}
        elif name not in limits or not separator:
            known = ", ".join(limits)
            raise UsageError(f'"{text}" is no guard{did_you_mean(name, limits)}; write NAME=LIMIT or off: {known}')
        else:
            limits[name] = None if value == OFF else _number(value)
    try:
        return GuardSettings.model_validate(limits)
    except ValidationError as error:
        raise UsageError(_sentences(error, _dotted)) from None


class LadderSettings(EpisodeSettings, LossSettings, StepSettings):
    """A training on the live ladder: the groups of a step, their rewards, and how sampling goes on meanwhile."""

    steps: Count = Field(default=20, description="Number of steps.")
    groups: Annotated[Count, Option(("--groups", "-g"))] = Field(
        default=4, description="Groups of a step that have something to learn, over all tasks."
    )
    siblings: Annotated[int, Option(("--siblings", "-s"))] = Field(
        default=8, strict=True, ge=2, le=1000, description="Episodes in a group; one has nobody to be compared with."
    )
    credit: Annotated[Credit | None, CountsFor(("grpo",))] = Field(
        default=None, description="Estimator of the advantages; left out: that of the rewards."
    )
    further: Natural | None = Field(
        default=None,
        description="Most groups that are sampled in a step to replace those whose siblings all earned the same; left "
        "out: as many as `groups`.",
    )
    patience: Annotated[NotNegative, Option(metavar="SECONDS")] = Field(
        default=3600.0, description="Longest wait of a step for paid rungs, in seconds."
    )
    ahead: Annotated[int, Field(strict=True, ge=0, le=1)] = Field(
        default=0,
        description="Steps by which sampling is ahead of training; 1 rolls out the next step while one is trained.",
    )
    lag: Annotated[Natural, CountsFor(("grpo",))] = Field(
        default=1, description="Most steps after which a late verdict is still trained."
    )
    guards: Annotated[GuardSettings | None, Option(("--guard",), "NAME=LIMIT|NAME=off|off", read_guards)] = Field(
        default=None,
        description="Limits of the guards that stop the run, by name; left out: the usual. A guard without one is off.",
    )
    endpoint: Annotated[Text | None, Option(metavar="URL")] = omitted_if_unset(
        None,
        description="Address of `serve-model --trainable`, which samples; needs `lora`, since each version is loaded "
        "as an adapter. Left out: the model samples in this process.",
    )
    ray: RaySettings | None = omitted_if_unset(
        None, description="Processes of Ray that roll out; left out: one process does all."
    )
    critic: Annotated[CriticSettings | None, CountsFor(("ppo",))] = Field(
        default=None, description="The value head of `ppo`; left out: the usual one."
    )

    def problems(self, kind: str) -> Iterator[Problem]:
        yield from super().problems(kind)
        if self.endpoint is not None and not self.lora:
            yield Problem("endpoint", "it samples from adapters", "add lora: RANK")
        # a group that was sampled ahead of the training is late by as many steps
        if self.ahead > self.lag:
            yield Problem("ahead", f"{self.ahead} is more than the {self.lag} steps that lag allows", "raise lag")


class RunSettings(CheckedSettings):
    """A training run: the model that it trains, and where."""

    model: Annotated[Text, Option(("--model", "-m"), "NAME")] = Field(
        description="The model that is trained, of `sciagent models`."
    )
    out: Annotated[Path, Option(("--out", "-o"), "FOLDER")] = Field(
        description="Folder of the run; named again, the run goes on."
    )
    name: Annotated[Text | None, Option(metavar="NAME")] = Field(
        default=None, description="Name of the new model; left out: that of the folder."
    )
    seed: Seed = Field(default=0, description="Seed of the order of rows and of the adapter's first weights.")
    threads: Count | None = Field(
        default=None,
        description="Threads on a CPU; with 1, a run can be repeated exactly. Left out: as many as there are cores.",
    )
    constants: Annotated[LearnerConstants, NoOption()] = Field(
        default=LearnerConstants(), description="The constants of the loss and of the optimiser."
    )

    @property
    def new_name(self) -> str:
        """The name of the new model."""
        return self.name or self.out.resolve().name


class TrainingSettings(RowsSettings, LossSettings, StepSettings, RunSettings):
    """A training run on the rows of a data set. Wrong settings raise UsageError."""

    SOURCE = "a folder of rows"

    training: Annotated[Training, NoOption()] = Field(description="What is done with the rows.")
    rows: Annotated[Path, NoOption()] = Field(description="A folder that `dataset build` wrote.")
    teachers: Teachers = Field(default_factory=dict)
    critic: Annotated[CriticSettings | None, CountsFor(("ppo",))] = Field(
        default=None, description="The value head of `ppo`; left out: the usual one."
    )

    @property
    def learner(self) -> LearnerSettings:
        """What the learner computes with."""
        return learner_settings(self)

    @property
    def checkpoint_steps(self) -> int:
        """Steps between checkpoints."""
        return self.save_every or 20

    def problems(self, kind: str) -> Iterator[Problem]:
        yield from super().problems(kind)
        if kind == "distill" and not self.teachers:
            yield Problem("teachers", "distillation needs a teacher", "name a model of `sciagent models`")


class TaskShare(SettingsGroup):
    """A campaign that is a task, and its share of the groups."""

    file: Path = Field(description="The campaign, a YAML file.")
    weight: Positive = Field(default=1.0, description="Its share is this divided by the sum over all tasks.")


def read_tasks(texts: Sequence[str]) -> list[TaskShare]:
    """Returns the tasks of texts such as `FILE=WEIGHT`. Raises UsageError."""
    tasks = []
    for text in texts:
        file, _, weight = text.rpartition("=")
        if not file or not 0 < _number(weight) < math.inf:
            raise UsageError(f"--task {text}: write FILE=WEIGHT, as in --task small.yaml=2")
        tasks.append(TaskShare(file=Path(file), weight=_number(weight)))
    return tasks


class LiveSettings(LadderSettings, RunSettings):
    """A training run on the live ladder. Wrong settings raise UsageError."""

    # in Python `begins` is the name of the field whose key is `from`
    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True)
    SOURCE = "campaigns"

    training: Annotated[LiveTraining, NoOption()] = Field(
        default="grpo", description="How the policy is updated by the rewards."
    )
    tasks: Annotated[tuple[TaskShare, ...], Option(("--task",), "FILE=WEIGHT", read_tasks)] = Field(
        min_length=1, description="Campaigns to roll out, each with its share of the groups."
    )
    rewards: Annotated[Path, Option(metavar="FILE")] = Field(description="The description of the rewards, a YAML file.")
    workers: Annotated[Count | None, Option(("--workers", "-w"))] = Field(
        default=None, description="Paid jobs, and processes of inline rungs, at once; left out: as in the campaigns."
    )
    parts: Count = Field(
        default=4,
        description="Parts of a step's groups that take turns: one samples while others are verified; 1: sampling "
        "waits for each verification.",
    )

    @property
    def learner(self) -> LearnerSettings:
        """What the learner computes with."""
        return learner_settings(self)

    @property
    def checkpoint_steps(self) -> int:
        """Steps between checkpoints."""
        return self.save_every or 1

    @property
    def most_groups(self) -> int:
        """Largest number of groups of a step."""
        most_replacements = self.groups if self.further is None else self.further
        return self.groups + most_replacements

    @property
    def actors(self) -> int:
        """Number of processes of Ray; 0: this process rolls out."""
        return 0 if self.ray is None else self.ray.actors

    @property
    def guard_limits(self) -> GuardSettings:
        """The limits of the guards. The run's own `kl_budget`, if it is set, replaces that of the guards."""
        limits = self.guards or GuardSettings()
        if self.kl_budget is None:
            return limits
        return limits.model_copy(update={"kl_budget": self.kl_budget})


def learner_settings(run: TrainingSettings | LiveSettings) -> LearnerSettings:
    """Returns the settings of a run's learner. What the run leaves out has the usual value of its training."""
    is_policy_gradient = run.training in ("grpo", "ppo")
    learning_rate = run.learning_rate
    if learning_rate is None:
        learning_rate = POLICY_RATE if is_policy_gradient else SUPERVISED_RATE
    critic = None
    if run.training == "ppo":
        critic = run.critic or CriticSettings()
    return LearnerSettings(
        **dict(run.constants),
        learning_rate=learning_rate,
        most_tokens=run.most_tokens,
        kl=run.kl,
        entropy=run.entropy,
        # these learn from a teacher: another model, or the model with a hint
        distillation=1.0 if run.training in ("distill", "hindsight") else 0.0,
        critic=critic,
    )


class AnswerSettings(SettingsGroup):
    """Which verified answers a data set takes."""

    at_least: Annotated[float, CountsFor(("sft", "hindsight", "unpaired"))] = Field(
        default=0.5, description="Payoff of a verified turn, in hits or utility; below it, a turn has failed."
    )
    per_scaffold: Annotated[Count, CountsFor(("sft", "hindsight", "preference", "unpaired"))] = Field(
        default=4, description="Most rows of one scaffold and goal."
    )


class DatasetSettings(AnswerSettings, CheckedSettings):
    """A data set for training. Wrong settings raise UsageError."""

    KIND = "kind"

    kind: Annotated[DatasetKind, NoOption()] = Field(description="What its rows are.")
    campaigns: Annotated[tuple[str, ...], Option(("--campaign", "-c"), "NAME")] = Field(
        min_length=1, description="A campaign whose episodes are read."
    )
    as_of: Annotated[Natural | None, Option(metavar="WATERMARK")] = Field(
        default=None, description="Evidence and turns up to this watermark; left out: all that there is."
    )
    rewards: Annotated[tuple[int, ...], CountsFor(("rows",)), Option(metavar="VERSION")] = Field(
        default=(),
        description="Version of `rewards publish`, at most one for each campaign; left out: the last of each campaign.",
    )
    p_better: Annotated[float, CountsFor(("preference",))] = Field(
        default=0.9, ge=0.5, le=1, description="A pair needs a higher probability than this."
    )
    test_share: Annotated[float, Field(ge=0, le=0.9)] = Field(
        default=0.1, description="Share of the goals in the test split."
    )
    test_campaigns: Annotated[tuple[str, ...], Option(("--test-campaign",), "NAME")] = Field(
        default=(), description="A campaign whose goals are in the test split."
    )
    groups: Annotated[tuple[int, ...] | None, NoOption()] = Field(
        default=None, description="Ids of groups of rollouts: only their episodes; None: all."
    )
    license: Annotated[Text | None, Option(metavar="LICENCE")] = Field(
        default=None, description="SPDX identifier or URL, for the card."
    )
    command: Annotated[str, NoOption()] = Field(default="", description="The command line, for the card.")

    def problems(self, kind: str) -> Iterator[Problem]:
        yield from super().problems(kind)
        unknown_names = [name for name in self.test_campaigns if name not in self.campaigns]
        if unknown_names:
            known_names = ", ".join(self.campaigns)
            yield Problem(
                "test_campaigns", f'"{unknown_names[0]}" is not among the campaigns', f"they are {known_names}"
            )
