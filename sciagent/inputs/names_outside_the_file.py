"""The names of a YAML file that reach beyond it: programs, addresses, environment variables, files and plug-ins.

A field of a model that takes such a name carries a mark: `endpoint: Annotated[str, Outside.ADDRESS] | None`. `names_in`
reads the marks and finds the names in data that nobody has validated yet, so that no file is opened for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

Loc = tuple[int | str, ...]
"""Keys and indices that lead to a value of the file. (`yaml_document` has the same, but needs a reader of YAML, which
environments of engines lack.)"""


class Outside(Enum):
    """The kind of thing beyond its file that a text, or a list of texts, names."""

    COMMAND = "commands"
    """A program with its arguments, as a list of texts."""
    ADDRESS = "endpoints"
    """An http address to which requests are sent."""
    VARIABLE = "variables"
    """An environment variable, whose value is read."""
    FILE = "folders"
    """A file or folder whose content is read as data."""
    CODE = "code"
    """A file whose content can run as a program, such as a pickle."""
    PLUGIN = "plugins"
    """Code of an installed package that takes settings of its own."""


@dataclass(frozen=True)
class ModelOf:
    """A mark of a mapping whose model depends on its neighbours, such as the settings of a verifier."""

    find: Callable[[Mapping[str, Any]], type[BaseModel] | None]
    """Takes the mapping that holds the field. Returns the model of the field's value; None if there is none."""


@dataclass(frozen=True)
class OutsideName:
    """A name that reaches beyond its file, and where it stands."""

    loc: Loc
    """Path of keys and list positions."""
    kind: Outside
    value: str | tuple[str, ...]
    """The text; of a command the program and its arguments."""


def names_in(data: Any, model: type[BaseModel]) -> list[OutsideName]:
    """Returns the names in the data of a file that reach beyond it, in the order of the model's fields.

    data: as `yaml_document.read` returns it. Where a field takes several models, the fields of each one that the data
    may be are looked at; an invalid value is reported as if it were valid."""
    return list(dict.fromkeys(_in_model(data, model, (), None)))  # several models may share a field


def _in_model(data: Any, model: type[BaseModel], loc: Loc, outer: Outside | None) -> Iterator[OutsideName]:
    """Yields the names in the data of a model. outer: the mark around the model, which replaces those of its fields."""
    if isinstance(data, str):  # the short form of a model, such as the path of a file in place of a mapping
        for field in model.model_fields.values():
            yield from _in_field({}, data, field, loc, outer)
        return
    if not isinstance(data, Mapping) or _is_another_kind(data, model):
        return
    for name, field in model.model_fields.items():
        for key in dict.fromkeys((name, field.alias or name)):
            if key in data:
                yield from _in_field(data, data[key], field, (*loc, key), outer)


def _is_another_kind(data: Mapping[str, Any], model: type[BaseModel]) -> bool:
    """Returns whether the data state a `kind` that is none of the model's."""
    field = model.model_fields.get("kind")
    if field is None or "kind" not in data or get_origin(field.annotation) is not Literal:
        return False
    return data["kind"] not in get_args(field.annotation)


def _in_field(
    around: Mapping[str, Any], value: Any, field: FieldInfo, loc: Loc, outer: Outside | None
) -> Iterator[OutsideName]:
    """Yields the names in the value of a field. around: the mapping that holds it."""
    for mark in field.metadata:
        if isinstance(mark, ModelOf):
            model = mark.find(around)
            if model is not None:
                yield from _in_model(value, model, loc, outer)
            return
    yield from _in_marked(value, field.annotation, field.metadata, loc, outer)


def _in_marked(
    value: Any, annotation: Any, metadata: list[Any] | tuple[Any, ...], loc: Loc, outer: Outside | None
) -> Iterator[OutsideName]:
    """Yields the names in a value of an annotation with metadata."""
    own = [mark for mark in metadata if isinstance(mark, Outside)]
    kind = outer or (own[-1] if own else None)  # the last mark is the outermost one
    if own and kind is not None:
        if isinstance(value, str):
            yield OutsideName(loc, kind, value)
            return
        if kind is Outside.COMMAND and isinstance(value, list):
            yield OutsideName(loc, kind, tuple(map(str, value)))
            return
    yield from _in_value(value, annotation, loc, kind)


def _in_value(value: Any, annotation: Any, loc: Loc, outer: Outside | None) -> Iterator[OutsideName]:
    """Yields the names in a value of an annotation, such as `dict[str, A | B]`."""
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield from _in_model(value, annotation, loc, outer)
    elif origin is Annotated:
        yield from _in_marked(value, arguments[0], arguments[1:], loc, outer)
    elif origin in (Union, UnionType):
        for member in arguments:
            yield from _in_value(value, member, loc, outer)
    elif isinstance(value, Mapping) and origin is dict:
        for key, entry in value.items():
            yield from _in_value(entry, arguments[1], (*loc, key), outer)
    elif isinstance(value, list) and origin in (tuple, list):
        members = [member for member in arguments if member is not Ellipsis]
        for place, entry in enumerate(value):
            for member in members:
                yield from _in_value(entry, member, (*loc, place), outer)
