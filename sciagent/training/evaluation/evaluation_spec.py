"""The part `evaluate` of a recipe: arms, tasks and seeds. Other keys of the file belong to other commands."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from sciagent.campaign.file.proposers import FilterSpec
from sciagent.inputs.yaml_document import read, read_text
from sciagent.inputs.yaml_validation import Faults, fault, validated

SCRIPTED = "scripted"
_PART = ConfigDict(extra="forbid", frozen=True)
ArmName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]
Whole = Annotated[int, Field(strict=True, ge=1, le=10**6)]
Seed = Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)]


class ArmSpec(BaseModel):
    """One arm of an evaluation: what proposes candidates. It is stated in one of three ways."""

    model_config = _PART

    model: str | None = Field(default=None, min_length=1, max_length=200, description="A name in `sciagent models`.")
    policy: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="`scripted`, which draws random named edits, or a role or a name of `sciagent policy`.",
    )
    proposer: Mapping[str, Any] | None = Field(
        default=None,
        description="A proposer as in a campaign file; relative paths start at the folder of this file. Without seeds "
        "it takes those of the task.",
    )
    filter: FilterSpec | None = Field(
        default=None, description="A law that chooses which of its proposals go on, as a proposer of a campaign has it."
    )

    @model_validator(mode="after")
    def _one_way(self) -> ArmSpec:
        stated = [key for key in ("model", "policy", "proposer") if getattr(self, key) is not None]
        if len(stated) != 1:
            raise fault(
                f"states {' and '.join(stated) or 'nothing'}",
                "takes one of: model: NAME; policy: scripted; proposer: {kind: evolve, …}",
            )
        return self


class EvaluateSpec(BaseModel):
    """An evaluation: every arm on every task with every seed is a campaign of its own."""

    model_config = _PART

    tasks: tuple[str, ...] = Field(
        min_length=1, description="Campaign files, relative to the folder of this file. Their budgets are replaced."
    )
    seeds: tuple[Seed, ...] = Field(default=(1, 2, 3), min_length=1, description="Seeds of the campaigns of an arm.")
    verifications: Whole = Field(
        description="Number of candidates that the terminal rung of each campaign is asked about, without seed "
        "candidates."
    )
    arms: dict[ArmName, ArmSpec] = Field(min_length=1, description="What proposes, each under a name of your choice.")

    @field_validator("tasks", "seeds")
    @classmethod
    def _each_once(cls, value: tuple[Any, ...]) -> tuple[Any, ...]:
        with Faults() as faults:
            for place, item in enumerate(value):
                if item in value[:place]:
                    faults.add((place,), f"{item} is listed twice")
        return value


class EvaluationFile(BaseModel):
    """A file with a part `evaluate`."""

    model_config = ConfigDict(extra="ignore", frozen=True)  # the file has parts of other commands, too

    evaluate: EvaluateSpec = Field(description="Arms on held-out tasks.")


def load_evaluation(path: Path) -> EvaluateSpec:
    """Reads the part `evaluate` of a file. Raises SpecError, with all mistakes by line."""
    document = read(read_text(path), kind="a recipe", opens="evaluate:")
    return validated(document, str(path), EvaluationFile).evaluate


Interval = tuple[float, float, float]
"""Mean, and the lower and upper end of the interval of 95 %."""
