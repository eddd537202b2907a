"""The base model of answers: frozen, without extra fields; each field is explained by the docstring below it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter


class AnswerModel(BaseModel):
    """An answer or a part of an answer; immutable, and compared by value."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


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
