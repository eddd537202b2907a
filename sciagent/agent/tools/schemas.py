"""JSON schemas of the tools, strict for any OpenAI-compatible endpoint, and of whole answers, for constrained decoding.
They use plain keywords only: references are expanded, titles and defaults removed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import JsonSchemaValue

if TYPE_CHECKING:
    from sciagent.agent.tools.registry import Tool


def schema(tool: Tool) -> JsonSchemaValue:
    """Returns the tool's schema in OpenAI's strict form: every argument is required, optional ones may be null. The
    keys are in vLLM's order, so that a chat template makes the same prompt on the server and here."""
    parameters = _plain(tool.arguments.model_json_schema(), described=True)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": function}


def call_schema(tools: Iterable[Tool]) -> JsonSchemaValue:
    """Returns the schema of a whole answer {"name": a tool, "arguments": {...}}, with one or more cases per tool. It
    has no descriptions, since it is for constrained decoding."""
    cases = []
    for tool in tools:
        name = {"type": "string", "enum": [tool.name]}
        flat = _plain(tool.arguments.model_json_schema(), described=False)
        cases += [_object({"name": name, "arguments": case}) for case in (tool.cases(flat) if tool.cases else [flat])]
    return {"anyOf": cases}


def _object(entries: Mapping[str, Any]) -> JsonSchemaValue:
    return {"type": "object", "properties": dict(entries), "required": list(entries), "additionalProperties": False}


def _plain(full: Mapping[str, Any], *, described: bool) -> JsonSchemaValue:
    dropped = {"title", "default", "$defs", *([] if described else ["description"])}

    def plain(node: Mapping[str, Any]) -> JsonSchemaValue:
        if "$ref" in node:
            return plain(full["$defs"][node["$ref"].rpartition("/")[2]])
        if node.get("type") == "object":
            return _object({name: plain(entry) for name, entry in node.get("properties", {}).items()})
        kept = {name: value for name, value in node.items() if name not in dropped}
        if "anyOf" in node:
            kept["anyOf"] = [plain(option) for option in node["anyOf"]]
        if "items" in node:
            kept["items"] = plain(node["items"])
        return kept

    return plain(full)
