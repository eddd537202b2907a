"""A mistake in a YAML file is told with its path, its fault, and what would have been right."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sciagent.yaml.mistakes import explain, keys_at, report, show
from sciagent.yaml.positions import Fault, read


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
    document = read(f"shapes:\n  - {entry}\n")
    with pytest.raises(ValidationError) as caught:
        Drawing.model_validate(document.data)
    fault = explain(dict(caught.value.errors()[0]), document, Drawing)
    assert (show(fault.loc), fault.line, fault.hint) == (path, 2, hint)
    assert message in fault.message


def test_the_keys_of_a_member_of_a_union_are_those_of_its_kind() -> None:
    data = {"shapes": [{"kind": "square"}, {"kind": "circle"}]}
    assert keys_at(("shapes", 0), data, Drawing) == ["kind", "side"]
    assert keys_at(("shapes", 1), data, Drawing) == ["kind", "radius"]


def test_a_report_is_in_the_order_of_the_file_and_says_nothing_twice() -> None:
    late, early = Fault(3, 1, "required, and missing", ("a", 0), ""), Fault(1, 5, "must be text", (), "write a text")
    assert report("x.yaml", [late, early, late]) == (
        "x.yaml:1:5: must be text\n  write a text\nx.yaml:3:1: a[0]: required, and missing"
    )
