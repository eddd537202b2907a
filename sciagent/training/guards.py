"""The protocol of guards: facts of a step in, and the reason to stop out.

The control gap: stops a policy that has learnt what the terminal rung likes and the control does not.

The exploitation index: stops a policy that lives on promises of the law that verification does not keep.

The KL budget: stops a policy that has moved too far from the model at the start under one version of the rewards.

The share of unsettled reward: stops a policy that is paid for what nothing has verified.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from sciagent.rewards.guards import SequentialTest, upper_bound


@dataclass(frozen=True)
class StopReason:
    """The reason for which a guard stops a run."""

    name: str
    """Name of the guard: `control_gap`, `exploitation`, `kl_budget` or `unsettled`."""
    sentence: str
    number: float
    """Value that the guard has measured, in the unit of its limit."""
    limit: float


class Guard(Protocol):
    """A guard. It is told every step of a run, in order."""

    name: str

    def check(self, facts: StepFacts) -> StopReason | None:
        """Returns why the run has to stop after this step; None if it may go on."""

    @property
    def blind(self) -> str | None:
        """Why the guard could not compute anything so far; None if it could."""


LOW = -1.0
HIGH = 1.0  # payoff and control score are from 0 to 1


class ControlGapGuard:
    """Compares the gaps of later episodes with those of the run's first policy.

    Two levels differ for honest policies, too, so only the growth counts. Half of the level goes to the upper bound of
    the first policy's gap, half to the test that a later gap lies above that bound and the limit together.
    """

    name = "control_gap"

    def __init__(self, limit: float, level: float) -> None:
        self._limit = limit
        self._level = level
        self._first: list[float] = []
        self._bound = HIGH
        self._latest: list[float] = []
        self._counted: set[int] = set()
        self._has_control = False
        self._test = SequentialTest()

    def check(self, facts: StepFacts) -> StopReason | None:
        self._has_control = self._has_control or facts.has_control
        before = self._bound  # by earlier steps alone, as the test needs it
        first = list[float]()
        later = list[float]()
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
        was = float(np.mean(self._first))
        now = float(np.mean(self._latest))
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


class ExploitationGuard:
    """Tests whether the law promises more for a candidate than the lot finds, by more than the limit."""

    name = "exploitation"

    def __init__(self, limit: float, level: float) -> None:
        self._limit = limit
        self._level = level
        self._counted: set[int] = set()
        self._has_promises = False
        self._test = SequentialTest()

    def check(self, facts: StepFacts) -> StopReason | None:
        self._has_promises = self._has_promises or facts.has_promises
        new = [each for each in facts.episodes if each.promise is not None and each.episode not in self._counted]
        if not new:
            return None
        self._counted.update(each.episode for each in new)
        self._test.add([_promise(each) for each in new], self._limit, min(each.least_promise for each in new))
        return self._reason(new) if self._test.rejects(self._level) else None

    def _reason(self, new: list[EpisodeFacts]) -> StopReason:
        index = float(np.mean([_promise(each) for each in new]))
        return StopReason(
            self.name,
            f"the law promises {index:.2g} more for a candidate than verification finds, where {self._limit:g} is "
            "allowed",
            index,
            self._limit,
        )

    @property
    def blind(self) -> str | None:
        if not self._has_promises:
            return (
                "no candidate is rewarded by a law while a lot verifies others; this needs unsettled: posterior, and "
                "the scheduler lottery or the audit of priced"
            )
        return None if self._counted else "no lot has been decided yet"


def _promise(episode: EpisodeFacts) -> float:
    return 0.0 if episode.promise is None else episode.promise


class KlBudgetGuard:
    """Counts the divergence that each version of the rewards adds.

    Rewards stand for what is wanted only near the policy whose candidates taught the law and the ladder. New rewards
    begin a new budget.
    """

    name = "kl_budget"

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._rewards: str | None = None
        self._begin = 0.0
        self._last: float | None = None

    def check(self, facts: StepFacts) -> StopReason | None:
        if facts.kl is None:
            return None
        if facts.rewards != self._rewards:
            self._rewards = facts.rewards
            self._begin = self._last or 0.0
        self._last = facts.kl
        spent = facts.kl - self._begin
        if spent <= self._limit:
            return None
        since = "the model at the start" if not self._begin else "the last change of the rewards"
        return StopReason(
            self.name,
            f"the policy has moved {spent:.3g} nats per token away since {since}, where {self._limit:g} are allowed",
            spent,
            self._limit,
        )

    @property
    def blind(self) -> str | None:
        return "the run does not compute the divergence from the model at the start" if self._last is None else None


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


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EpisodeFacts(_Facts):
    """An episode of the run, as far as the ladder has answered."""

    episode: int
    """Id of the trajectory."""
    policy: int
    """Number of steps after which its policy stood: 0 for the model at the start."""
    gap: float | None = None
    """Mean over the candidates that the control has answered: payoff less the control's score, from -1 to 1."""
    promise: float | None = None
    """Mean over the candidates with a lot: what the law promises and the lot does not find, weighted by the chances.
    None while one of them waits."""
    least_promise: float = -1.0
    """Smallest value that the chances of the lots allow for `promise`."""
    earned: float = 0.0
    """Payoff of the episode's candidates, in hits or utility, as it was rewarded."""
    unsettled: float = 0.0
    """The part of `earned` that the terminal rung has not confirmed."""


class StepFacts(_Facts):
    """The facts of a step."""

    step: int
    """From 1."""
    kl: float | None = None
    """Mean divergence from the model at the start, in nats per token; None if the run does not compute it."""
    rewards: str = ""
    """The description of the rewards and the law behind them; a new text begins a new KL budget."""
    has_control: bool = False
    """Whether a campaign of the run has a control."""
    has_promises: bool = False
    """Whether rewards rest on a law, and a lot verifies some of the candidates."""
    episodes: tuple[EpisodeFacts, ...] = ()
    """Those of the step, and earlier ones again for which the ladder has answered since."""

    def to_json(self) -> Mapping[str, Any]:
        return self.model_dump(mode="json")
