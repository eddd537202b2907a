"""Mistakes that validators of the campaign spec raise, with place, message and hint."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

FAULT = "spec"


class Faults:
    """Collects mistakes at places relative to the object under validation, then raises them together."""

    def __init__(self) -> None:
        self.details: list[InitErrorDetails] = []

    def add(self, loc: Sequence[int | str], message: str, hint: str = "", on_key: bool = False) -> None:
        """Adds a mistake. on_key: whether the mistake is the key at `loc` rather than its value."""
        context = {"message": message, "hint": hint, "on_key": on_key}
        error = PydanticCustomError(FAULT, "{message}", context)
        self.details.append(InitErrorDetails(type=error, loc=tuple(loc), input=None))

    def take(self, loc: Sequence[int | str], error: PydanticCustomError) -> None:
        """Adds a mistake made by `fault`, at a place."""
        context = error.context or {}
        self.add(loc, str(context["message"]), str(context["hint"]))

    def raise_any(self, title: str = "campaign") -> None:
        """Raises ValidationError if there is a mistake; pydantic prefixes each place with its own path."""
        if self.details:
            raise ValidationError.from_exception_data(title, self.details)


def fault(message: str, hint: str = "") -> PydanticCustomError:
    """Returns the mistake of one field, for its validator to raise."""
    return PydanticCustomError(FAULT, "{message}", {"message": message, "hint": hint})
