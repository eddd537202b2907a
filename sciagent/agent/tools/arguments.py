"""The arguments of the tools: every text and number is bounded, every choice is from a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from sciagent.agent.tools.registry import Arguments
from sciagent.chemistry.editing.named import NAMED_EDITS, WHATS

MAX_SMILES = 400
MAX_NEIGHBOURS = 12
MAX_SITE = 400


def _one_of(names: Sequence[str]) -> Any:
    """The type of a text from a list of names; for a wrong one the error lists them."""

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
What: Any = _one_of(WHATS)
Limit = 1e9  # of numbers that a model may write; no property in its own unit comes near


class Prediction(Arguments):
    property: Annotated[
        str, Field(min_length=1, max_length=60, description="as the goal names it, such as homo_lumo_gap")
    ]
    value: Annotated[float, Field(ge=-Limit, le=Limit, description="in the unit of the goal")]
    error: Annotated[float, Field(ge=0, le=Limit, description="one standard deviation, in the same unit")]


class Propose(Arguments):
    smiles: Annotated[str, Field(min_length=1, max_length=MAX_SMILES, description="one molecule, one fragment")]
    rationale: Annotated[str, Field(max_length=500, description="why it should be good, in a sentence or two")] = ""
    predictions: Annotated[
        list[Prediction], Field(max_length=8, description="what you expect to be measured; each property once")
    ] = []


class Modify(Arguments):
    parent: Reference
    edit: Annotated[EditName, Field(description="; ".join(f"{e.name}: {e.says}" for e in NAMED_EDITS.values()))]
    what: Annotated[What | None, Field(description="what the edit puts in; null leaves it to chance")] = None
    where: Annotated[
        int | None, Field(ge=1, le=MAX_SITE, description="number of the site, as `inspect` lists it; null: any")
    ] = None


class Crossover(Arguments):
    first: Reference
    second: Reference


class Neighbours(Arguments):
    parent: Reference
    edit: Annotated[EditName | None, Field(description="only children by this edit; null: by any")] = None
    n: Annotated[int, Field(ge=1, le=MAX_NEIGHBOURS)] = MAX_NEIGHBOURS


class Inspect(Arguments):
    molecule: Reference


class Best(Arguments):
    n: Annotated[int, Field(ge=1, le=20)] = 10


class History(Arguments):
    n: Annotated[int, Field(ge=1, le=20)] = 10


class BudgetQuestion(Arguments):
    pass


class Note(Arguments):
    text: Remark


class Finish(Arguments):
    reason: Remark


def cases_of_modify(full: JsonSchemaValue) -> list[JsonSchemaValue]:
    """One schema per edit, with only the groups that it can insert."""
    made = []
    for edit in NAMED_EDITS.values():
        choice: dict[str, Any] = {"type": "null"}
        if edit.whats:
            choice = {"anyOf": [{"type": "string", "enum": list(edit.whats)}, choice]}
        entries = {**full["properties"], "edit": {"type": "string", "enum": [edit.name]}, "what": choice}
        made.append({**full, "properties": entries})
    return made
