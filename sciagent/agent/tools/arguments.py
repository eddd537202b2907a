"""The argument types of the tools. Every text and number is bounded; every choice comes from a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from sciagent.agent.tools.registry import STRICT
from sciagent.chemistry.editing.named import NAMED_EDITS, WHATS

MAX_SMILES = 400
MAX_SITE = 400


def _one_of(names: Sequence[str]) -> Any:
    """Returns the type of a text from a list of names. The error for any other text lists the names."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise PydanticCustomError("one_of", "none of the names", {"names": list(names)})
        return value

    return Annotated[str, PlainValidator(check), WithJsonSchema({"type": "string", "enum": list(names)})]


Remark = Annotated[str, Field(min_length=1, max_length=500)]
Reference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_SMILES,
        description='a SMILES, a rank in `best` such as "#1", or the first 8 digits or more of a key',
    ),
]
EditName: Any = _one_of(tuple(NAMED_EDITS))
Edit: Any = Annotated[EditName, Field(description="; ".join(f"{e.name}: {e.says}" for e in NAMED_EDITS.values()))]
What: Any = Annotated[_one_of(WHATS) | None, Field(description="what the edit puts in; null leaves it to chance")]
Where = Annotated[
    int | None, Field(ge=1, le=MAX_SITE, description="number of the site, as `inspect` lists it; null: any")
]
Count = Annotated[int, Field(ge=1, le=20)]
Limit = 1e9  # largest number that a model may write; no property comes near it in its own unit


class Prediction(BaseModel):
    model_config = STRICT

    property: Annotated[
        str, Field(min_length=1, max_length=60, description="as the goal names it, such as homo_lumo_gap")
    ]
    value: Annotated[float, Field(ge=-Limit, le=Limit, description="in the unit of the goal")]
    error: Annotated[float, Field(ge=0, le=Limit, description="one standard deviation, in the same unit")]


def cases_of_modify(full: JsonSchemaValue) -> list[JsonSchemaValue]:
    """Returns one schema per edit, with only the groups that this edit can insert."""
    cases = []
    for edit in NAMED_EDITS.values():
        choice: dict[str, Any] = {"type": "null"}
        if edit.whats:
            choice = {"anyOf": [{"type": "string", "enum": list(edit.whats)}, choice]}
        entries = {**full["properties"], "edit": {"type": "string", "enum": [edit.name]}, "what": choice}
        cases.append({**full, "properties": entries})
    return cases
