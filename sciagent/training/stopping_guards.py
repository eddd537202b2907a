"""The guards of a run, which stop a policy that earns rewards for the wrong reasons, and the facts that they check.

- `ControlGapGuard` stops a policy whose candidates please the terminal rung and not the control.
- `ExploitationGuard` stops a policy whose rewards rest on promises of the law that verification does not keep.
- `KlBudgetGuard` stops a policy that has moved too far from the model at the start under one version of the rewards.
- `UnsettledGuard` stops a policy that is rewarded mostly for candidates that the terminal rung has not confirmed.

The control is a rung that only checks the rewards. The law is the scheduler's model of what rungs will find; it also
values candidates without a verdict. A lot decides at random whether such a candidate is verified. Each guard takes the
`StepFacts` of every step, and returns a `StopReason` if the run has to stop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict

from sciagent.rewards.guard_statistics import SequentialTest, upper_bound


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
    """A guard. `check` is called with every step of a run, in order."""

    name: str

    def check(self, facts: StepFacts) -> StopReason | None:
        """Returns why the run has to stop after this step; None if it may go on."""

    @property
    def idle_reason(self) -> str | None:
        """Why the guard could not compute anything so far; None if it could."""


MIN_GAP = -1.0
MAX_GAP = 1.0  # payoff and control score are from 0 to 1, so their difference is from -1 to 1


class ControlGapGuard:
    """Compares the gaps of later episodes with those of the run's first policy.

    Only the growth of the gap counts, since terminal rung and control differ for an honest policy, too. Half of the
    level goes to the upper bound of the first policy's gap, and half to the test that later gaps lie above the sum of
    that bound and the limit.
    """

    name = "control_gap"

    def __init__(self, limit: float, level: float) -> None:
        """level: largest probability with which the guard stops a run without cause."""
        self._limit = limit
        self._level = level
        self._first_gaps: list[float] = []
        self._bound = MAX_GAP
        """Upper bound of the first policy's gap, with the limit added."""
        self._latest_gaps: list[float] = []
        self._counted: set[int] = set()
        """Ids of the episodes whose gaps were counted."""
        self._has_control = False
        self._test = SequentialTest()

    def check(self, facts: StepFacts) -> StopReason | None:
        self._has_control = self._has_control or facts.has_control
        bound_before = self._bound  # the test needs a bound by earlier steps alone
        first_gaps = list[float]()
        later_gaps = list[float]()
        for episode in facts.episodes:
            if episode.gap is None or episode.episode in self._counted:
                continue
            self._counted.add(episode.episode)
            gap = float(np.clip(episode.gap, MIN_GAP, MAX_GAP))
            if episode.policy == 0:  # the first policy
                first_gaps.append(gap)
            else:
                later_gaps.append(gap)
        if first_gaps:
            self._first_gaps += first_gaps
            first_bound = upper_bound(self._first_gaps, self._level / 2, low=MIN_GAP, high=MAX_GAP)
            self._bound = min(first_bound + self._limit, MAX_GAP)
        if not later_gaps:
            return None
        self._latest_gaps = later_gaps
        if bound_before >= MAX_GAP:  # no gap can lie above it
            return None
        self._test.add(later_gaps, limit=bound_before, low=MIN_GAP)
        return self._reason() if self._test.rejects(self._level / 2) else None

    def _reason(self) -> StopReason:
        first = float(np.mean(self._first_gaps))
        latest = float(np.mean(self._latest_gaps))
        sentence = (
            f"of what a candidate earns, the control does not confirm {latest:.2g}, and did not confirm {first:.2g} "
            f"for the first policy: {latest - first:.2g} more, where {self._limit:g} is allowed"
        )
        return StopReason(self.name, sentence, number=latest - first, limit=self._limit)

    @property
    def idle_reason(self) -> str | None:
        if not self._has_control:
            return "no campaign has a control; add a rung with control: true to the ladder"
        if not self._first_gaps:
            return "the control has not answered for a candidate of the first policy"
        return None


class ExploitationGuard:
    """Tests whether the law promises more for a candidate than random verification finds, by more than the limit."""

    name = "exploitation"

    def __init__(self, limit: float, level: float) -> None:
        """level: largest probability with which the guard stops a run without cause."""
        self._limit = limit
        self._level = level
        self._counted: set[int] = set()
        """Ids of the episodes whose promises were tested."""
        self._has_promises = False
        self._test = SequentialTest()

    def check(self, facts: StepFacts) -> StopReason | None:
        self._has_promises = self._has_promises or facts.has_promises
        new = [each for each in facts.episodes if each.promise is not None and each.episode not in self._counted]
        if not new:
            return None
        self._counted.update(each.episode for each in new)
        smallest_possible = min(each.least_promise for each in new)
        self._test.add([_promise(each) for each in new], limit=self._limit, low=smallest_possible)
        return self._reason(new) if self._test.rejects(self._level) else None

    def _reason(self, new: list[EpisodeFacts]) -> StopReason:
        index = float(np.mean([_promise(each) for each in new]))
        sentence = (
            f"the law promises {index:.2g} more for a candidate than verification finds, where {self._limit:g} is "
            "allowed"
        )
        return StopReason(self.name, sentence, number=index, limit=self._limit)

    @property
    def idle_reason(self) -> str | None:
        if not self._has_promises:
            return (
                "no candidate is rewarded by a law while a lot verifies others; this needs unsettled: posterior, and "
                "the scheduler lottery or the audit of priced"
            )
        return None if self._counted else "no lot has been decided yet"


def _promise(episode: EpisodeFacts) -> float:
    """Returns the promise of an episode that has one."""
    return 0.0 if episode.promise is None else episode.promise


class KlBudgetGuard:
    """Measures the divergence that each version of the rewards adds.

    Rewards can be trusted only near the policy whose candidates the law and the ladder have learnt from. New rewards
    begin a new budget.
    """

    name = "kl_budget"

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._rewards: str | None = None
        self._begin = 0.0
        """Divergence at the last change of the rewards."""
        self._last: float | None = None
        """Divergence after the last step; None if the run does not compute it."""

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
        sentence = (
            f"the policy has moved {spent:.3g} nats per token away since {since}, where {self._limit:g} are allowed"
        )
        return StopReason(self.name, sentence, number=spent, limit=self._limit)

    @property
    def idle_reason(self) -> str | None:
        return "the run does not compute the divergence from the model at the start" if self._last is None else None


STEPS = 5  # latest steps over which the share is taken


class UnsettledGuard:
    """Adds up the reward of the last steps, and the part that the terminal rung has not confirmed."""

    name = "unsettled"

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._earned: deque[float] = deque(maxlen=STEPS)
        self._unsettled: deque[float] = deque(maxlen=STEPS)
        self._newest = 0  # the largest id of an episode so far; episodes that come again belong to earlier steps

    def check(self, facts: StepFacts) -> StopReason | None:
        new_episodes = [each for each in facts.episodes if each.episode > self._newest]
        self._newest = max([self._newest, *(each.episode for each in new_episodes)])
        self._earned.append(sum(each.earned for each in new_episodes))
        self._unsettled.append(sum(each.unsettled for each in new_episodes))
        earned = sum(self._earned)
        unsettled = sum(self._unsettled)
        # a share of fewer steps would depend on a few episodes
        if len(self._earned) < STEPS or unsettled <= self._limit * earned:
            return None
        share = unsettled / earned
        sentence = (
            f"{share:.0%} of the reward of the last {STEPS} steps is for candidates that the terminal rung has not "
            f"answered, where {self._limit:.0%} is allowed"
        )
        return StopReason(self.name, sentence, number=share, limit=self._limit)

    idle_reason: str | None = None
    """None: the share can always be computed."""


class _Facts(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EpisodeFacts(_Facts):
    """The facts of an episode, as far as the ladder has answered."""

    episode: int
    """Id of the trajectory."""
    policy: int
    """Number of steps that its policy had been trained for: 0 for the model at the start."""
    gap: float | None = None
    """Mean over the candidates that the control has answered: payoff less the control's score, from -1 to 1."""
    promise: float | None = None
    """Mean over the candidates with a lot: what the law promises and the lot does not find, weighted by the chances.
    None while a lot is undecided."""
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
    """Whether rewards rest on a law, and some of the candidates are verified at random."""
    episodes: tuple[EpisodeFacts, ...] = ()
    """The episodes of the step, and those of earlier steps again, since the ladder may have answered for them."""

    def to_json(self) -> Mapping[str, Any]:
        return self.model_dump(mode="json")
