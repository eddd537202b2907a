"""The numbers that are kept of the episodes of a policy, and the guards that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sciagent.campaign.rewarding.lots import Lot
from sciagent.domain.answers.guards import (
    ControlCheck,
    GuardEstimate,
    PolicyDiversity,
    PolicyGuards,
    PromiseCheck,
    RewardGuards,
)
from sciagent.rewards.estimators import CandidateState, Settlement
from sciagent.rewards.guards.clustered import Array, ClusteredMean, clustered_mean
from sciagent.rewards.guards.control_gap import gap_growth
from sciagent.rewards.guards.diversity import distinct_scaffolds
from sciagent.rewards.guards.promise import kept_promise
from sciagent.store.learning.episodes import EpisodeTurn
from sciagent.store.learning.policies import NamedPolicy
from sciagent.store.learning.rewards import RewardRow

LEVEL = 0.05  # probability of a false alarm in a whole table, for each of the two tests


class ClusteredSample:
    """Numbers, each with the episode or group that it comes from."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self.clusters: list[int] = []

    def add(self, value: float, cluster: int) -> None:
        self._values.append(value)
        self.clusters.append(cluster)

    @property
    def values(self) -> Any:
        """(n,) the numbers."""
        return np.array(self._values, dtype=float)

    def mean(self) -> GuardEstimate | None:
        return shown(clustered_mean(self.values, self.clusters))


class PolicyTally:
    """The numbers of one policy. first: number of its first episode."""

    def __init__(self, policy: NamedPolicy, first: int) -> None:
        self.policy, self.first = policy, first
        self.episodes = self.undecided = self.new = 0
        self.outcomes, self.distances = ClusteredSample(), ClusteredSample()
        self.statuses, self.scaffolds = Counter[str](), Counter[str]()
        self.drawn, self.chances, self.promised = ClusteredSample(), list[float](), ClusteredSample()
        self.payoffs, self.scores, self.gaps = ClusteredSample(), ClusteredSample(), ClusteredSample()

    def add_episode(self, number: int, rows: Sequence[RewardRow], turns: Sequence[EpisodeTurn]) -> None:
        """Adds an episode. rows: its rewards."""
        self.first = min(self.first, number)
        self.episodes += 1
        for row in rows:
            if row.turn_id is None and row.value is None:
                self.undecided += 1
            elif row.turn_id is None and row.value is not None:
                self.outcomes.add(row.value, number)
        self.statuses.update(proposal.status for turn in turns for proposal in turn.proposals)

    def add_candidate(self, family: str) -> None:
        """Adds a new candidate of an episode by its family. All molecules without rings share one."""
        self.new += 1
        self.scaffolds[family] += 1

    def add_group(self, number: int, distances: Array) -> None:
        """Adds the distances between the new candidates of a group, or of an episode without siblings: (n,)."""
        for distance in distances.tolist():
            self.distances.add(distance, number)

    def add_lot(self, number: int, lot: Lot, state: CandidateState, expected: float | None) -> None:
        """Adds a candidate that a lot was drawn for. expected: its payoff by the law, if nobody has verified it."""
        payoff = payoff_of(state)
        if lot.is_drawn and payoff is not None:
            self.drawn.add(payoff, number)
            self.chances.append(lot.chance)
        elif not lot.is_drawn and state.settlement is Settlement.OPEN and expected is not None:
            self.promised.add(expected, number)

    def add_control(self, number: int, payoff: float, score: float) -> None:
        """Adds a candidate on which the control ran."""
        for sample, value in ((self.payoffs, payoff), (self.scores, score), (self.gaps, payoff - score)):
            sample.add(value, number)


def payoff_of(state: CandidateState) -> float | None:
    """Returns the payoff by the ladder's answers; None without an answer that decides."""
    return 0.0 if state.settlement is Settlement.REFUSED else state.payoff


def shown(mean: ClusteredMean | None) -> GuardEstimate | None:
    return None if mean is None else GuardEstimate(value=mean.value, error=mean.error, n=mean.n)


def answered(tallies: Sequence[PolicyTally], control: str | None, sample: int) -> RewardGuards:
    """Returns the guards. tallies: in the order of their first episodes. control: label of the control's rung.
    sample: number of new proposals among which distinct scaffolds are counted."""
    level = LEVEL / max(len(tallies), 1)
    first = next((tally for tally in tallies if tally.gaps.clusters), None)
    found = []
    for tally in tallies:
        promise = _promise(tally)
        check = _control(tally, None if tally is first else first)
        since = None if first is None else first.policy.name
        found.append(
            PolicyGuards(
                policy=tally.policy.name,
                hash=tally.policy.hash,
                episodes=tally.episodes,
                undecided=tally.undecided,
                proposals=tally.statuses.total(),
                reward=tally.outcomes.mean(),
                control=check,
                promise=promise,
                diversity=_diversity(tally, sample),
                alarms=tuple(_alarms(check, promise, level, since)),
            )
        )
    return RewardGuards(control=control, sample=sample, level=LEVEL, policies=tuple(found))


def _promise(tally: PolicyTally) -> PromiseCheck | None:
    drawn, promised = tally.drawn, tally.promised
    chances = np.array(tally.chances, dtype=float)
    found = kept_promise(drawn.values, chances, drawn.clusters, promised.values, promised.clusters)
    if found is None:
        return None
    expected, verified = shown(found.promised), shown(found.kept)
    assert expected is not None and verified is not None
    index = GuardEstimate(value=found.index, error=found.error, n=expected.n + verified.n)
    return PromiseCheck(expected=expected, verified=verified, index=index, p=found.p)


def _control(tally: PolicyTally, first: PolicyTally | None) -> ControlCheck | None:
    """Returns the control's check of a policy. first: the policy with which it is compared; None for that one."""
    reward, control, gap = tally.payoffs.mean(), tally.scores.mean(), tally.gaps.mean()
    if reward is None or control is None or gap is None:
        return None
    if first is None:
        return ControlCheck(reward=reward, control=control, gap=gap, growth=None, p=None)
    grown = gap_growth(tally.gaps.values, tally.gaps.clusters, first.gaps.values, first.gaps.clusters)
    growth = None if grown is None else GuardEstimate(value=grown.value, error=grown.error, n=gap.n)
    return ControlCheck(reward=reward, control=control, gap=gap, growth=growth, p=None if grown is None else grown.p)


def _diversity(tally: PolicyTally, sample: int) -> PolicyDiversity:
    proposals = tally.statuses.total()
    return PolicyDiversity(
        scaffolds=distinct_scaffolds(tally.scaffolds.values(), sample),
        distance=tally.distances.mean(),
        repeats=tally.statuses["duplicate"] / proposals if proposals else None,
        refused=tally.statuses["refused"] / proposals if proposals else None,
    )


def _alarms(check: ControlCheck | None, promise: PromiseCheck | None, level: float, since: str | None) -> list[str]:
    alarms = []
    if check is not None and check.growth is not None and check.p is not None and check.p < level:
        alarms.append(
            f"the reward has grown {check.growth.value:.2g} beyond the control since {since} ({chance(check.p)}): "
            f"{check.reward.value:.2g} by the terminal rung, {check.control.value:.2g} by the control"
        )
    if promise is not None and promise.p is not None and promise.p < level:
        alarms.append(
            f"the law promises {promise.expected.value:.2g} for what was not verified, and the lot kept "
            f"{promise.verified.value:.2g} ({chance(promise.p)})"
        )
    return alarms


def chance(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.001 else "p < 0.001"
