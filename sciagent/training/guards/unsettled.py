"""The share of unsettled reward: stops a policy that is paid for what nothing has verified."""

from __future__ import annotations

from collections import deque

from sciagent.training.guards.facts import StepFacts
from sciagent.training.guards.guard import StopReason

STEPS = 5  # over which the share is taken


class UnsettledGuard:
    """Adds up the reward of the last steps, and the part that the terminal rung has not confirmed."""

    name = "unsettled"

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._steps: deque[tuple[float, float]] = deque(maxlen=STEPS)
        self._newest = 0  # the largest id of an episode so far; what comes again belongs to an earlier step

    def check(self, facts: StepFacts) -> StopReason | None:
        own = [each for each in facts.episodes if each.episode > self._newest]
        self._newest = max([self._newest, *(each.episode for each in own)])
        self._steps.append((sum(each.earned for each in own), sum(each.unsettled for each in own)))
        earned, unsettled = map(sum, zip(*self._steps, strict=True))
        if len(self._steps) < STEPS or unsettled <= self._limit * earned:
            return None
        share = unsettled / earned
        return StopReason(
            self.name,
            f"{share:.0%} of the reward of the last {STEPS} steps is for candidates that the terminal rung has not "
            f"answered, where {self._limit:.0%} is allowed",
            share,
            self._limit,
        )

    blind: str | None = None
    """It can always be computed."""
