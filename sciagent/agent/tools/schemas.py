"""JSON schemas of the tools: strict ones for any OpenAI-compatible endpoint, and one for a whole answer, for
constrained decoding of a small model. Only plain keywords: references are expanded, titles and defaults left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import JsonSchemaValue

if TYPE_CHECKING:
    from sciagent.agent.tools.registry import Tool

_DROPPED = ("title", "default", "$defs")


def schema(tool: Tool) -> JsonSchemaValue:
    """The tool in OpenAI's strict form: every argument is required, optional ones may be null. The keys are in
    vLLM's order, so that a chat template makes the same prompt on the server and here."""
    function = {"name": tool.name, "description": tool.description, "parameters": parameters(tool), "strict": True}
    return {"type": "function", "function": function}


def parameters(tool: Tool) -> JsonSchemaValue:
    """The schema of the arguments alone."""
    full = tool.arguments.model_json_schema()
    return dict(_plain(full, full.get("$defs", {}), described=True))


def call_schema(tools: Iterable[Tool]) -> JsonSchemaValue:
    """Schema of a whole answer {"name": a tool, "arguments": {...}}, with at least one case per tool. It is for
    constrained decoding and therefore has no descriptions."""
    cases = []
    for tool in tools:
        full = tool.arguments.model_json_schema()
        flat = _plain(full, full.get("$defs", {}), described=False)
        for arguments in tool.cases(flat) if tool.cases else [flat]:
            cases.append(call_case(tool.name, arguments))
    return {"anyOf": cases}


def call_case(name: str, arguments: Mapping[str, Any]) -> JsonSchemaValue:
    """Schema of an answer that calls this tool."""
    return _object({"name": {"type": "string", "enum": [name]}, "arguments": arguments})


def _object(entries: Mapping[str, Any]) -> JsonSchemaValue:
    return {"type": "object", "properties": dict(entries), "required": list(entries), "additionalProperties": False}


def _plain(node: Mapping[str, Any], definitions: Mapping[str, Any], *, described: bool) -> JsonSchemaValue:
    if "$ref" in node:
        target = definitions[node["$ref"].rpartition("/")[2]]
        return _plain({**target, **{k: v for k, v in node.items() if k != "$ref"}}, definitions, described=described)
    if node.get("type") == "object":
        entries = {k: _plain(v, definitions, described=described) for k, v in node.get("properties", {}).items()}
        made = _object(entries)
        return {**made, "description": node["description"]} if described and "description" in node else made
    made = {k: v for k, v in node.items() if k not in _DROPPED and (described or k != "description")}
    if "const" in made:
        made["enum"] = [made.pop("const")]
    if "anyOf" in made:
        made["anyOf"] = [_plain(option, definitions, described=described) for option in made["anyOf"]]
    if "items" in made:
        made["items"] = _plain(made["items"], definitions, described=described)
    return made
