"""Carries out the tool calls in a model's answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import metadata
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import JsonSchemaValue

from sciagent.agent.messages_sampling_and_policy_client import Message, Role, ToolCall
from sciagent.agent.tools.showing_tools_and_tools_of_subject import predicting_tools_of, tools_of
from sciagent.agent.tools.tool_contract_and_calls import (
    AgentBench,
    CallError,
    Observation,
    Registry,
    call_schema,
    read_arguments,
)
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits, subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND

if TYPE_CHECKING:
    from sciagent.agent.tools.mcp_client import Servers

MAX_CALLS = 8  # calls carried out per answer
SHOWN = 8  # best candidates that the opening of an episode lists, as #1, #2 and so on
USUAL_TURNS = 8  # turns of an episode, if the caller does not state their number
MAX_NUMBERS = 64  # largest number of numbered candidates that a structured answer may name
GRAMMARS = ("llguidance", "xgrammar")  # libraries that restrict answers to a schema


def call_record(name: str, arguments: str, observation: Observation) -> Mapping[str, Any]:
    """Returns a call in the form that the ledger stores."""
    return {"tool": name[:200], "arguments": arguments[:20_000], "ok": observation.ok}


@cache
def grammar_versions() -> dict[str, str]:
    """Returns the versions of the grammar libraries of this environment."""
    found = {}
    for name in GRAMMARS:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


@dataclass(frozen=True)
class ToolResults:
    """The results of the calls in one answer."""

    calls: Sequence[Mapping[str, Any]]
    """The calls in the form that the ledger stores."""
    messages: tuple[Message, ...]
    """The messages for the model."""
    finished: bool
    """Whether a call ended the episode."""
    numbered: tuple[str, ...] = ()
    """Notations of the candidates to which the calls gave the next numbers."""


# The result of a call to an MCP server that `Toolbox.fetch` has not made, since the call stands after `finish` in the
# answer. `Toolbox.run` makes no calls to MCP servers itself.
_NOT_FETCHED = Observation(
    ok=False, text="error: not called, for it came after finish; call it again if the episode goes on"
)


def _by_number(schema: JsonSchemaValue, most: int, one: str) -> JsonSchemaValue:
    """Returns the schema with candidates by number and random sites only, for a model that cannot write notations.

    most: largest number. one: the subject's word for a candidate, which names the argument of `inspect`."""
    # The keys are the arguments of the tools that take a candidate or, as `where`, a site. They are replaced in every
    # object of the schema, however deep.
    numbers = {"type": "string", "enum": [f"#{number}" for number in range(1, most + 1)]}
    instead = dict.fromkeys(("parent", "first", "second", one), numbers) | {"where": {"type": "null"}}

    def by_number(node: dict[str, Any]) -> dict[str, Any]:
        return {name: instead.get(name, value) for name, value in node.items()}

    # `by_number` is called for each object of the schema, from the innermost ones to the schema itself
    return dict(json.loads(json.dumps(schema), object_hook=by_number))


def _not_strict(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Returns the schema of a tool, to which a server does not restrict the calls."""
    function = {**schema["function"], "strict": False}
    return {**schema, "function": function}


class Toolbox:
    """The tools of an episode.

    structured: whether an answer is a JSON object with name and arguments, instead of a call in the provider's format.
    foreign: MCP servers, whose tools structured answers cannot call. ranks: whether candidates are named by number;
    None means as `structured`. turns: of an episode; they set the largest number that may be named: the best at its
    beginning, and one candidate of each turn. strict: whether a server is to restrict calls to the schemas. predict:
    whether `modify` and `crossover` take predictions, as `propose` does. subject: what the candidates are; None means
    molecules.
    """

    def __init__(
        self,
        names: Sequence[str],
        limits: Any = None,
        structured: bool = False,
        foreign: Servers | None = None,
        ranks: bool | None = None,
        strict: bool = True,
        predict: bool = False,
        turns: int = USUAL_TURNS,
        subject: Subject | None = None,
    ) -> None:
        self._subject = subject or subject_of(MOLECULE_KIND)
        predicting = {tool.name: tool for tool in predicting_tools_of(self._subject)} if predict else {}
        chosen = [predicting.get(tool.name, tool) for tool in tools_of(self._subject) if tool.name in names]
        self._ranks = structured if ranks is None else ranks
        restricted: Callable[[JsonSchemaValue], JsonSchemaValue] = dict  # without numbers, an unchanged copy
        if self._ranks:
            restricted = partial(_by_number, most=min(SHOWN + turns, MAX_NUMBERS), one=self._subject.words.one)
        self._limits = needed_edits(self._subject).limits() if limits is None else limits
        self._structured = structured
        self._foreign = foreign
        self._foreign_tools = foreign.tools if foreign else {}
        self._registry = Registry(chosen, self._foreign_tools)
        self.listed = [(tool.name, tool.description.partition(". ")[0]) for tool in chosen]
        """Name and short description of each tool."""
        offered = [restricted(tool.schema) for tool in chosen]
        offered += [tool.schema for tool in self._foreign_tools.values()]
        if not strict:
            offered = [_not_strict(schema) for schema in offered]
        self.schemas: list[dict[str, Any]] = [] if structured else offered
        """Schemas for calls in the provider's format; empty if answers are structured."""
        self.answer_schema = restricted(call_schema(chosen))
        """Schema of a structured answer."""

    def content(self, required: bool) -> dict[str, Any]:
        """Returns what was offered and what restricted an answer, as the ledger keeps it. required: whether an answer
        must be a call."""
        return {
            "tools": self.schemas,
            "listed": [list(entry) for entry in self.listed],
            "structured": self._structured,
            "answer_schema": self.answer_schema if self._structured else None,
            "ranks": self._ranks,
            "required": required,
            "limits": asdict(self._limits),
            "edits": needed_edits(self._subject).tables_hash,
            "versions": grammar_versions(),
        }

    def fetch(self, message: Message) -> dict[int, Observation]:
        """Carries out an answer's MCP calls up to `finish`. Returns the results by position of the call.

        These calls do not use the bench, so they may run early, in the thread that asked the model.
        """
        if self._foreign is None:
            return {}
        fetched = {}
        for place, call in enumerate(self._calls(message)[:MAX_CALLS]):
            if call.name == "finish":
                break
            if call.name in self._foreign_tools:
                fetched[place] = self._foreign.call(call.name, call.arguments)
        return fetched

    def run(
        self,
        message: Message,
        bench: AgentBench,
        seed: int,
        fetched: Mapping[int, Observation] | None = None,
        numbered: Sequence[str] = (),
        cut_at: int | None = None,
    ) -> ToolResults:
        """Carries out the calls of an answer in order, until a call ends the episode. Calls within the thinking are
        ignored. fetched: the result of `fetch` for the same answer. numbered: the candidates shown so far, from #1.
        cut_at: number of tokens at which the answer was cut off; None if it was not. The model is told so."""
        calls = self._calls(message)
        cut = "" if cut_at is None else f"Your answer was cut at {cut_at} tokens; write a shorter one. "
        if not calls:
            reply = f"{cut}Nothing was called. Call one of the tools: {', '.join(self._registry.names)}."
            return ToolResults(calls=(), messages=(Message("user", reply),), finished=False)
        records = list[Mapping[str, Any]]()
        replies = list[Message]()
        known = list(numbered)
        finished = False
        for place, call in enumerate(calls):
            if place >= MAX_CALLS:
                text = f"error: more than {MAX_CALLS} calls in one answer; this one was left out"
                observation = Observation(ok=False, text=text)
            elif call.name in self._foreign_tools:
                observation = (fetched or {}).get(place, _NOT_FETCHED)
            else:
                observation = self._registry.call(
                    call.name,
                    call.arguments,
                    bench,
                    seed=seed + place,
                    limits=self._limits,
                    numbered=known,  # the tools append to it
                    subject=self._subject,
                )
            records.append(call_record(call.name, call.arguments, observation))
            # a structured answer has no call with an id, which a message of a tool would need
            role: Role = "tool" if message.calls else "user"
            call_id = call.id if message.calls else ""
            replies.append(Message(role, observation.text, call_id=call_id, name=call.name[:64]))
            finished = observation.ended
            if finished:
                break
        if cut and not finished:
            replies.append(Message("user", cut.strip()))
        newly_numbered = known[len(numbered) :]
        return ToolResults(records, tuple(replies), finished, tuple(newly_numbered))

    def _calls(self, message: Message) -> tuple[ToolCall, ...]:
        """Returns the calls of an answer. A JSON object as content, as in structured answers, is one call."""
        may_be_json = self._structured or message.content.lstrip().startswith("{")
        if message.calls or not may_be_json:
            return message.calls
        try:
            given = read_arguments(message.content)
        except CallError:
            return ()
        name = given.get("name")
        arguments = given.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return ()
        return (ToolCall("", name, json.dumps(arguments)),)
