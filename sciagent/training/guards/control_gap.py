"""The control gap: stops a policy that has learnt what the terminal rung likes and the control does not."""

from __future__ import annotations

import numpy as np

from sciagent.rewards.guards import SequentialTest, upper_bound
from sciagent.training.guards.facts import StepFacts
from sciagent.training.guards.guard import StopReason

LOW, HIGH = -1.0, 1.0  # payoff and control score are from 0 to 1


class ControlGapGuard:
    """Compares the gaps of later episodes with those of the run's first policy.

    Two levels differ for honest policies, too, so only the growth counts. Half of the level goes to the upper bound of
    the first policy's gap, half to the test that a later gap lies above that bound and the limit together.
    """

    name = "control_gap"

    def __init__(self, limit: float, level: float) -> None:
        self._limit, self._level = limit, level
        self._first: list[float] = []
        self._bound = HIGH
        self._latest: list[float] = []
        self._counted: set[int] = set()
        self._has_control = False
        self._test = SequentialTest()

    def check(self, facts: StepFacts) -> StopReason | None:
        self._has_control = self._has_control or facts.has_control
        before = self._bound  # by earlier steps alone, as the test needs it
        first, later = list[float](), list[float]()
        for episode in facts.episodes:
            if episode.gap is None or episode.episode in self._counted:
                continue
            self._counted.add(episode.episode)
            (later if episode.policy else first).append(float(np.clip(episode.gap, LOW, HIGH)))
        if first:
            self._first += first
            self._bound = min(upper_bound(self._first, self._level / 2, LOW, HIGH) + self._limit, HIGH)
        if not later:
            return None
        self._latest = later
        if before >= HIGH:  # nothing can lie above it
            return None
        self._test.add(later, before, LOW)
        return self._reason() if self._test.rejects(self._level / 2) else None

    def _reason(self) -> StopReason:
        was, now = float(np.mean(self._first)), float(np.mean(self._latest))
        return StopReason(
            self.name,
            f"of what a candidate earns, the control does not confirm {now:.2g}, and did not confirm {was:.2g} for the "
            f"first policy: {now - was:.2g} more, where {self._limit:g} is allowed",
            now - was,
            self._limit,
        )

    @property
    def blind(self) -> str | None:
        if not self._has_control:
            return "no campaign has a control; add a rung with control: true to the ladder"
        if not self._first:
            return "the control has not answered for a candidate of the first policy"
        return None
