"""The limits of the guards of a training run, as recipes and options state them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from sciagent.errors import UsageError, did_you_mean

OFF = "off"
Limit = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)] | None
Share = Annotated[float, Field(strict=True, ge=0, le=1)] | None


class GuardSettings(BaseModel):
    """The limits of the guards; `null` turns one off."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    control_gap: Limit = Field(
        default=0.1,
        description="Largest growth of the control gap since the run's first policy: payoff of a candidate that the "
        "control does not confirm, in hits or utility.",
    )
    exploitation: Limit = Field(
        default=0.1,
        description="Largest exploitation index: payoff of a candidate that the law promises and a lot does not find, "
        "in hits or utility.",
    )
    kl_budget: Limit = Field(
        default=1.0,
        description="Largest divergence from the model at the start that a version of the rewards may add, in nats per "
        "token.",
    )
    unsettled: Share = Field(
        default=0.5,
        description="Largest share of the reward that the terminal rung has not confirmed, over the last five steps.",
    )
    level: Annotated[float, Field(strict=True, gt=0, lt=0.5)] = Field(
        default=0.05,
        description="Probability with which control_gap, and likewise exploitation, stops a run without cause, in all "
        "its steps together.",
    )


NAMES = tuple(name for name in GuardSettings.model_fields if name != "level")


def guard_settings(stated: Sequence[str], base: GuardSettings | None = None) -> GuardSettings:
    """Returns the limits of options such as `control_gap=0.2`, `unsettled=off` or `off`, which turns all off.

    base: what they change; the defaults if left out. Raises UsageError for anything else.
    """
    limits: dict[str, float | None] = dict(base or GuardSettings())
    for text in stated:
        name, separator, value = text.partition("=")
        if text == OFF:
            limits |= dict.fromkeys(NAMES)
        elif name not in limits or not separator:
            known = ", ".join(limits)
            raise UsageError(f'"{text}" is no guard{did_you_mean(name, limits)}; write NAME=LIMIT or off: {known}')
        else:
            limits[name] = None if value == OFF else _number(text, value)
    try:
        return GuardSettings.model_validate(limits)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UsageError(f"{wrong['loc'][0]}={wrong['input']}: {wrong['msg']}") from None


def _number(text: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise UsageError(f'"{text}": the limit of a guard is a number, or {OFF}') from None
