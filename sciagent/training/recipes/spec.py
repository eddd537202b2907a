"""The recipe file: a model, tasks, rewards, and the stages of the training.

The stages of a recipe, as its YAML file states them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from sciagent.domain.unset import omitted_if_unset
from sciagent.inputs.document import read, read_text
from sciagent.inputs.validation import Faults, fault, validated
from sciagent.rewards.spec import Credit
from sciagent.training.evaluation.spec import EvaluateSpec
from sciagent.training.guards import GuardSettings
from sciagent.training.rollouts.snapshot import PATTERN

PART = ConfigDict(extra="forbid", frozen=True)
Whole = Annotated[int, Field(strict=True, ge=1, le=10**6)]
Positive = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Portion = Annotated[float, Field(strict=True, ge=0, le=1)]
StageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Begins = Annotated[
    str,
    Field(
        alias="from",
        pattern=PATTERN,
        description="What groups see: all candidates of the campaign (`now`) or its `seeds`; `seeds:8`: 8 drawn ones.",
    ),
]


KL = "Factor of the KL divergence from the model at the start of the stage."
KL_BUDGET = "The stage ends where this divergence is larger."


class _Stage(BaseModel):
    model_config = PART

    name: StageName | None = Field(
        default=None, description="Name of the stage, and the end of its policy's name; left out: its kind."
    )


class EpisodesStage(_Stage):
    """A stage that rolls out groups of episodes in every task; it makes no policy."""

    kind: Literal["demonstrations", "rollouts"] = Field(
        description="demonstrations: by a script or another model; rollouts: by the policy so far."
    )
    policy: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Demonstrations: `scripted` (left out), or the name of a model, a role or a policy.",
    )
    groups: Whole = Field(default=4, description="Groups in each task.")
    siblings: Whole = Field(default=8, description="Episodes in a group.")
    turns: Whole = Field(default=6, description="Most answers in an episode.")
    begins: Begins = "now"


class _Training(_Stage):
    learning_rate: Positive | None = Field(default=None, description="Of AdamW; left out: as of the command.")
    lora: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=0, description="Rank of a LoRA adapter; 0: all weights."
    )
    most_tokens: Whole = Field(default=8192, description="Tokens computed at once; less needs less memory.")
    save_every: Whole | None = Field(default=None, description="Steps between checkpoints.")


class RowsStage(_Training):
    """A stage that trains on the episodes that the tasks have so far."""

    kind: str
    epochs: Whole = Field(default=1, description="How often each row is trained.")
    steps: Whole | None = Field(default=None, description="Most steps; left out: all rows.")
    rows_per_step: Whole = Field(default=32, description="Rows of a step.")


class AnswersStage(RowsStage):
    """A stage that imitates verified answers: supervised fine-tuning."""

    kind: Literal["sft", "hindsight"] = Field(
        description="sft: verified turns; hindsight: turns under the goal that they achieved."
    )
    at_least: float = Field(default=0.5, description="Payoff of a verified turn, in hits or utility.")
    per_scaffold: Whole = Field(default=4, description="Most rows of one scaffold and goal.")


class TaughtStage(RowsStage):
    """A stage that learns at each token what a teacher says: distillation."""

    kl: Share = Field(default=0.0, description=KL)
    kl_budget: Share | None = Field(default=None, description=KL_BUDGET)


class DistillStage(TaughtStage):
    """A stage whose teachers are other models, as in `sciagent train distill`."""

    kind: Literal["distill"]
    teachers: dict[str, Positive] = Field(
        min_length=1, description="Weight of each teacher: `{NAME: 1}`, of `sciagent models list`."
    )


class HintedStage(TaughtStage):
    """A stage whose teacher is the model at its start, with a hint from the verdict on each turn that failed.

    It is the training of `sciagent train hindsight`.
    """

    kind: Literal["hinted"]


class RaySpec(BaseModel):
    """Processes of Ray that roll out the groups of a stage, each those of its tasks."""

    model_config = PART

    actors: Whole = Field(description="Number of processes; a task is rolled out by one of them.")
    address: str | None = Field(default=None, min_length=1, description="Of a cluster; left out: on this machine.")


class CriticSpec(BaseModel):
    """The value head of PPO, and the advantages that it gives."""

    model_config = PART

    passes: Whole = Field(default=4, description="Updates on the rows of a step.")
    decay: Portion = Field(default=0.95, description="Lambda of GAE: 0 trusts the value head, 1 the rewards.")
    discount: Portion = Field(default=1.0, description="Gamma: factor of the next turn's reward.")
    learning_rate: Positive = Field(default=1e-3, description="Of the value head.")
    warmup: Annotated[int, Field(strict=True, ge=0, le=10**6)] = Field(
        default=20, description="Updates of the value head before the first update of the policy."
    )
    clip: Positive | None = Field(
        default=None,
        description="Largest change of a value in a step that still lowers its loss, in standard deviations of the "
        "targets; left out: no limit.",
    )


class LiveStage(_Training):
    """A stage that trains on the live ladder: each step rolls out groups, waits for the verdicts, and trains."""

    kind: Literal["grpo", "ppo"]
    credit: Credit | None = Field(
        default=None, description="Estimator of the advantages; left out: that of the rewards."
    )
    steps: Whole = Field(default=20, description="Number of steps.")
    groups: Whole = Field(default=4, description="Groups of a step, over all tasks.")
    siblings: Annotated[int, Field(strict=True, ge=2, le=1000)] = Field(default=8, description="Episodes in a group.")
    turns: Whole = Field(default=6, description="Most answers in an episode.")
    begins: Begins = "now"
    further: Annotated[int, Field(strict=True, ge=0)] | None = Field(
        default=None, description="Most groups of a step in place of those whose siblings earned the same."
    )
    lag: Annotated[int, Field(strict=True, ge=0)] = Field(
        default=1, description="Most steps after which a late verdict is still trained."
    )
    patience: Share = Field(default=3600.0, description="Longest wait of a step for paid rungs, in seconds.")
    ahead: Annotated[int, Field(strict=True, ge=0, le=1)] = Field(
        default=0, description="Steps by which sampling is ahead of training."
    )
    ray: RaySpec | None = omitted_if_unset(
        None, description="Processes of Ray that roll out; left out: one process does all."
    )
    endpoint: str | None = omitted_if_unset(
        None,
        min_length=1,
        description="Address of `serve-model --trainable`, which samples; needs `lora`, since each version is loaded "
        "as an adapter. Left out: the model samples in this process.",
    )
    kl: Share = Field(default=0.0, description=KL)
    kl_budget: Share | None = Field(default=None, description=KL_BUDGET)
    entropy: Share = Field(default=0.0, description="Factor of a bonus for the entropy of the next token, in nats.")
    critic: CriticSpec | None = Field(default=None, description="The value head of `ppo`; left out: as of the command.")
    guards: GuardSettings | None = Field(default=None, description="Limits of the guards; left out: the usual.")

    @model_validator(mode="after")
    def _fits(self) -> LiveStage:
        if self.endpoint is not None and not self.lora:
            raise fault("endpoint: it samples from adapters", "add lora: RANK")
        if self.critic is not None and self.kind != "ppo":
            raise fault(f"critic: a stage of kind {self.kind} has no value head", "leave it out, or take kind: ppo")
        return self


class AuditStage(_Stage):
    """A stage that compares the last policy with the first one on tasks with a dearer ladder."""

    kind: Literal["audit"]
    tasks: tuple[str, ...] = Field(
        min_length=1, description="Campaign files with the dearer ladder, relative to the folder of the recipe."
    )
    seeds: tuple[Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)], ...] | None = Field(
        default=None, min_length=1, description="Seeds of the campaigns; left out: those of `evaluate`."
    )
    verifications: Whole | None = Field(
        default=None, description="Verifications in each campaign; left out: those of `evaluate`."
    )


StageSpec = Annotated[
    EpisodesStage | AnswersStage | DistillStage | HintedStage | LiveStage | AuditStage, Field(discriminator="kind")
]
TRAINING = (RowsStage, LiveStage)
"""Stages that make a policy."""


FEWEST = 3  # campaigns of a policy, for an interval


class NewModelSpec(BaseModel):
    """A model with random weights; its tokens are learned from the data set of the first stage that trains."""

    model_config = PART

    hidden_size: Whole = Field(default=192, description="Numbers in the state of a token; a multiple of 32.")
    layers: Whole = Field(default=4, description="Layers of the network.")
    vocabulary: Whole = Field(default=2048, description="Most tokens of the tokenizer.")
    context: Whole = Field(default=8192, description="Most tokens of a prompt and its answer.")


class BaseModelSpec(BaseModel):
    """The model that the recipe makes."""

    model_config = PART

    new: NewModelSpec = Field(description="Its size.")


class TaskSpec(BaseModel):
    """A campaign that is a task, with its share of the groups of live training."""

    model_config = PART

    campaign: str = Field(description="A campaign file, relative to the folder of the recipe.")
    weight: Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)] = Field(
        default=1.0, description="Its share is this divided by the sum over all tasks."
    )


class RecipeSpec(BaseModel):
    """A recipe: training by stages, each compared with the one before on held-out tasks."""

    model_config = PART

    recipe: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = Field(
        description="Its name; policies are named after the folder of the run."
    )
    model: str | BaseModelSpec = Field(
        description="The model at the start: a name in `sciagent models list`, or `{new: {}}` for random weights."
    )
    tasks: tuple[str | TaskSpec, ...] = Field(min_length=1, description="Campaign files to train on.")
    rewards: str | None = Field(default=None, description="File that describes the rewards, for live training.")
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = Field(default=0, description="Seed of all stages.")
    on_worse: Literal["stop", "keep"] = Field(
        default="stop",
        description="After a stage whose policy is worse than the one before: stop, or keep that one and go on.",
    )
    stages: tuple[StageSpec, ...] = Field(min_length=1, description="The stages, in order.")
    evaluate: EvaluateSpec | None = Field(
        default=None,
        description="Held-out tasks on which each new policy is compared with the one before, and the arms of "
        "`sciagent evaluate`. Left out: no comparison.",
    )

    @model_validator(mode="after")
    def _fits(self) -> RecipeSpec:
        with Faults() as faults:
            for place, problem in self._problems():
                faults.add(("stages", place), problem)
            if self.rewards is None and any(isinstance(stage, LiveStage) for stage in self.stages):
                faults.add(("rewards",), "required for live training, and missing", "name a file", True)
        return self

    @model_validator(mode="after")
    def _can_compare(self) -> RecipeSpec:
        if self.evaluate is not None and (n := len(self.evaluate.tasks) * len(self.evaluate.seeds)) < FEWEST:
            with Faults() as faults:
                faults.add(("evaluate",), f"{n} campaigns of a policy give no interval", "name more tasks or seeds")
        return self

    def _problems(self) -> list[tuple[int, str]]:
        """Returns what is wrong with the order of the stages: (number of the stage, message)."""
        found = []
        has_policy = isinstance(self.model, str)
        names = self.names
        for place, stage in enumerate(self.stages):
            if names[place] in names[:place]:
                found.append((place, f"the name {names[place]} is taken by an earlier stage"))
            if isinstance(stage, EpisodesStage) and stage.kind == "rollouts" and stage.policy is not None:
                found.append((place, "rollouts are made by the policy so far; leave `policy` out"))
            if isinstance(stage, AuditStage) and self.evaluate is None and None in (stage.seeds, stage.verifications):
                found.append((place, "an audit without `evaluate` needs seeds and verifications"))
            if not has_policy and not isinstance(stage, AnswersStage) and stage.kind != "demonstrations":
                found.append((place, "a new model is first taught by a stage of kind sft or hindsight"))
            has_policy = has_policy or isinstance(stage, TRAINING)
        return found

    @property
    def names(self) -> list[str]:
        """The name of each stage; of stages without a name, the second of a kind is `KIND-2`, and so on."""
        seen = Counter[str]()
        names = list[str]()
        for stage in self.stages:
            seen[stage.kind] += 1
            again = f"-{seen[stage.kind]}" if seen[stage.kind] > 1 else ""
            names.append(stage.name or f"{stage.kind}{again}")
        return names

    @property
    def task_specs(self) -> list[TaskSpec]:
        return [task if isinstance(task, TaskSpec) else TaskSpec(campaign=task) for task in self.tasks]


def recipe_schema() -> JsonSchemaValue:
    """Returns the JSON schema of the recipe file."""
    schema = RecipeSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sciagent recipe"}


def load_recipe(path: Path) -> RecipeSpec:
    """Reads a recipe. Raises SpecError, with all mistakes by line."""
    return validated(read(read_text(path), "a recipe", "recipe: name"), str(path), RecipeSpec)


def stage_number(spec: RecipeSpec, name: str) -> int:
    """Returns the place of a stage, from 0. Raises UnknownNameError."""
    from sciagent.errors import UnknownNameError

    if name not in spec.names:
        raise UnknownNameError("stage", name, spec.names)
    return spec.names.index(name)
