"""The registry of tools: their names and arguments, and how calls are carried out.

A model's text is treated as data; nothing in it is evaluated. Arguments are parsed strictly and checked against the
tool's argument types. The observation of a wrong call says what is wrong and how to call correctly.

The JSON schemas use plain keywords only: references are expanded, titles and defaults removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from inspect import signature
from typing import Any, Protocol, TypedDict, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import ErrorDetails

from sciagent.chemistry.subjects.base import EditSet, Subject, Words
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import needed_edits, subject_of
from sciagent.domain.candidate_and_its_names_in_files import MOLECULE_KIND, Candidate
from sciagent.domain.proposer_interfaces import Workbench
from sciagent.domain.safe_text_and_durations import MAX_OBSERVATION, bounded, short, shown
from sciagent.errors import CampaignError, LedgerError, SciagentError, did_you_mean

MAX_CHARACTERS = 20_000
MAX_COMPLAINTS = 6  # complaints about the arguments of one call
MAX_ERROR = MAX_OBSERVATION - 10  # characters of the complaints and the example of one call, with some to spare


class CallError(SciagentError):
    """A call cannot be carried out. The message says how to call correctly."""


def read_arguments(text: object) -> Mapping[str, Any]:
    """Returns the JSON object in the text; an empty text is an empty object.

    Raises CallError if the text is too long, too deeply nested or not a JSON object, or has repeated keys, NaN,
    infinite or overlong numbers, or lone surrogates, which no database can store.
    """
    if not isinstance(text, str):
        raise CallError(f"the arguments are a JSON text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise CallError(f"the arguments have {len(text)} characters; the limit is {MAX_CHARACTERS}")
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text, object_pairs_hook=_without_repeated_keys)
        # raises an error for NaN, infinite numbers and lone surrogates
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CallError(f"the arguments are not JSON: {error.msg} at {where}; write one JSON object alone") from error
    except RecursionError as error:
        raise CallError("the arguments are nested too deeply; a flat object is enough") from error
    except UnicodeEncodeError as error:
        message = "the arguments hold half of a UTF-16 surrogate pair, which is no character; leave it out"
        raise CallError(message) from error
    except ValueError as error:
        raise CallError(f"the arguments hold a number that cannot be used: {error}") from error
    if not isinstance(arguments, dict):
        raise CallError("the arguments are one JSON object with named entries, and nothing else")
    return arguments


def _without_repeated_keys(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise CallError("an argument is given twice; give every argument once")
    return entries


_log = logging.getLogger("sciagent")


STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)
"""Strict models: no extra keys, and no text in place of a number."""


class Past(TypedDict):
    """An earlier proposal."""

    text: str
    key: str | None
    status: str
    """new, duplicate, refused or filtered."""
    standing: str | None
    """Standing of the candidate, such as open or dropped; None if there is none."""
    reason: str
    """Why the proposal was refused or dropped; empty if it was not."""
    operation: str
    worth: str | None
    """The worth in words; None if there is no result yet."""


class AgentBench(Workbench, Protocol):
    """The bench of the tools; `campaign` implements it. Arguments are checked: plain text of bounded length."""

    def barred(self, candidate: Candidate) -> str | None:
        """Returns why nothing is bred from a candidate, such as a person's veto; None if it may be a parent."""

    def results_of(self, key: str) -> list[str]:
        """Returns one line per paid rung with evidence on the candidate."""

    def recent(self, n: int) -> list[Past]:
        """Returns the last n proposals of the campaign and their outcomes, latest first."""

    def left(self) -> dict[str, float]:
        """Returns the remaining budget by resource: `proposals`, `core_seconds`, the name of a rung and so on."""

    def note(self, text: str) -> None:
        """Stores a remark for later episodes."""

    def goal(self) -> str:
        """Returns the campaign's goal, in a few lines."""


@dataclass(frozen=True)
class ToolContext:
    """The objects that a tool needs besides its arguments."""

    bench: AgentBench
    seed: int = 0
    """The episode's seed, for random choices."""
    limits: Any = None
    """Bounds on edited candidates; None: the bounds that the subject sets itself, without the campaign's checks."""
    numbered: list[str] = field(default_factory=list)
    """Notations of the candidates that the episode has shown with a number, the first with #1. Tools add to it."""
    predicted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Predictions of the call's candidate: `value` and `error` by property."""
    subject: Subject = field(default_factory=lambda: subject_of(MOLECULE_KIND))
    """The subject of the campaign."""

    @property
    def edits(self) -> EditSet:
        return needed_edits(self.subject)

    @property
    def bounds(self) -> Any:
        """The bounds on edited candidates."""
        return self.edits.limits() if self.limits is None else self.limits


@dataclass(frozen=True)
class Observation:
    """The answer to a call."""

    ok: bool
    """Whether the call was carried out."""
    text: str
    """Text for the model, of bounded length, with control characters escaped."""
    ended: bool = False
    """Whether the call ended the episode."""


@dataclass(frozen=True)
class Tool:
    """A function that a model may call. Its docstring is the description, in which `{one}`, `{many}` and `{notation}`
    stand for the words of a subject."""

    run: Callable[..., Observation]
    """The function. Its parameters are a ToolContext named `run`, and the call's arguments."""
    example: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of a correct call."""
    cases: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None
    """Splits the schema of the arguments into narrower schemas, which together allow every sensible call."""
    words: Words | None = None
    """The words of the subject; None for a tool that needs none."""
    types: Mapping[str, Any] = field(default_factory=dict)
    """Types of arguments by parameter, where they depend on the subject; other types are taken from the signature."""
    called: Mapping[str, str] = field(default_factory=dict)
    """Names that arguments have in a model's calls, by parameter, where the two names differ."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def description(self) -> str:
        text = " ".join((self.run.__doc__ or "").split())
        return text if self.words is None else text.format(**vars(self.words))

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The pydantic model by which the arguments of a call are checked."""
        hints = get_type_hints(self.run, include_extras=True) | dict(self.types)
        parameters = [p for p in signature(self.run).parameters.values() if p.name != "run"]
        fields: dict[str, Any] = {}
        for parameter in parameters:
            name = self.called.get(parameter.name, parameter.name)
            default = ... if parameter.default is parameter.empty else parameter.default  # `...`: required
            fields[name] = (hints[parameter.name], default)
        return create_model(self.name, __config__=STRICT, **fields)

    def carried_out(self, context: ToolContext, given: Mapping[str, Any]) -> Observation:
        """Runs the tool. given: checked arguments, by the names that they have for the model."""
        parameter_by_called_name = {called: parameter for parameter, called in self.called.items()}
        by_parameter = {parameter_by_called_name.get(name, name): value for name, value in given.items()}
        return self.run(context, **by_parameter)

    @property
    def schema(self) -> JsonSchemaValue:
        """The tool's schema in OpenAI's strict form: every argument is required, optional ones may be null. The keys
        are in vLLM's order, so that a chat template makes the same prompt on the server and here."""
        parameters = _plain(self.arguments.model_json_schema(), described=True)
        function = {"name": self.name, "description": self.description, "parameters": parameters, "strict": True}
        return {"type": "function", "function": function}


class Registry:
    """Tools by name. others: names of MCP tools, suggested for misspelt names."""

    def __init__(self, tools: Iterable[Tool], others: Iterable[str] = ()) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self.names = [*self._tools, *others]

    def call(
        self,
        name: str,
        arguments: str,
        bench: AgentBench,
        *,
        seed: int = 0,
        limits: Any = None,
        numbered: list[str] | None = None,
        subject: Subject | None = None,
    ) -> Observation:
        """Carries out a call as the model wrote it. Mistakes in the call are reported in the observation; errors of the
        ledger or the campaign are raised. numbered: the candidates with a number; the call adds those that it shows.
        subject: None means molecules."""
        tool = self._tools.get(name)
        try:
            if tool is None:
                text = short(name, 40)
                names = self.names
                raise CallError(f'no tool is called "{text}"{did_you_mean(text, names)}; there are: {", ".join(names)}')
            context = ToolContext(
                bench,
                seed,
                limits,
                numbered=[] if numbered is None else numbered,
                subject=subject or subject_of(MOLECULE_KIND),
            )
            observation = tool.carried_out(context, _checked(tool, read_arguments(arguments)))
        except CallError as error:
            usage = f"\nfor example: {tool.name} {json.dumps(dict(tool.example))}" if tool else ""
            observation = Observation(ok=False, text=f"error: {bounded(str(error))[: MAX_ERROR - len(usage)]}{usage}")
        except (LedgerError, CampaignError):
            raise
        except Exception as error:  # noqa: BLE001 - ours, not the model's: it is logged, and the episode goes on
            _log.warning("tool %s failed: %s", name, error, exc_info=error)
            observation = Observation(
                ok=False, text="error: this tool failed, through no fault of the call; try another"
            )
        return replace(observation, text=bounded(observation.text))


def _checked(tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return dict(tool.arguments.model_validate(given))
    except ValidationError as error:
        faults = error.errors(include_url=False)[:MAX_COMPLAINTS]
        raise CallError("\n".join(_complaint(tool, fault) for fault in faults)) from None


def _complaint(tool: Tool, wrong: ErrorDetails) -> str:
    """Returns one line: which argument, what is wrong, and what is allowed."""
    where = short(".".join(map(str, wrong["loc"])), 80)
    given = wrong["input"]
    match wrong["type"]:
        case "missing":
            return f"{where}: missing; it has to be given"
        case "extra_forbidden":
            names = list(tool.arguments.model_fields)
            near = did_you_mean(where, names)
            return f"{where}: {tool.name} takes no such argument{near}; it takes: {', '.join(names) or 'none'}"
        case "one_of":
            names = wrong["ctx"]["names"]
            near = did_you_mean(short(given), names) if isinstance(given, str) else ""
            return f"{where}: {shown(given)} is none of them{near}; one of: {short(', '.join(names), 1200)}"
        case _:
            return f"{where}: {short(wrong['msg'], 120)}; it was {shown(given)}"


def call_schema(tools: Iterable[Tool]) -> JsonSchemaValue:
    """Returns the schema of a whole answer {"name": a tool, "arguments": {...}}, with one or more cases per tool. It
    has no descriptions, since it is for constrained decoding."""
    cases = []
    for tool in tools:
        name = {"type": "string", "enum": [tool.name]}
        any_arguments = _plain(tool.arguments.model_json_schema(), described=False)
        allowed_arguments = tool.cases(any_arguments) if tool.cases else [any_arguments]
        cases += [_object_schema({"name": name, "arguments": arguments}) for arguments in allowed_arguments]
    return {"anyOf": cases}


def _object_schema(entries: Mapping[str, Any]) -> JsonSchemaValue:
    return {"type": "object", "properties": dict(entries), "required": list(entries), "additionalProperties": False}


def _plain(full: Mapping[str, Any], *, described: bool) -> JsonSchemaValue:
    """Returns a schema with plain keywords only: without references, titles and defaults. described: whether the
    descriptions stay."""
    dropped = {"title", "default", "$defs"}
    if not described:
        dropped.add("description")

    def plain(node: Mapping[str, Any]) -> JsonSchemaValue:
        if "$ref" in node:
            _, _, definition = node["$ref"].rpartition("/")
            return plain(full["$defs"][definition])
        if node.get("type") == "object":
            return _object_schema({name: plain(entry) for name, entry in node.get("properties", {}).items()})
        kept = {name: value for name, value in node.items() if name not in dropped}
        if "anyOf" in node:
            kept["anyOf"] = [plain(option) for option in node["anyOf"]]
        if "items" in node:
            kept["items"] = plain(node["items"])
        return kept

    return plain(full)
