"""From an answer of a model to calls of tools, and to what it is told of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sciagent.agent.messages import Message, ToolCall
from sciagent.agent.policies.grammar import schema_fault
from sciagent.agent.tools.bench import AgentBench
from sciagent.agent.tools.catalogue import registry
from sciagent.agent.tools.reading import CallError, read_arguments
from sciagent.agent.tools.registry import Observation, Registry
from sciagent.agent.tools.schemas import call_case, call_schema
from sciagent.agent.tools.wording import short
from sciagent.chemistry.editing.edits import ANY, EditLimits

if TYPE_CHECKING:
    from sciagent.agent.foreign.servers import Servers

MAX_CALLS = 8  # of one answer
RANKS = 8  # of the best that an answer held to a schema may name


@dataclass(frozen=True)
class Called:
    """A call as it was sent, and whether it was carried out."""

    name: str
    arguments: str
    ok: bool


@dataclass(frozen=True)
class Answer:
    """What came of an answer. messages: what the model is told. finished: it said that the episode is over."""

    calls: tuple[Called, ...]
    messages: tuple[Message, ...]
    finished: bool


_NOT_FETCHED = Observation(False, "error: not called, for it came after finish; call it again if the episode goes on")


def _case(name: str, arguments: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """An answer that calls a server's tool; None where no grammar can hold a model to it."""
    if arguments is None:
        return None
    case = call_case(name, arguments)
    return None if schema_fault(case) else case


def _by_rank(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema in which molecules are named by their rank among those that were shown, and sites are left to chance:
    for a model that cannot spell SMILES."""
    ranks = {"type": "string", "enum": [f"#{place}" for place in range(1, RANKS + 1)]}
    instead = dict.fromkeys(("parent", "first", "second", "molecule"), ranks) | {"where": {"type": "null"}}

    def changed(node: Any) -> Any:
        if isinstance(node, list):
            return [changed(one) for one in node]
        if not isinstance(node, dict):
            return node
        found = {name: changed(one) for name, one in node.items()}
        if isinstance(found.get("properties"), dict):
            found["properties"] = {name: instead.get(name, one) for name, one in found["properties"].items()}
        return found

    return dict(changed(schema))


class Toolbox:
    """The tools of an episode. structured: an answer is one JSON object that says which tool and with what, and no call
    in the provider's own form. ranks: molecules are named by rank alone; None: where answers are structured.
    `answer_schema`: of such an answer; `schemas`: for the provider's form. foreign: tools
    of MCP servers besides, which `fetch` calls. `left_out`: those of them that no grammar can write, in structured
    answers."""

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
        written = others.items() if structured else ()
        cases = {name: case for name, tool in written if (case := _case(name, tool.written)) is not None}
        self.left_out = [name for name in others if structured and name not in cases]
        self._others = {name: tool for name, tool in others.items() if name not in self.left_out}
        self._registry = Registry(chosen, self._others)
        self._names = ", ".join([*(tool.name for tool in chosen), *self._others])
        self.listed = [(tool.name, tool.description.partition(". ")[0]) for tool in chosen]
        held = _by_rank if (structured if ranks is None else ranks) else dict[str, Any]
        self.listed += [(name, short(tool.description, 120)) for name, tool in self._others.items()]
        theirs = [tool.schema for tool in self._others.values()]
        self.schemas: list[dict[str, Any]] = [] if structured else [*map(held, self._registry.schemas()), *theirs]
        self.answer_schema = {"anyOf": [*held(call_schema(chosen))["anyOf"], *cases.values()]}

    def fetch(self, message: Message) -> dict[int, Observation]:
        """Call what an answer wants of other people's servers, and wait for them; by the place among its calls. They do
        not depend on what our own tools do, so this may run before, in the thread that asked. What comes after
        `finish` is left."""
        if self._foreign is None:
            return {}
        found = {}
        for place, one in enumerate(self._calls(message)[:MAX_CALLS]):
            if one.name == "finish":
                break
            if one.name in self._others:
                found[place] = self._foreign.call(one.name, one.arguments)
        return found

    def run(
        self, message: Message, bench: AgentBench, seed: int, fetched: Mapping[int, Observation] | None = None
    ) -> Answer:
        """Carry out the calls of an answer, in order, until one ends the episode. Thoughts call nothing. fetched: what
        `fetch` brought of the same answer."""
        calls = self._calls(message)
        if not calls:
            told = f"Nothing was called. Call one of the tools: {self._names}."
            return Answer((), (Message("user", told),), finished=False)
        done: list[Called] = []
        told_: list[Message] = []
        for place, one in enumerate(calls):
            if place >= MAX_CALLS:
                seen = Observation(False, f"error: more than {MAX_CALLS} calls in one answer; this one was left out")
            elif one.name in self._others:
                seen = (fetched or {}).get(place, _NOT_FETCHED)
            else:
                seen = self._registry.call(one.name, one.arguments, bench, seed=seed + place, limits=self._limits)
            done.append(Called(one.name, one.arguments, seen.ok))
            native = bool(message.calls)
            told_.append(
                Message("tool" if native else "user", seen.text, call_id=one.id if native else "", name=one.name[:64])
            )
            if seen.ended:
                return Answer(tuple(done), tuple(told_), finished=True)
        return Answer(tuple(done), tuple(told_), finished=False)

    def _calls(self, message: Message) -> tuple[ToolCall, ...]:
        return message.calls or self._written(message.content)

    def _written(self, content: str) -> tuple[ToolCall, ...]:
        """The call that an answer held to the schema is; of any other answer, if it is such an object."""
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
