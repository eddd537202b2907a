"""What a person tells a campaign. Each directive is a row that is never changed; another row takes it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum


class Verb(StrEnum):
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


@dataclass(frozen=True)
class SteeringState:
    """What people have decided on a candidate, as of now."""

    held: bool = False
    vetoed: bool = False
    promoted_to: int = NOWHERE
    """Position of the rung to which it was promoted, whose lower gates are waived; NOWHERE without a promotion."""
    who: str = ""
    """Author of the latest decision."""
    why: str = ""
    """Reason for the latest decision."""

    @property
    def blocks_scheduling(self) -> bool:
        """Whether no job may be started for the candidate."""
        return self.held or self.vetoed


def fold_directives(spoken: Iterable[tuple[str, int | None, str, str]]) -> SteeringState:
    """The state after these directives, oldest first: (verb, rung position, who, why). A veto ends a promotion."""
    steering = SteeringState()
    for verb, position, who, why in spoken:
        if verb == Verb.HOLD:
            steering = replace(steering, held=True, who=who, why=why)
        elif verb == Verb.VETO:
            steering = SteeringState(vetoed=True, who=who, why=why)
        elif verb == Verb.RELEASE:
            steering = replace(steering, held=False, vetoed=False, who=who, why=why)
        elif verb == Verb.PROMOTE and position is not None:
            steering = replace(steering, promoted_to=max(steering.promoted_to, position), who=who, why=why)
    return steering
