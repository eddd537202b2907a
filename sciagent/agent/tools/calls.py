"""From an answer of a model to calls of tools, and to what it is told of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sciagent.agent.messages import Message, ToolCall
from sciagent.agent.tools.bench import AgentBench
from sciagent.agent.tools.catalogue import registry
from sciagent.agent.tools.reading import CallError, read_arguments
from sciagent.agent.tools.registry import Registry
from sciagent.agent.tools.schemas import call_schema
from sciagent.chemistry.edits import ANY, EditLimits

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


def _by_rank(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer, where molecules are named by their rank among those that were shown, and sites are left
    to chance: a model that needs its answers held to a schema does not spell SMILES either."""
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
    in the provider's own form. `answer_schema`: of such an answer; `schemas`: for the provider's form."""

    def __init__(self, names: Sequence[str], limits: EditLimits = ANY, structured: bool = False) -> None:
        chosen = [tool for tool in registry() if tool.name in names]
        self._registry, self._limits, self._structured = Registry(chosen), limits, structured
        self._names = ", ".join(tool.name for tool in chosen)
        self.listed = [(tool.name, tool.description.partition(". ")[0]) for tool in chosen]
        self.schemas: list[dict[str, Any]] = [] if structured else self._registry.schemas()
        self.answer_schema = _by_rank(call_schema(chosen))

    def run(self, message: Message, bench: AgentBench, seed: int) -> Answer:
        """Carry out the calls of an answer, in order, until one ends the episode. Thoughts call nothing."""
        calls = message.calls or self._written(message.content)
        if not calls:
            told = f"Nothing was called. Call one of the tools: {self._names}."
            return Answer((), (Message("user", told),), finished=False)
        done: list[Called] = []
        told_: list[Message] = []
        for place, one in enumerate(calls):
            if place >= MAX_CALLS:
                text, ok, ended = (
                    f"error: more than {MAX_CALLS} calls in one answer; this one was left out",
                    False,
                    False,
                )
            else:
                seen = self._registry.call(one.name, one.arguments, bench, seed=seed + place, limits=self._limits)
                text, ok, ended = seen.text, seen.ok, seen.ended
            done.append(Called(one.name, one.arguments, ok))
            native = bool(message.calls)
            told_.append(
                Message("tool" if native else "user", text, call_id=one.id if native else "", name=one.name[:64])
            )
            if ended:
                return Answer(tuple(done), tuple(told_), finished=True)
        return Answer(tuple(done), tuple(told_), finished=False)

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
