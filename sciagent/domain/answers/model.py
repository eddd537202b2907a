"""The base model of answers: frozen, without extra fields; each field is explained by the docstring below it."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from itertools import pairwise
from textwrap import dedent
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema


class AnswerModel(BaseModel):
    """An answer or a part of an answer; immutable, and compared by value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Returns the JSON schema with the docstrings of the fields. `use_attribute_docstrings` of pydantic would read
        the source of every model whenever a command starts."""
        schema = handler(core_schema)
        shown = handler.resolve_ref_schema(schema)["properties"]
        for name, text in _docstrings(cls).items():
            if own := shown.get(cls.model_fields[name].serialization_alias or name):
                own.setdefault("description", text)
        return schema


def _docstrings(model: type[AnswerModel]) -> dict[str, str]:
    """Returns the docstring below each field of a model and of those that it inherits from, by field."""
    texts: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, AnswerModel) and base is not AnswerModel:
            [definition] = ast.parse(dedent(inspect.getsource(base))).body
            for field, below in pairwise(getattr(definition, "body", ())):
                match field, below:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                        texts[name] = inspect.cleandoc(text)
    return texts


def plain(answer: Any) -> Any:
    """Converts answers and dataclasses, alone or in collections, to JSON values; times stay `datetime`."""
    if isinstance(answer, BaseModel):
        return plain(answer.model_dump(by_alias=True))
    if is_dataclass(answer):
        return {field.name: plain(getattr(answer, field.name)) for field in fields(answer)}
    if isinstance(answer, Mapping):
        return {name: plain(part) for name, part in answer.items()}
    return [plain(part) for part in answer] if isinstance(answer, (list, tuple)) else answer


def json_schema(answer: Any) -> Any:
    """Returns the JSON schema of the values that `plain` returns. answer: a model, or a type made of models."""
    return TypeAdapter(answer).json_schema(mode="serialization")
