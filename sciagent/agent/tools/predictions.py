"""Predictions that a model makes of the properties of a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, Field

from sciagent.agent.tools.reading import CallError
from sciagent.agent.tools.registry import STRICT
from sciagent.domain.text import short

Limit = 1e9  # largest number that a model may write; no property comes near it in its own unit


class Prediction(BaseModel):
    model_config = STRICT

    property: Annotated[
        str, Field(min_length=1, max_length=60, description="as the goal names it, such as homo_lumo_gap")
    ]
    value: Annotated[float, Field(ge=-Limit, le=Limit, description="in the unit of the goal")]
    error: Annotated[float, Field(ge=0, le=Limit, description="one standard deviation, in the same unit")]


Predictions = Annotated[
    list[Prediction], Field(max_length=8, description="what you expect to be measured; each property once")
]


def checked_predictions(predictions: Sequence[Prediction]) -> dict[str, dict[str, float]]:
    """Returns value and error by property. Raises CallError for a property that is named twice or oddly."""
    names = [p.property for p in predictions]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise CallError(f"predictions: {short(twice)} is predicted twice; predict each property once")
    if odd := next((name for name in names if not name.isascii() or not name.isidentifier()), None):
        raise CallError(f"predictions: {short(odd)!r} is no property; name one as the goal does: homo_lumo_gap")
    return {p.property: {"value": p.value, "error": p.error} for p in predictions}
