"""Reads the arguments of a model's call strictly: bounded JSON, and nothing else."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from sciagent.agent.tools.wording import shown
from sciagent.errors import SciagentError

MAX_CHARACTERS = 20_000
MAX_DEPTH = 20
MAX_DIGITS = 40  # of one number, as written

_SURROGATE = re.compile("[\ud800-\udfff]")


class CallError(SciagentError):
    """A call that cannot be carried out; the message says how to call correctly."""


def read_arguments(text: object) -> Mapping[str, Any]:
    """The JSON object in the text; an empty text is an empty object.

    Raises CallError for text that is too long or too deeply nested, for anything but a JSON object, repeated keys, NaN,
    infinite or overlong numbers, and lone surrogates, which no database can store.
    """
    if not isinstance(text, str):
        raise CallError(f"the arguments are a JSON text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise CallError(f"the arguments have {len(text)} characters; the limit is {MAX_CHARACTERS}")
    if not text.strip():
        return {}
    if _depth(text) > MAX_DEPTH:
        raise CallError(f"the arguments are nested deeper than {MAX_DEPTH}; a flat object is enough")
    try:
        made = json.loads(text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise CallError(f"the arguments are not JSON: {error.msg} at {where}; write one JSON object alone") from error
    if not isinstance(made, dict):
        raise CallError(f"the arguments are one JSON object with named entries, not {_kind(made)}")
    if _surrogates(made):
        raise CallError("the arguments hold half of a UTF-16 surrogate pair, which is no character; leave it out")
    return made


def _depth(text: str) -> int:
    """How deeply brackets outside strings are nested; counted before the recursive parser reads the text."""
    depth = deepest = 0
    inside = escaped = False
    for character in text:
        if inside:
            inside = escaped or character != '"'
            escaped = character == "\\" and not escaped
        elif character == '"':
            inside = True
        elif character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif character in "]}":
            depth -= 1
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> Mapping[str, Any]:
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise CallError(f"{shown(name)} is given twice; give every argument once")
        made[name] = value
    return made


def _constant(text: str) -> float:
    raise CallError(f"{text} is not a number that JSON has; write a finite one")


def _float(text: str) -> float:
    if len(text) > MAX_DIGITS or not math.isfinite(value := float(text)):
        raise CallError(f"the number {shown(text, 30)} is too long or too large")
    return value


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise CallError(f"the number {shown(text, 30)} has {len(text)} digits; write at most {MAX_DIGITS}")
    return int(text)


def _surrogates(value: Any) -> bool:
    if isinstance(value, str):
        return _SURROGATE.search(value) is not None
    if isinstance(value, dict):
        return any(_surrogates(name) or _surrogates(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_surrogates, value))


def _kind(value: object) -> str:
    names = {str: "a text", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
