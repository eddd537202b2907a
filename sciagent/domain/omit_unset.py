"""An unset key enters no hash and no answer: settings, campaign files and answers leave it out of their JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field
from pydantic_core import PydanticUndefined


def omitted_if_unset(
    default: Any = PydanticUndefined, *, default_factory: Callable[[], Any] | None = None, **more: Any
) -> Any:
    """Returns the field of a pydantic model that is left out of its JSON while it has its default value.

    default, default_factory: one of the two, with their meaning in `pydantic.Field`. more: further arguments of
    `pydantic.Field`.
    """
    if default_factory is not None:
        unset = default_factory()
        return Field(default_factory=default_factory, exclude_if=lambda value: bool(value == unset), **more)
    return Field(default, exclude_if=lambda value: bool(value == default), **more)
