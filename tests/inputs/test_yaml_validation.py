"""A mistake in a YAML file is told with its path, its fault, and what would have been right."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from sciagent.errors import SpecError
from sciagent.inputs.yaml_document import read
from sciagent.inputs.yaml_validation import keys_at, validated


class Circle(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0)]


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["square"]
    side: int


class Drawing(BaseModel):
    model_config = ConfigDict(extra="forbid")
    shapes: list[Annotated[Circle | Square, Field(discriminator="kind")]]


@pytest.mark.parametrize(
    ("entry", "path", "message", "hint"),
    [
        (
            "{kind: circle, radus: 2, radius: 1}",
            "shapes[0].radus",
            'unknown key; did you mean "radius"?',
            "allowed: kind, radius",
        ),
        ("{kind: circle, radius: 0}", "shapes[0].radius", "must be greater than 0", ""),
        ("{kind: square, side: four}", "shapes[0].side", "must be a whole number", ""),
        ("{kind: square}", "shapes[0].side", "required, and missing", ""),
        ("{kind: circel, radius: 1}", "shapes[0].kind", 'did you mean "circle"', "allowed: circle, square"),
    ],
)
def test_a_mistake_is_told_with_what_would_have_been_right(entry: str, path: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        validated(read(f"shapes:\n  - {entry}\n"), "x.yaml", Drawing)
    first, *second = str(caught.value).split("\n  ")
    assert first.startswith("x.yaml:2:") and f": {path}: " in first and message in first
    assert second == ([hint] if hint else [])


def test_the_keys_of_a_member_of_a_union_are_those_of_its_kind() -> None:
    data = {"shapes": [{"kind": "square"}, {"kind": "circle"}]}
    assert keys_at(("shapes", 0), data, Drawing) == ["kind", "side"]
    assert keys_at(("shapes", 1), data, Drawing) == ["kind", "radius"]
