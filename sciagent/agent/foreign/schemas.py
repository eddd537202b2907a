"""Cuts the schema of a server's tool down to a few plain keywords, without references and regular expressions.

A server may send anything: 100 kB of text, control characters, schemas that contain themselves or that grow without end
when their references are written out, patterns that take for ever. What is left out is not checked here; the server
checks its arguments itself.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from sciagent.agent.tools.wording import one_line

MAX_NODES = 200
MAX_DEPTH = 10
MAX_ENTRIES = 40  # of one object
MAX_CHOICES = 100  # of one enum
MAX_CASES = 12  # of one anyOf
MAX_NAME = 64  # characters of an argument's name
MAX_DESCRIPTION = 240
MAX_WRITTEN = 16_000  # characters of the whole

WRITTEN_STRING = 200  # characters, where a grammar writes the arguments and the server gives no smaller limit
WRITTEN_ITEMS = 8
WRITTEN_NUMBER = 10**9

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")


def plain(given: Any) -> JsonSchemaValue:
    """The arguments as a schema of an object. A part that is too large or too deep becomes `{}`, which is anything;
    if the whole is too long, all of it does."""
    read = _Reader(given).node(given, 0, frozenset())
    schema = {name: value for name, value in read.items() if name not in ("anyOf", "enum")}
    schema |= {"type": "object", "properties": schema.get("properties", {})}
    return schema if len(json.dumps(schema, ensure_ascii=False)) <= MAX_WRITTEN else plain({})


class _Reader:
    """Counts the nodes read so far. References are read anew at each place, so they count there."""

    def __init__(self, root: Any) -> None:
        self._root, self._nodes = root, 0

    def node(self, given: Any, depth: int, inside: frozenset[str]) -> JsonSchemaValue:
        """One node and all below it. inside: the references that led here; one that leads to itself ends in `{}`."""
        self._nodes += 1
        if not isinstance(given, dict) or depth > MAX_DEPTH or self._nodes > MAX_NODES:
            return {}
        reference = given.get("$ref")
        if reference is not None:
            target = self._target(reference)
            if not isinstance(target, dict) or reference in inside:
                return {}
            rest = {name: value for name, value in given.items() if name != "$ref"}
            return self.node({**target, **rest}, depth + 1, inside | {reference})

        def read(part: Any) -> JsonSchemaValue:
            return self.node(part, depth + 1, inside)

        schema = _flat_keywords(given)
        cases = given.get("anyOf", given.get("oneOf"))
        if isinstance(cases, list) and 0 < len(cases) <= MAX_CASES:
            schema["anyOf"] = [read(case) for case in cases]
        if isinstance(given.get("items"), dict):
            schema["items"] = read(given["items"])
        entries, required = given.get("properties"), given.get("required")
        if isinstance(entries, dict) and len(entries) <= MAX_ENTRIES:
            kept = {name: read(entry) for name, entry in entries.items() if _is_short(name, MAX_NAME) and name}
            schema["properties"] = kept
            if isinstance(required, list):
                schema["required"] = [name for name in kept if name in required]
            if given.get("additionalProperties") is False and len(kept) == len(entries):
                schema["additionalProperties"] = False
        text = given.get("description")
        if isinstance(text, str) and text.strip():
            schema["description"] = one_line(text, MAX_DESCRIPTION)
        return schema

    def _target(self, reference: Any) -> Any:
        """What `#/…` points to in the same schema. Nothing else is followed, and nothing is ever fetched."""
        if not isinstance(reference, str) or not reference.startswith("#/"):
            return None
        node = self._root
        for part in reference[2:].split("/"):
            node = node.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
        return node


def _flat_keywords(given: Mapping[str, Any]) -> JsonSchemaValue:
    """The keywords that hold no further schema: type, choices, and limits of sizes and numbers."""
    schema: dict[str, Any] = {}
    types = given.get("type")
    kinds = [kind for kind in _TYPES if kind in (types if isinstance(types, list) else [types])]
    if kinds:
        schema["type"] = kinds[0] if len(kinds) == 1 else kinds
    choices = [given["const"]] if "const" in given else given.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= MAX_CHOICES and all(map(_is_choice, choices)):
        schema["enum"] = choices  # all or none: half of the choices would forbid the others
    schema |= {name: n for name in _COUNTS if type(n := given.get(name)) is int and 0 <= n <= 10**6}
    return schema | {name: given[name] for name in _LIMITS if _is_number(given.get(name))}


def _is_choice(value: Any) -> bool:
    return value is None or isinstance(value, bool) or _is_number(value) or _is_short(value, 200)


def _is_short(value: Any, limit: int) -> bool:
    return isinstance(value, str) and len(value) <= limit and value.isprintable()


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and abs(value) < 1e15


def closed(schema: Mapping[str, Any]) -> JsonSchemaValue | None:
    """The schema narrowed so that a grammar can write it: nothing open, and texts and lists of bounded length. None if
    that is impossible, because a required part may be anything."""
    if "anyOf" in schema:
        cases = [case for case in map(closed, schema["anyOf"]) if case is not None]
        return {"anyOf": cases} if cases else None
    if "enum" in schema:
        return {"enum": schema["enum"]}
    kind = schema.get("type", "object" if "properties" in schema else None)
    limits = {name: schema[name] for name in (*_LIMITS, *_COUNTS) if name in schema}
    match kind:
        case list():
            return closed({"anyOf": [{**schema, "type": alternative} for alternative in kind]})
        case "string":
            return {"type": kind} | limits | {"maxLength": min(schema.get("maxLength", WRITTEN_STRING), WRITTEN_STRING)}
        case "array":
            items = closed(schema.get("items", {}))
            longest = min(schema.get("maxItems", WRITTEN_ITEMS), WRITTEN_ITEMS)
            return None if items is None else {"type": kind, **limits, "maxItems": longest, "items": items}
        case "number" | "integer":
            return {"type": kind, "minimum": -WRITTEN_NUMBER, "maximum": WRITTEN_NUMBER} | limits
        case "boolean" | "null":
            return {"type": kind}
        case "object":
            entries = {name: closed(entry) for name, entry in schema.get("properties", {}).items()}
            required = list(schema.get("required", ()))
            if any(entries[name] is None for name in required):
                return None
            entries = {name: entry for name, entry in entries.items() if entry is not None}
            return {"type": "object", "properties": entries, "required": required, "additionalProperties": False}
    return None
