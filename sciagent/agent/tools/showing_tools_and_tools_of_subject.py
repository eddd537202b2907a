"""The tools that are offered for a subject, such as molecules. The subject gives their words and types of arguments.

Some tools show or record something: inspect, best, history, budget, note, finish. The other tools propose candidates or
list neighbours of one. `modify` and `crossover` of this module also take predictions of what will be measured of the
child. The docstring of a tool's function is the text that a model reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Annotated, Any

from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError

from sciagent.agent.tools import candidate_making_tools
from sciagent.agent.tools.candidate_making_tools import Where
from sciagent.agent.tools.candidate_references_and_stated_predictions import (
    Predictions,
    checked_predictions,
    find,
    number_of,
    reference_type,
)
from sciagent.agent.tools.tool_contract_and_calls import Observation, Tool, ToolContext
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits
from sciagent.domain.proposer_interfaces import HELD_WORDS
from sciagent.domain.safe_text_and_durations import escaped, short

MAX_RESULTS = 8  # largest number of rungs whose results are shown
Remark = Annotated[str, Field(min_length=1, max_length=500)]
Count = Annotated[int, Field(ge=1, le=20)]


def inspect(run: ToolContext, candidate: str) -> Observation:
    """Show one {one}: formula, what was measured of it, and the sites where `modify` can edit it, by number."""
    found = find(candidate, run)
    known = run.bench.known(found)
    stands = "known here" if known else "not proposed yet"
    barred = run.bench.barred(found)
    if barred:
        stands += f", {barred}"
    lines = [f"{found.text} [{found.key[:8]}] {run.subject.described(found)}, {stands}"]
    if known:
        lines += [short(line, 160) for line in run.bench.results_of(found.key)[:MAX_RESULTS]]
    if run.subject.edits is not None:
        lines += run.subject.edits.described_sites(found)
    return Observation(ok=True, text="\n".join(lines))


def best(run: ToolContext, n: Count = 10) -> Observation:
    """List the best {many} so far: hits, then what may still be one by its probability, then known misses. Each has
    its number, its key, its worth and how it was made."""
    lines = [
        f"#{number_of(row.text, run.numbered)} {run.subject.shown(row.text)} [{row.key[:8]}] {row.worth}"
        f"{', ' + HELD_WORDS if row.is_held else ''}; "
        f"{short(row.operation, 100)}".rstrip("; ")
        for row in run.bench.best(n)
    ]
    return Observation(ok=True, text="\n".join(lines) or "nothing is measured yet; propose something")


def history(run: ToolContext, n: Count = 10) -> Observation:
    """List the last proposals, latest first, and what became of each."""
    lines = []
    for row in run.bench.recent(n):
        worth = "" if row["worth"] is None else f" ({row['worth']})"
        why = f" ({short(row['reason'], 80)})" if row["reason"] else ""
        text = short(run.subject.shown(row["text"]), 120)
        stands = row["standing"] or row["status"]
        line = f"{text} {stands}{worth}{why} {short(row['operation'], 100)}"
        lines.append(line.rstrip())
    return Observation(ok=True, text="\n".join(lines) or "nothing was proposed yet")


def budget(run: ToolContext) -> Observation:
    """Tell the goal and what may still be spent."""
    left = ", ".join(f"{short(name)} {amount:g}" for name, amount in run.bench.left().items())
    return Observation(ok=True, text=f"goal: {run.bench.goal()[:1200]}\nleft: {left or 'no limit'}")


def note(run: ToolContext, text: Remark) -> Observation:
    """Keep a remark for later episodes: what worked, what did not, what to try."""
    run.bench.note(escaped(text))
    return Observation(ok=True, text="kept")


def finish(run: ToolContext, reason: Remark) -> Observation:
    """End the episode, with a reason."""
    return Observation(ok=True, text="finished", ended=True)


def modify(
    run: ToolContext,
    parent: str,
    edit: str,
    what: str | None = None,
    where: Where = None,
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Make a new {one} from a known one by a named edit, propose it in the same call, and say what you expect to be
    measured of it: each prediction is scored when the answer comes. `inspect` lists the sites of a {one}; without a
    site, or without saying what to put in, chance chooses among all that fit."""
    run = replace(run, predicted=checked_predictions(predictions))
    return candidate_making_tools.modify(run, parent, edit, what, where)


def crossover(
    run: ToolContext,
    first: str,
    second: str,
    predictions: Predictions = [],  # noqa: B006  pydantic copies it
) -> Observation:
    """Join a part of one {one} to a part of another, propose the child in the same call, and say what you expect to
    be measured of it: each prediction is scored when the answer comes. Chance chooses where they are cut."""
    run = replace(run, predicted=checked_predictions(predictions))
    return candidate_making_tools.crossover(run, first, second)


_PREDICTION = {"property": "homo_lumo_gap", "value": 4.2, "error": 0.5}


@cache
def tools_of(subject: Subject) -> tuple[Tool, ...]:
    """Returns the tools for a subject, in the order in which they are offered."""
    return (*_proposing_tools(subject), *_showing_tools(subject))


@cache
def predicting_tools_of(subject: Subject) -> tuple[Tool, ...]:
    """Returns `modify` and `crossover` with predictions, instead of the tools of these names without predictions."""
    words = subject.words
    call = {**_example_of_modify(subject), "predictions": [_example_prediction(subject)]}
    types = _types(subject)
    tools = [Tool(modify, call, cases=partial(cases_of_modify, subject), words=words, types=types)]
    if needed_edits(subject).crossovers:
        pair = {"first": "#1", "second": "#2", "predictions": [_example_prediction(subject)]}
        tools.append(Tool(crossover, pair, words=words, types=types))
    return tuple(tools)


def _proposing_tools(subject: Subject) -> tuple[Tool, ...]:
    """Returns the tools that propose candidates or list neighbours."""
    words = subject.words
    types = _types(subject)
    proposal = {
        words.column: words.example,
        "rationale": words.rationale,
        "predictions": [_example_prediction(subject)],
    }
    tools = [
        Tool(candidate_making_tools.propose, proposal, words=words, types=types, called={"text": words.column}),
        Tool(
            candidate_making_tools.modify,
            _example_of_modify(subject),
            cases=partial(cases_of_modify, subject),
            words=words,
            types=types,
        ),
        Tool(candidate_making_tools.crossover, {"first": "#1", "second": "#2"}, words=words, types=types),
        Tool(
            candidate_making_tools.neighbours,
            {"parent": "#1", "edit": None, "n": 12},
            words=words,
            types=_types(subject, free=True),
        ),
    ]
    if not needed_edits(subject).crossovers:
        tools = [tool for tool in tools if tool.name != "crossover"]
    return tuple(tools)


def _showing_tools(subject: Subject) -> tuple[Tool, ...]:
    """Returns the tools that show or record something."""
    words = subject.words
    types = {"candidate": reference_type(words)}
    return (
        Tool(inspect, {words.one: "#1"}, words=words, types=types, called={"candidate": words.one}),
        Tool(best, {"n": 10}, words=words),
        Tool(history, {"n": 10}),
        Tool(budget),
        Tool(note, {"text": words.remark}),
        Tool(finish, {"reason": "the budget is spent"}),
    )


def _example_prediction(subject: Subject) -> Mapping[str, Any]:
    """Returns an example of a prediction, for a property of the subject."""
    return {**_PREDICTION, "property": subject.words.property}


def _example_of_modify(subject: Subject) -> Mapping[str, Any]:
    """Returns the arguments of a correct call of `modify`."""
    edits = list(needed_edits(subject).named.values())
    edit = edits[0]
    groups = list(edit.whats)
    what = groups[0] if groups else None
    if "fluoro" in groups:  # a group that every model knows
        what = "fluoro"
    return {"parent": "#1", "edit": edit.name, "what": what, "where": None}


def _types(subject: Subject, free: bool = False) -> Mapping[str, Any]:
    """Returns the types of the arguments of making tools. free: whether the edit may be left open."""
    words = subject.words
    edits = needed_edits(subject)
    reference = reference_type(words)
    name = _one_of(tuple(edits.named))
    edit_texts = "; ".join(f"{edit.name}: {edit.says}" for edit in edits.named.values())
    groups = tuple(dict.fromkeys(what for edit in edits.named.values() for what in edit.whats))
    edit: Any = Annotated[name, Field(description=edit_texts)]
    if free:
        edit = Annotated[name | None, Field(description="only children by this edit; null: by any")]
    return {
        "text": Annotated[str, Field(min_length=1, max_length=subject.longest, description=words.proposal)],
        "parent": reference,
        "first": reference,
        "second": reference,
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
    """Returns one schema per edit, with only the groups that this edit can insert. full: schema for all edits."""
    cases = []
    for edit in needed_edits(subject).named.values():
        choice: dict[str, Any] = {"type": "null"}
        if edit.whats:
            choice = {"anyOf": [{"type": "string", "enum": list(edit.whats)}, choice]}
        entries = {**full["properties"], "edit": {"type": "string", "enum": [edit.name]}, "what": choice}
        cases.append({**full, "properties": entries})
    return cases
