"""Carries out the tool calls in a model's answer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import JsonSchemaValue

from sciagent.agent.messages import Message, ToolCall
from sciagent.agent.policies.grammar import schema_fault
from sciagent.agent.tools.bench import AgentBench
from sciagent.agent.tools.catalogue import registry
from sciagent.agent.tools.reading import CallError, read_arguments
from sciagent.agent.tools.registry import Observation, Registry, Tool
from sciagent.agent.tools.schemas import call_case, call_schema
from sciagent.agent.tools.wording import short
from sciagent.chemistry.editing.edits import ANY, EditLimits

if TYPE_CHECKING:
    from sciagent.agent.foreign.servers import ForeignTool, Servers

MAX_CALLS = 8  # of one answer
RANKS = 8  # of the best that an answer held to a schema may name


@dataclass(frozen=True)
class Called:
    """A call as it was sent."""

    name: str
    arguments: str
    ok: bool
    """Whether it was carried out."""


@dataclass(frozen=True)
class ToolResults:
    """The results of an answer's calls."""

    calls: tuple[Called, ...]
    messages: tuple[Message, ...]
    """The messages for the model."""
    finished: bool
    """Whether the model ended the episode."""


_NOT_FETCHED = Observation(False, "error: not called, for it came after finish; call it again if the episode goes on")


def _answer_cases(tools: Mapping[str, ForeignTool]) -> dict[str, JsonSchemaValue]:
    """By name, the schema of an answer that calls a tool; without the tools that no grammar can enforce."""
    written = {name: tool.written for name, tool in tools.items()}
    cases = {name: call_case(name, schema) for name, schema in written.items() if schema is not None}
    return {name: case for name, case in cases.items() if not schema_fault(case)}


def _one_line_each(tools: Sequence[Tool], others: Mapping[str, ForeignTool]) -> list[tuple[str, str]]:
    """Name and short description of each tool."""
    own = [(tool.name, tool.description.partition(". ")[0]) for tool in tools]
    return own + [(name, short(tool.description, 120)) for name, tool in others.items()]


def _by_rank(schema: JsonSchemaValue) -> JsonSchemaValue:
    """The schema with molecules named by rank and sites left to chance, for a model that cannot write SMILES."""
    ranks = {"type": "string", "enum": [f"#{place}" for place in range(1, RANKS + 1)]}
    instead = dict.fromkeys(("parent", "first", "second", "molecule"), ranks) | {"where": {"type": "null"}}

    def changed(node: Any) -> Any:
        if isinstance(node, list):
            return [changed(item) for item in node]
        if not isinstance(node, dict):
            return node
        changed_node = {name: changed(value) for name, value in node.items()}
        if isinstance(changed_node.get("properties"), dict):
            changed_node["properties"] = {
                name: instead.get(name, value) for name, value in changed_node["properties"].items()
            }
        return changed_node

    return dict(changed(schema))


class Toolbox:
    """The tools of an episode.

    structured: an answer is one JSON object with tool and arguments, instead of a call in the provider's own form.
    ranks: molecules are named by rank only; None: if answers are structured. foreign: tools of MCP servers. `schemas`:
    for the provider's form; `answer_schema`: of a structured answer; `left_out`: MCP tools that no grammar can enforce,
    which structured answers cannot call.
    """

    def __init__(
        self,
        names: Sequence[str],
        limits: EditLimits = ANY,
        structured: bool = False,
        foreign: Servers | None = None,
        ranks: bool | None = None,
    ) -> None:
        chosen = [tool for tool in registry() if tool.name in names]
        others = dict(foreign.tools) if foreign else {}
        self._limits, self._structured, self._foreign = limits, structured, foreign
        cases = _answer_cases(others) if structured else {}
        self.left_out = [name for name in others if name not in cases] if structured else []
        self._others = {name: tool for name, tool in others.items() if name not in self.left_out}
        self._registry = Registry(chosen, self._others)
        self._names = ", ".join([*(tool.name for tool in chosen), *self._others])
        self.listed = _one_line_each(chosen, self._others)
        held = _by_rank if (structured if ranks is None else ranks) else dict[str, Any]
        theirs = [tool.schema for tool in self._others.values()]
        self.schemas: list[dict[str, Any]] = [] if structured else [*map(held, self._registry.schemas()), *theirs]
        self.answer_schema = {"anyOf": [*held(call_schema(chosen))["anyOf"], *cases.values()]}

    def fetch(self, message: Message) -> dict[int, Observation]:
        """Carry out an answer's calls of MCP servers up to `finish`, and return the results by position of the call.

        They do not depend on sciagent's own tools, so they may run before these, in the thread that asked the model.
        """
        if self._foreign is None:
            return {}
        fetched = {}
        for place, call in enumerate(self._calls(message)[:MAX_CALLS]):
            if call.name == "finish":
                break
            if call.name in self._others:
                fetched[place] = self._foreign.call(call.name, call.arguments)
        return fetched

    def run(
        self, message: Message, bench: AgentBench, seed: int, fetched: Mapping[int, Observation] | None = None
    ) -> ToolResults:
        """Carry out the calls of an answer in order, until one ends the episode. Calls within the thinking are
        ignored. fetched: the result of `fetch` for the same answer."""
        calls = self._calls(message)
        if not calls:
            reply = f"Nothing was called. Call one of the tools: {self._names}."
            return ToolResults((), (Message("user", reply),), finished=False)
        done: list[Called] = []
        told_: list[Message] = []
        for place, call in enumerate(calls):
            if place >= MAX_CALLS:
                seen = Observation(False, f"error: more than {MAX_CALLS} calls in one answer; this one was left out")
            elif call.name in self._others:
                seen = (fetched or {}).get(place, _NOT_FETCHED)
            else:
                seen = self._registry.call(call.name, call.arguments, bench, seed=seed + place, limits=self._limits)
            done.append(Called(call.name, call.arguments, seen.ok))
            native = bool(message.calls)
            told_.append(
                Message("tool" if native else "user", seen.text, call_id=call.id if native else "", name=call.name[:64])
            )
            if seen.ended:
                return ToolResults(tuple(done), tuple(told_), finished=True)
        return ToolResults(tuple(done), tuple(told_), finished=False)

    def _calls(self, message: Message) -> tuple[ToolCall, ...]:
        return message.calls or self._written(message.content)

    def _written(self, content: str) -> tuple[ToolCall, ...]:
        """The call in a structured answer, or in another answer that consists of such an object."""
        if not self._structured and not content.lstrip().startswith("{"):
            return ()
        try:
            given = read_arguments(content)
        except CallError:
            return ()
        name, arguments = given.get("name"), given.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return ()
        return (ToolCall("", name, json.dumps(arguments)),)
