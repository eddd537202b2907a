"""The recipe file: a model, tasks, rewards, and the stages of the training, as the YAML file states them.

Each kind of stage is a class; `RecipeSpec` is the whole file, which `load_recipe` reads.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from sciagent.inputs.yaml_document import read, read_text
from sciagent.inputs.yaml_validation import Faults, validated
from sciagent.training.evaluation.evaluation_spec import EvaluateSpec
from sciagent.training.settings import (
    AnswerSettings,
    Count,
    DivergenceSettings,
    EpisodeSettings,
    LadderSettings,
    Positive,
    RowsSettings,
    Seed,
    SettingsGroup,
    StepSettings,
    TeacherSettings,
)

StageName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]


class _Stage(SettingsGroup):
    name: StageName | None = Field(
        default=None, description="Name of the stage, and the end of its policy's name; left out: its kind."
    )


class EpisodesStage(EpisodeSettings, _Stage):
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
    groups: Count = Field(default=4, description="Groups in each task.")
    siblings: Count = Field(default=8, description="Episodes in a group.")


class RowsStage(RowsSettings, StepSettings, _Stage):
    """A stage that trains on the episodes that the tasks have so far."""

    kind: str


class AnswersStage(AnswerSettings, RowsStage):
    """A stage that imitates verified answers: supervised fine-tuning."""

    kind: Literal["sft", "hindsight"] = Field(
        description="sft: verified turns; hindsight: turns under the goal that they achieved."
    )


class DistillStage(TeacherSettings, DivergenceSettings, RowsStage):
    """A stage whose teachers are other models, as in `sciagent train distill`."""

    kind: Literal["distill"]


class HintedStage(DivergenceSettings, RowsStage):
    """A stage whose teacher is the model at its start, with a hint from the verdict on each turn that failed.

    It is the training of `sciagent train hindsight`.
    """

    kind: Literal["hinted"]


class LiveStage(LadderSettings, _Stage):
    """A stage that trains on the live ladder: each step rolls out groups, waits for the verdicts, and trains."""

    kind: Literal["grpo", "ppo"]

    @model_validator(mode="after")
    def _fits(self) -> LiveStage:
        with Faults() as faults:
            for problem in self.problems(self.kind):
                faults.add((problem.field,), problem.message, problem.way_out)
        return self


class AuditStage(_Stage):
    """A stage that compares the last policy with the first one on tasks with a dearer ladder."""

    kind: Literal["audit"]
    tasks: tuple[str, ...] = Field(
        min_length=1, description="Campaign files with the dearer ladder, relative to the folder of the recipe."
    )
    seeds: tuple[Seed, ...] | None = Field(
        default=None, min_length=1, description="Seeds of the campaigns; left out: those of `evaluate`."
    )
    verifications: Count | None = Field(
        default=None, description="Verifications in each campaign; left out: those of `evaluate`."
    )


StageSpec = Annotated[
    EpisodesStage | AnswersStage | DistillStage | HintedStage | LiveStage | AuditStage, Field(discriminator="kind")
]
TRAINING_STAGES = (RowsStage, LiveStage)
"""Stages that make a policy."""


MIN_CAMPAIGNS = 3  # fewest campaigns of a policy that give an interval


class NewModelSpec(SettingsGroup):
    """A model with random weights; its tokens are learned from the data set of the first stage that trains."""

    hidden_size: Count = Field(default=192, description="Numbers in the state of a token; a multiple of 32.")
    layers: Count = Field(default=4, description="Layers of the network.")
    vocabulary: Count = Field(default=2048, description="Most tokens of the tokenizer.")
    context: Count = Field(default=8192, description="Most tokens of a prompt and its answer.")


class BaseModelSpec(SettingsGroup):
    """The model that the recipe makes."""

    new: NewModelSpec = Field(description="Its size.")


class TaskSpec(SettingsGroup):
    """A campaign that is a task, with its share of the groups of live training."""

    campaign: str = Field(description="A campaign file, relative to the folder of the recipe.")
    weight: Positive = Field(default=1.0, description="Its share is this divided by the sum over all tasks.")


class RecipeSpec(SettingsGroup):
    """A recipe: training by stages, each compared with the one before on held-out tasks."""

    recipe: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")] = Field(
        description="Its name; policies are named after the folder of the run."
    )
    model: str | BaseModelSpec = Field(
        description="The model at the start: a name in `sciagent models`, or `{new: {}}` for random weights."
    )
    tasks: tuple[str | TaskSpec, ...] = Field(min_length=1, description="Campaign files to train on.")
    rewards: str | None = Field(default=None, description="File that describes the rewards, for live training.")
    seed: Seed = Field(default=0, description="Seed of all stages.")
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
                faults.add(("rewards",), "required for live training, and missing", "name a file", on_key=True)
        return self

    @model_validator(mode="after")
    def _can_compare(self) -> RecipeSpec:
        if self.evaluate is None:
            return self
        n_campaigns = len(self.evaluate.tasks) * len(self.evaluate.seeds)
        if n_campaigns < MIN_CAMPAIGNS:
            message = f"{n_campaigns} campaigns of a policy give no interval"
            with Faults() as faults:
                faults.add(("evaluate",), message, "name more tasks or seeds")
        return self

    def _problems(self) -> list[tuple[int, str]]:
        """Returns what is wrong with the stages, as pairs of the place of a stage, from 0, and a message."""
        problems = []
        has_policy = isinstance(self.model, str)
        names = self.names
        for place, stage in enumerate(self.stages):
            if names[place] in names[:place]:
                problems.append((place, f"the name {names[place]} is taken by an earlier stage"))
            if isinstance(stage, EpisodesStage) and stage.kind == "rollouts" and stage.policy is not None:
                problems.append((place, "rollouts are made by the policy so far; leave `policy` out"))
            if isinstance(stage, AuditStage) and self.evaluate is None and None in (stage.seeds, stage.verifications):
                problems.append((place, "an audit without `evaluate` needs seeds and verifications"))
            # a new model has no tokens yet, and cannot answer; such a stage teaches it by the answers of others
            if not has_policy and not isinstance(stage, AnswersStage) and stage.kind != "demonstrations":
                problems.append((place, "a new model is first taught by a stage of kind sft or hindsight"))
            has_policy = has_policy or isinstance(stage, TRAINING_STAGES)
        return problems

    @property
    def names(self) -> list[str]:
        """The name of each stage. A stage without a name is called by its kind; the second of a kind is `KIND-2`."""
        n_of_kind = Counter[str]()
        names = list[str]()
        for stage in self.stages:
            n_of_kind[stage.kind] += 1
            number = n_of_kind[stage.kind]
            kind_name = stage.kind if number == 1 else f"{stage.kind}-{number}"
            names.append(stage.name or kind_name)
        return names

    @property
    def task_specs(self) -> list[TaskSpec]:
        """The tasks, each with its share; 1 for a task that states none."""
        return [task if isinstance(task, TaskSpec) else TaskSpec(campaign=task) for task in self.tasks]


def recipe_schema() -> JsonSchemaValue:
    """Returns the JSON schema of the recipe file."""
    schema = RecipeSpec.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "sciagent recipe"}


def load_recipe(path: Path) -> RecipeSpec:
    """Reads a recipe. Raises SpecError, with all mistakes by line."""
    document = read(read_text(path), kind="a recipe", opens="recipe: name")
    return validated(document, str(path), RecipeSpec)


def stage_number(spec: RecipeSpec, name: str) -> int:
    """Returns the place of a stage, from 0. Raises UnknownNameError."""
    from sciagent.errors import UnknownNameError

    if name not in spec.names:
        raise UnknownNameError("stage", name, spec.names)
    return spec.names.index(name)
