"""Directives: decisions of people on a campaign. Each directive is a row that never changes; a later row revokes it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Verb(StrEnum):
    """The action that a directive asks of a campaign."""

    ADD = "add"
    HOLD = "hold"
    RELEASE = "release"
    VETO = "veto"
    PROMOTE = "promote"
    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"
    AMEND = "amend"


NOWHERE = -1
"""Stands for the rung position of a candidate that was not promoted; below all positions."""


@dataclass(frozen=True)
class SteeringState:
    """The current state of people's decisions on a candidate."""

    held: bool = False
    vetoed: bool = False
    promoted_to: int = NOWHERE
    """Rung position that the candidate was promoted to, waiving the gates below; NOWHERE without a promotion."""
    who: str = ""
    """Author of the latest decision."""
    why: str = ""
    """Reason for the latest decision."""

    @property
    def blocks_scheduling(self) -> bool:
        """Whether no job may be started for the candidate."""
        return self.held or self.vetoed


def fold_directives(directives: Iterable[tuple[str, int | None, str, str]]) -> SteeringState:
    """Returns the state after all directives. A veto ends a promotion.

    directives: (verb, rung position, author, reason) of each directive, oldest first."""
    steering = SteeringState()
    for verb, position, who, why in directives:
        if verb == Verb.HOLD:
            steering = replace(steering, held=True, who=who, why=why)
        elif verb == Verb.VETO:
            steering = SteeringState(vetoed=True, who=who, why=why)
        elif verb == Verb.RELEASE:
            steering = replace(steering, held=False, vetoed=False, who=who, why=why)
        elif verb == Verb.PROMOTE and position is not None:
            steering = replace(steering, promoted_to=max(steering.promoted_to, position), who=who, why=why)
    return steering
