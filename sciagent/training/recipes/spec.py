"""The recipe file: a model, tasks, rewards, and the stages of the training."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field, model_validator
from pydantic.json_schema import JsonSchemaValue

from sciagent.inputs.document import read, read_text
from sciagent.inputs.validation import Faults, validated
from sciagent.training.evaluation.spec import EvaluateSpec
from sciagent.training.recipes.stages import (
    PART,
    TRAINING,
    AnswersStage,
    AuditStage,
    EpisodesStage,
    LiveStage,
    StageSpec,
    Whole,
)

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
        found, has_policy, names = [], isinstance(self.model, str), self.names
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
        seen, names = Counter[str](), list[str]()
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
