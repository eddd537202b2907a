"""The registered tools: their names, arguments, and how calls are carried out.

A model's text is treated as data. A call is parsed strictly and checked against the tool's arguments; the observation
of a wrong call says what is wrong and how to call correctly. Nothing is evaluated.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import ErrorDetails

from sciagent.agent.tools.bench import AgentBench
from sciagent.agent.tools.reading import CallError, read_arguments
from sciagent.agent.tools.schemas import schema
from sciagent.agent.tools.wording import bounded, short, shown
from sciagent.chemistry.editing.edits import ANY, EditLimits
from sciagent.errors import CampaignError, LedgerError, did_you_mean

MAX_COMPLAINTS = 6
_log = logging.getLogger("sciagent")


class Arguments(BaseModel):
    """Base class of the tools' arguments: no extra keys, and no text in place of a number."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class ToolContext:
    """The objects that a tool needs besides its arguments."""

    bench: AgentBench
    seed: int = 0
    """The episode's seed, for choices that the call leaves open."""
    limits: EditLimits = ANY
    """What edited molecules may be."""


@dataclass(frozen=True)
class Observation:
    """The answer to a call."""

    ok: bool
    """Whether the call was carried out."""
    text: str
    """For the model: bounded, with control characters escaped."""
    data: Mapping[str, Any] = field(default_factory=dict)
    tool: str = ""
    ended: bool = False
    """Whether the episode is over."""
    fault: Exception | None = None
    """An error in sciagent itself, for which the call is not to blame."""


@dataclass(frozen=True)
class Tool:
    """A registered tool."""

    name: str
    description: str
    """The docstring of `run`."""
    arguments: type[Arguments]
    run: Callable[[Any, ToolContext], Observation]
    example: Mapping[str, Any] = field(default_factory=dict)
    """Correct arguments."""
    cases: Callable[[dict[str, Any]], list[dict[str, Any]]] | None = None
    """Makes narrower schemas of the arguments, which together allow every sensible call, from the full schema."""

    @classmethod
    def of(cls, run: Callable[[Any, ToolContext], Observation], *, cases: Any = None, **example: Any) -> Tool:
        """The tool for a typed function with a docstring. Raises TypeError if either is missing."""
        taken = get_type_hints(run).get(next(iter(inspect.signature(run).parameters)))
        if not (isinstance(taken, type) and issubclass(taken, Arguments)) or not run.__doc__:
            raise TypeError(f"{run.__qualname__} needs a docstring and, as its first parameter, a model of arguments")
        return cls(run.__name__, " ".join(inspect.cleandoc(run.__doc__).split()), taken, run, example, cases)

    @property
    def usage(self) -> str:
        return f"{self.name} {json.dumps(dict(self.example))}"


class Registry:
    """Tools by name. others: names of MCP tools, suggested for misspelt names. Raises ValueError for a repeated
    name."""

    def __init__(self, tools: Iterable[Tool], others: Iterable[str] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._others = tuple(others)
        for tool in tools:
            if tool.name in self._tools:
                raise ValueError(f"two tools are called {tool.name}")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def schemas(self) -> list[JsonSchemaValue]:
        return [schema(tool) for tool in self]

    def call(
        self, name: str, arguments: str, bench: AgentBench, *, seed: int = 0, limits: EditLimits = ANY
    ) -> Observation:
        """Carry out a call as a model wrote it. Mistakes in the call are reported in the observation; only errors of
        the ledger or the campaign are raised."""
        known = name if isinstance(name, str) and name in self._tools else ""
        try:
            tool = self._named(name)
            seen = tool.run(_checked(tool, read_arguments(arguments)), ToolContext(bench, seed, limits))
        except CallError as error:
            usage = f"\nfor example: {self._tools[known].usage}" if known else ""
            seen = Observation(False, f"error: {bounded(str(error))[: 1990 - len(usage)]}{usage}")
        except (LedgerError, CampaignError):
            raise
        except Exception as error:  # noqa: BLE001 - ours, not the model's: it is kept, and the episode decides
            _log.warning("tool %s failed: %s", known, error, exc_info=error)
            seen = Observation(False, "error: this tool failed, through no fault of the call; try another", fault=error)
        return replace(seen, text=bounded(seen.text), tool=known)

    def _named(self, name: object) -> Tool:
        if isinstance(name, str) and name in self._tools:
            return self._tools[name]
        text = short(name if isinstance(name, str) else type(name).__name__, 40)
        names = [*self._tools, *self._others]
        raise CallError(f'no tool is called "{text}"{did_you_mean(text, names)}; there are: {", ".join(names)}')


def _checked(tool: Tool, given: Mapping[str, Any]) -> Arguments:
    try:
        return tool.arguments.model_validate(given)
    except ValidationError as error:
        wrong = error.errors(include_url=False)
        lines = [_complaint(tool, complaint) for complaint in wrong[:MAX_COMPLAINTS]]
        if len(wrong) > MAX_COMPLAINTS:
            lines.append(f"and {len(wrong) - MAX_COMPLAINTS} more")
        raise CallError("\n".join(lines)) from None


def _complaint(tool: Tool, wrong: ErrorDetails) -> str:
    """One line: where, what is wrong, what would be right."""
    where = short(".".join(map(str, wrong["loc"])), 80)
    given, limits = wrong["input"], wrong.get("ctx", {})
    match wrong["type"]:
        case "missing":
            return f"{where}: missing; it has to be given"
        case "extra_forbidden":
            names = list(tool.arguments.model_fields)
            near = did_you_mean(where, names)
            return f"{where}: {tool.name} takes no such argument{near}; it takes: {', '.join(names) or 'none'}"
        case "one_of":
            near = did_you_mean(short(given), limits["names"]) if isinstance(given, str) else ""
            return f"{where}: {shown(given)} is none of them{near}; one of: {short(', '.join(limits['names']), 1200)}"
        case "string_too_long":
            return f"{where}: {len(given)} characters; the limit is {limits['max_length']}"
        case "string_type":
            return f"{where}: a text in quotes is wanted here; it was {shown(given)}"
        case "int_type" | "int_from_float" | "float_type":
            kind = "a whole number" if wrong["type"].startswith("int") else "a number"
            return f"{where}: {kind} without quotes is wanted here; it was {shown(given)}"
        case _:
            return f"{where}: {short(wrong['msg'], 120)}; it was {shown(given)}"
