"""Rubrics: the weighted criteria, some with a gate, by which a judge grades a molecule.

A rubric is read from a YAML file or written directly in the settings. The settings always contain the whole rubric, so
every change of a word changes the hash, and the ledger can be read without the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from sciagent.domain.evidence import content_hash
from sciagent.errors import SpecError
from sciagent.verification.files import content_of

MAX_CRITERIA = 12
HIGHEST = 10

Line = Annotated[str, Field(min_length=1, max_length=300)]


class Criterion(BaseModel):
    """One question with the answers it takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,39}$", description="What results call it.")
    question: str = Field(min_length=1, max_length=1000, description="What is asked.")
    weight: float = Field(1.0, strict=True, gt=0, le=1000, allow_inf_nan=False, description="In the weighted mean.")
    scale: dict[int, Line] = Field(description="What each grade means: 0, 1, … in whole numbers, worst first.")
    gate: int | None = Field(
        None, strict=True, ge=1, description="The least mean grade; below it a molecule fails, whatever the rest says."
    )

    @field_validator("scale")
    @classmethod
    def _whole(cls, value: dict[int, str]) -> dict[int, str]:
        if sorted(value) != list(range(len(value))) or not 2 <= len(value) <= HIGHEST + 1:
            raise ValueError(f"grades are 0, 1, … without a gap, two at least and {HIGHEST} the highest")
        return dict(sorted(value.items()))

    @model_validator(mode="after")
    def _gate_on_the_scale(self) -> Criterion:
        if self.gate is not None and self.gate > self.top:
            raise ValueError(f"the gate of {self.name} is {self.gate}; its scale ends at {self.top}")
        return self

    @property
    def top(self) -> int:
        return len(self.scale) - 1


class Rubric(BaseModel):
    """Weighted criteria, some of them with a gate."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,39}$", description="What levels call it.")
    goal: str = Field("", max_length=2000, description="What the molecule is for.")
    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=MAX_CRITERIA, description="What is graded.")

    @field_validator("criteria")
    @classmethod
    def _different(cls, value: tuple[Criterion, ...]) -> tuple[Criterion, ...]:
        names = [criterion.name for criterion in value]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f'two criteria are called "{twice}"')
        return value

    @cached_property
    def sha256(self) -> str:
        """The hash of the rubric's content; the layout of the file does not matter."""
        return content_hash(self.model_dump(mode="json"))

    @property
    def gated(self) -> tuple[Criterion, ...]:
        return tuple(criterion for criterion in self.criteria if criterion.gate is not None)


def _content(value: Any, info: ValidationInfo) -> Any:
    """Returns the content of the file if the value is a path; relative paths start at the campaign file's folder."""
    if not isinstance(value, str):
        return value
    base = (info.context or {}).get("base")
    path = (Path(base) if base is not None else Path.cwd()) / value
    return read_rubric(str(path.resolve()), value, content_of(path, value))


RubricFile = Annotated[Rubric, BeforeValidator(_content, json_schema_input_type=str | Rubric)]


@lru_cache(maxsize=64)
def read_rubric(path: str, shown: str, sha256: str) -> Mapping[str, Any]:
    """Returns the mapping in a YAML file, unvalidated. shown: the file's name in messages. sha256: part of the cache
    key, so that an edited file is read again. Raises ValueError for an invalid file."""
    from sciagent.inputs.document import read, read_text, report

    try:
        document = read(read_text(Path(path)), "a rubric", "name: NAME")
    except SpecError as error:
        raise ValueError(str(error)) from None
    if document.faults:
        raise ValueError(report(shown, document.faults))
    rubric: Mapping[str, Any] = document.data
    return rubric
