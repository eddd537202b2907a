"""The tools that are offered for a subject: with its words, its edits and their groups as types of arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from sciagent.agent.tools import looking, making, predicting
from sciagent.agent.tools.references import reference_type
from sciagent.agent.tools.registry import Tool
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import needed_edits

_PREDICTION = {"property": "homo_lumo_gap", "value": 4.2, "error": 0.5}


@cache
def tools_of(subject: Subject) -> tuple[Tool, ...]:
    """Returns the tools for a subject, in the order in which they are offered."""
    return (*_making(subject), *_looking(subject))


@cache
def predicting_tools_of(subject: Subject) -> tuple[Tool, ...]:
    """Returns the tools that take predictions with an edit, instead of those that do not."""
    words = subject.words
    call = {**_modification(subject), "predictions": [_prediction(subject)]}
    tools = [Tool(predicting.modify, call, partial(cases_of_modify, subject), words, _types(subject))]
    if needed_edits(subject).crossovers:
        pair = {"first": "#1", "second": "#2", "predictions": [_prediction(subject)]}
        tools.append(Tool(predicting.crossover, pair, None, words, _types(subject)))
    return tuple(tools)


def _making(subject: Subject) -> tuple[Tool, ...]:
    words, types = subject.words, _types(subject)
    tried = {words.column: words.example, "rationale": words.rationale, "predictions": [_prediction(subject)]}
    tools = [
        Tool(making.propose, tried, None, words, types, {"text": words.column}),
        Tool(making.modify, _modification(subject), partial(cases_of_modify, subject), words, types),
        Tool(making.crossover, {"first": "#1", "second": "#2"}, None, words, types),
        Tool(making.neighbours, {"parent": "#1", "edit": None, "n": 12}, None, words, _types(subject, free=True)),
    ]
    return tuple(tool for tool in tools if tool.name != "crossover" or needed_edits(subject).crossovers)


def _looking(subject: Subject) -> tuple[Tool, ...]:
    words = subject.words
    types = {"candidate": reference_type(words)}
    return (
        Tool(looking.inspect, {words.one: "#1"}, None, words, types, {"candidate": words.one}),
        Tool(looking.best, {"n": 10}, None, words),
        Tool(looking.history, {"n": 10}),
        Tool(looking.budget),
        Tool(looking.note, {"text": words.remark}),
        Tool(looking.finish, {"reason": "the budget is spent"}),
    )


def _prediction(subject: Subject) -> Mapping[str, Any]:
    return {**_PREDICTION, "property": subject.words.property}


def _modification(subject: Subject) -> Mapping[str, Any]:
    """Returns the arguments of a correct call of `modify`."""
    edit = next(iter(needed_edits(subject).named.values()))
    what = "fluoro" if "fluoro" in edit.whats else next(iter(edit.whats), None)
    return {"parent": "#1", "edit": edit.name, "what": what, "where": None}


def _types(subject: Subject, free: bool = False) -> Mapping[str, Any]:
    """Returns the types of the arguments of making tools. free: whether the edit may be left open."""
    words, edits = subject.words, needed_edits(subject)
    reference, name = reference_type(words), _one_of(tuple(edits.named))
    says = "; ".join(f"{edit.name}: {edit.says}" for edit in edits.named.values())
    groups = tuple(dict.fromkeys(what for edit in edits.named.values() for what in edit.whats))
    edit: Any = Annotated[name, Field(description=says)]
    if free:
        edit = Annotated[name | None, Field(description="only children by this edit; null: by any")]
    return {
        "text": Annotated[str, Field(min_length=1, max_length=subject.longest, description=words.proposal)],
        **dict.fromkeys(("parent", "first", "second"), reference),
        "edit": edit,
        "what": Annotated[_one_of(groups) | None, Field(description="what the edit puts in; null leaves it to chance")],
    }


def _one_of(names: Sequence[str]) -> Any:
    """Returns the type of a text from a list of names. The error for any other text lists the names."""

    def check(value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise PydanticCustomError("one_of", "none of the names", {"names": list(names)})
        return value

    return Annotated[str, PlainValidator(check), WithJsonSchema({"type": "string", "enum": list(names)})]


def cases_of_modify(subject: Subject, full: JsonSchemaValue) -> list[JsonSchemaValue]:
    """Returns one schema per edit, with only the groups that this edit can insert."""
    cases = []
    for edit in needed_edits(subject).named.values():
        choice: dict[str, Any] = {"type": "null"}
        if edit.whats:
            choice = {"anyOf": [{"type": "string", "enum": list(edit.whats)}, choice]}
        entries = {**full["properties"], "edit": {"type": "string", "enum": [edit.name]}, "what": choice}
        cases.append({**full, "properties": entries})
    return cases
