"""Pydantic's findings in the words of the person who wrote the file, with what would have been right."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from sciagent.errors import did_you_mean
from sciagent.yaml.faults import FAULT
from sciagent.yaml.positions import MAX_FAULTS, Document, Fault, Loc, kind_of

Below = Callable[[Any, int | str, Any], Any]  # the shape of a part: (shape around it, its key or place, data around it)

_NAME_RULE = 'takes 1 to 64 of a-z, 0-9, "_" and "-", the first a letter or digit'
_BOUNDS = {
    "greater_than": ("gt", "must be greater than"),
    "greater_than_equal": ("ge", "must be at least"),
    "less_than": ("lt", "must be less than"),
    "less_than_equal": ("le", "must be at most"),
}
_WANTED = {
    "string_type": "must be text",
    "float_type": "must be a number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
}


def explain(error: Mapping[str, Any], document: Document, root: type[BaseModel]) -> Fault:
    """One error of pydantic at its place in the file. root: the model of the whole file."""
    return explain_with(error, document, lambda loc, data: unknown_key(loc, data, root))


def explain_with(error: Mapping[str, Any], document: Document, unknown: Callable[[Loc, Any], tuple[str, str]]) -> Fault:
    """As `explain`. unknown: message and hint for a key that does not exist, from its path and the file's data."""
    loc, kind = _without_kinds(tuple(error["loc"]), document.data), str(error["type"])
    context: Mapping[str, Any] = error.get("ctx") or {}
    found = error.get("input")
    on_key, hint = kind in ("extra_forbidden", "missing"), ""
    if kind == "extra_forbidden":
        message, hint = unknown(loc, document.data)
    elif kind == "missing":
        message = "required, and missing"
    elif kind in ("union_tag_not_found", "union_tag_invalid", "literal_error", "enum"):
        loc = (*loc, "kind") if kind.startswith("union") else loc
        message, hint = _not_among(kind, found, context)
    elif found is None and kind != FAULT:
        message = "has no value; give one, or delete the line"
    elif kind == FAULT:
        message, hint = str(context.get("message", "")), str(context.get("hint", ""))
    else:
        message = _unfit_value(kind, found, context, str(error["msg"]))
    line, column = document.locate(loc, on_key or bool(context.get("on_key")))
    return Fault(line, column, " ".join(message.split()), loc, hint)


def _unfit_value(kind: str, found: Any, context: Mapping[str, Any], said: str) -> str:
    """Why a value that stands in the file does not fit. said: pydantic's own words."""
    if kind in _BOUNDS:
        key, words = _BOUNDS[kind]
        bound = context[key]
        return f"{words} {f'{bound:g}' if isinstance(bound, int | float) else bound}, not {found}"
    if kind in _WANTED:
        quote = "; put it in quotes" if kind == "string_type" and isinstance(found, int | float) else ""
        return f"{_WANTED[kind]}, not {kind_of(found)}{quote}"
    if kind == "string_pattern_mismatch":
        return f'"{found}" is no name; a name {_NAME_RULE}'
    return "needs at least one entry" if kind == "too_short" else re.sub(r"^Value error, ", "", said)


def is_echo(error: Mapping[str, Any]) -> bool:
    """Whether a list counts as too short only because its entries are wrong, which is said already."""
    found = error.get("input")
    return error["type"] == "too_short" and isinstance(found, list) and len(found) >= error["ctx"]["min_length"]


def show(loc: Loc) -> str:
    """`ladder[1].settings.functional`"""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def report(name: str, faults: Sequence[Fault]) -> str:
    """One line a mistake, in the order of the file: `name:line:column: path: message`. At most MAX_FAULTS of them."""
    lines: dict[str, None] = {}
    for fault in sorted(faults, key=lambda one: (one.line, one.column))[:MAX_FAULTS]:
        where = f"{show(fault.loc)}: " if fault.loc else ""
        text = f"{name}:{fault.line}:{fault.column}: {where}{fault.message}"
        lines[f"{text}\n  {fault.hint}" if fault.hint else text] = None
    if len(faults) >= MAX_FAULTS:
        lines[f"{name}: these are the first {MAX_FAULTS} mistakes; there may be more"] = None
    return "\n".join(lines)


def unknown_key(loc: Loc, data: Any, root: type[BaseModel]) -> tuple[str, str]:
    """Message and hint for a key that does not exist."""
    known = keys_at(loc[:-1], data, root)
    message = f"unknown key{did_you_mean(str(loc[-1]), known)}"
    return message, f"allowed: {', '.join(known)}" if known else ""


def _not_among(kind: str, found: Any, context: Mapping[str, Any]) -> tuple[str, str]:
    expected = str(context.get("expected_tags" if kind.startswith("union") else "expected", ""))
    known = re.findall(r"'([^']*)'", expected)
    if kind == "union_tag_not_found":
        return "required, and missing", f"allowed: {', '.join(known)}" if known else ""
    value = context.get("tag", found) if kind == "union_tag_invalid" else found
    if value is None:
        return "has no value; give one, or delete the line", f"allowed: {', '.join(known) or expected}"
    near = did_you_mean(value, known) if isinstance(value, str) else ""
    text = f'"{value}"' if isinstance(value, str) else kind_of(value)
    return f"{text} is not known here{near}", f"allowed: {', '.join(known) or expected}"


def _without_kinds(loc: Loc, data: Any) -> Loc:
    """The path as the file has it: pydantic also names the chosen member of a union by its `kind`."""
    kept: list[int | str] = []
    here = data
    for part in loc:
        if isinstance(here, dict) and part not in here and here.get("kind") == part:
            continue
        if here is not None and not isinstance(here, dict | list):
            break  # below a plain value pydantic names branches of its own
        here = _step(here, part)
        kept.append(part)
    return tuple(kept)


def _step(here: Any, part: int | str) -> Any:
    if isinstance(here, dict):
        return here.get(part)
    return here[part] if isinstance(here, list) and isinstance(part, int) and part < len(here) else None


def keys_at(loc: Loc, data: Any, root: type[BaseModel], below: Below | None = None) -> list[str]:
    """The keys that the mapping at `loc` takes; empty where any are, or nobody knows.

    below: finds the shape of a part, where the models alone do not say it; by default `member`.
    """
    shape: Any = root
    here = data
    for part in loc:
        shape = (below or member)(shape, part, here)
        here = _step(here, part)
    model = _model(shape, here)
    return list(model.model_fields) if model else []


def member(shape: Any, part: int | str, here: Any) -> Any:
    """The annotation of a part of `shape`; None where it has none."""
    if model := _model(shape, here):
        one = model.model_fields.get(str(part))
        return one.annotation if one else None
    args = typing.get_args(shape)
    origin = typing.get_origin(shape)
    if origin is typing.Annotated:
        return member(args[0], part, here)
    if origin is dict and len(args) == 2:
        return args[1]
    return args[0] if origin in (list, tuple) and args else None


def _model(shape: Any, here: Any) -> type[BaseModel] | None:
    """The model that stands at `shape`; of a union, the member whose `kind` the data names, else its only one."""
    if isinstance(shape, type) and issubclass(shape, BaseModel):
        return shape
    origin, args = typing.get_origin(shape), typing.get_args(shape)
    if origin is typing.Annotated:
        return _model(args[0], here)
    if origin not in (typing.Union, types.UnionType):
        return None
    members = [model for arg in args if (model := _model(arg, here))]
    kind = here.get("kind") if isinstance(here, dict) else None
    for model in members:
        one = model.model_fields.get("kind")
        if one is not None and kind in typing.get_args(one.annotation):
            return model
    return members[0] if len(members) == 1 else None
