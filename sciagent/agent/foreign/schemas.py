"""The schema of a server's tool, cut down to what cannot hurt: few plain keywords, no reference, no regular expression.

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

from sciagent.agent.tools.wording import short

MAX_NODES = 200
MAX_DEPTH = 10
MAX_ENTRIES = 40  # of one object
MAX_CHOICES = 100  # of one enum
MAX_CASES = 12  # of one anyOf
MAX_NAME = 64  # characters of an argument's name
MAX_DESCRIPTION = 240
MAX_WRITTEN = 8000  # characters of the whole

WRITTEN_STRING = 200  # characters, where a grammar writes the arguments and the server gives no smaller limit
WRITTEN_ITEMS = 8
WRITTEN_NUMBER = 10**9

OPEN: Mapping[str, Any] = {"type": "object", "properties": {}}
_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_STRICT = frozenset(("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "description"))


def plain(given: Any) -> JsonSchemaValue:
    """The arguments as a schema of an object. What is too large or too deep becomes `{}`, which is anything; where all
    of it is too long, the descriptions go first, then everything."""
    for described in (True, False):
        found = _Reader(given, described).node(given, 0, frozenset())
        found = {name: value for name, value in found.items() if name not in ("anyOf", "enum")}
        found |= {"type": "object", "properties": found.get("properties", {})}
        if len(json.dumps(found, ensure_ascii=False)) <= MAX_WRITTEN:
            return found
    return dict(OPEN)


class _Reader:
    """nodes: read so far; references are read anew at each place, so they count there."""

    def __init__(self, root: Any, described: bool) -> None:
        self._root, self._described, self._nodes = root, described, 0

    def node(self, given: Any, depth: int, inside: frozenset[str]) -> JsonSchemaValue:
        """inside: the references that led here; one that leads to itself ends in anything."""
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
        found = _flat_keywords(given)
        self._cases(given, found, depth, inside)
        if isinstance(given.get("items"), dict):
            found["items"] = self.node(given["items"], depth + 1, inside)
        self._entries(given, found, depth, inside)
        text = given.get("description")
        if self._described and isinstance(text, str) and text.strip():
            found["description"] = one_line(text, MAX_DESCRIPTION)
        return found

    def _target(self, reference: Any) -> Any:
        """What `#/…` points to in the same schema. Nothing else is followed, and nothing is ever fetched."""
        if not isinstance(reference, str) or not reference.startswith("#/") or len(reference) > 200:
            return None
        here = self._root
        for part in reference[2:].split("/"):
            here = here.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(here, dict) else None
        return here

    def _cases(self, given: JsonSchemaValue, found: JsonSchemaValue, depth: int, inside: frozenset[str]) -> None:
        for keyword in ("anyOf", "oneOf"):
            cases = given.get(keyword)
            if isinstance(cases, list) and 0 < len(cases) <= MAX_CASES:
                found["anyOf"] = [self.node(one, depth + 1, inside) for one in cases]
                return

    def _entries(self, given: JsonSchemaValue, found: JsonSchemaValue, depth: int, inside: frozenset[str]) -> None:
        entries = given.get("properties")
        if isinstance(entries, dict) and len(entries) <= MAX_ENTRIES:
            found["properties"] = {
                name: self.node(one, depth + 1, inside) for name, one in entries.items() if _is_name(name)
            }
            required = given.get("required")
            if isinstance(required, list):
                found["required"] = [name for name in found["properties"] if name in required]
            if given.get("additionalProperties") is False and len(found["properties"]) == len(entries):
                found["additionalProperties"] = False


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Whether it is one that OpenAI takes as strict: closed, every argument required, only keywords that it has."""
    if not schema or not schema.keys() <= _STRICT or not {"type", "enum", "anyOf"} & schema.keys():
        return False
    entries = schema.get("properties", {})
    if schema.get("type") == "object" or entries:
        closed = schema.get("additionalProperties") is False and set(schema.get("required", ())) == set(entries)
        if not closed or "properties" not in schema:
            return False
    if schema.get("type") == "array" and "items" not in schema:
        return False
    inside = [*entries.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else ())]
    return all(map(is_strict, inside))


def closed(schema: Mapping[str, Any]) -> JsonSchemaValue | None:
    """The same, narrowed so that a grammar can write it: nothing open, texts and lists of bounded length. None where
    that cannot be: something that has to be given may be anything."""
    if "anyOf" in schema:
        cases = [one for case in schema["anyOf"] if (one := closed(case)) is not None]
        return {"anyOf": cases} if cases else None
    if "enum" in schema:
        return {"enum": schema["enum"]}
    kind = schema.get("type", "object" if "properties" in schema else None)
    if isinstance(kind, list):
        return closed({"anyOf": [{**schema, "type": one} for one in kind]})
    match kind:
        case "string":
            return _within(schema, kind, "Length", WRITTEN_STRING)
        case "array":
            return _closed_array(schema)
        case "number" | "integer":
            return _closed_number(schema, kind)
        case "boolean" | "null":
            return {"type": kind}
        case "object":
            return _closed_object(schema)
    return None


def _within(schema: Mapping[str, Any], kind: str, of: str, limit: int) -> JsonSchemaValue | None:
    low, high = schema.get(f"min{of}", 0), min(schema.get(f"max{of}", limit), limit)
    return None if low > high else {"type": kind, f"min{of}": low, f"max{of}": high}


def _closed_array(schema: Mapping[str, Any]) -> JsonSchemaValue | None:
    items = closed(schema.get("items", {}))
    array = _within(schema, "array", "Items", WRITTEN_ITEMS)
    return None if items is None or array is None else {**array, "items": items}


def _closed_number(schema: Mapping[str, Any], kind: str) -> JsonSchemaValue:
    limits = {name: schema[name] for name in _LIMITS if name in schema}
    low = {} if "exclusiveMinimum" in limits else {"minimum": -WRITTEN_NUMBER}
    high = {} if "exclusiveMaximum" in limits else {"maximum": WRITTEN_NUMBER}
    return {"type": kind} | low | high | limits


def _closed_object(schema: Mapping[str, Any]) -> JsonSchemaValue | None:
    required = schema.get("required", ())
    entries = {}
    for name, one in schema.get("properties", {}).items():
        made = closed(one)
        if made is not None:
            entries[name] = made
        elif name in required:
            return None
    return {"type": "object", "properties": entries, "required": list(required), "additionalProperties": False}


def one_line(text: str, limit: int) -> str:
    """A stranger's text on one line, control characters escaped, cut."""
    return short(" ".join(text[: 4 * limit].split()), limit)


def _flat_keywords(given: Mapping[str, Any]) -> JsonSchemaValue:
    """The keywords that hold no further schema: type, choices, and limits of sizes and numbers."""
    found: dict[str, Any] = {}
    if kinds := _kinds(given.get("type")):
        found["type"] = kinds[0] if len(kinds) == 1 else kinds
    if choices := _choices(given):
        found["enum"] = choices
    found |= {name: given[name] for name in _COUNTS if _is_count(given.get(name))}
    return found | {name: given[name] for name in _LIMITS if _is_number(given.get(name))}


def _kinds(given: Any) -> list[str]:
    many = given if isinstance(given, list) else [given]
    return list(dict.fromkeys(one for one in many[: len(_TYPES)] if isinstance(one, str) and one in _TYPES))


def _choices(given: Mapping[str, Any]) -> list[Any]:
    """All of an enum, or nothing of it: half of the choices would forbid the others."""
    many = [given["const"]] if "const" in given else given.get("enum")
    if not isinstance(many, list) or len(many) > MAX_CHOICES or not all(map(_is_choice, many)):
        return []
    return many


def _is_choice(one: Any) -> bool:
    if isinstance(one, str):
        return len(one) <= 200 and (one.isprintable() or not one)
    return one is None or isinstance(one, bool) or _is_number(one)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MAX_NAME and name.isprintable()


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**6


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and abs(value) < 1e15
