"""The guards of a version of rewards: statistics that show whether a policy exploits its rewards.

They are made for each policy from the ledger up to the version's watermark, a position in the ledger. A lot is a number
in (0, 1) by which a candidate is drawn. The control is a rung that runs by lot and is never rewarded; the law is the
model that predicts the answers of rungs.

`EpisodeReader` reads the episodes some groups at a time, with their new candidates, verdicts, lots, and scores by the
control. `PolicyTally` keeps only numbers of them. `guards` turns the tallies into the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built, control_score, is_drawn
from sciagent.chemistry.fingerprints_and_families import Features
from sciagent.domain.answers.reward_guards import (
    ControlCheck,
    GuardEstimate,
    PolicyDiversity,
    PolicyGuards,
    PromiseCheck,
    RewardGuards,
    ShownGuards,
)
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.rewards.candidate_states_lots_and_episode_starts import Lot, Lots, states
from sciagent.rewards.guard_statistics import (
    Array,
    ClusteredMean,
    clustered_mean,
    distinct_scaffolds,
    gap_growth,
    kept_promise,
    nearest_distances,
)
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.rewards.reward_term_contract import CandidateState, Settlement
from sciagent.rewards.turn_rewards import price_of
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import policies_and_roles, reward_inputs
from sciagent.store.learning import versioned_rewards as rewards
from sciagent.store.learning.policies_and_roles import NamedPolicy
from sciagent.store.learning.reward_inputs import EpisodeRow, EpisodeTurn
from sciagent.store.learning.versioned_rewards import RewardRow
from sciagent.store.results import candidates, evidence, pooled_replicates

LEVEL = 0.05  # probability of a false alarm in a whole table, for each of the two tests
LEAST_P = 0.001  # smallest p that is shown as a number


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
        """Returns the mean of the numbers with its error; None without numbers."""
        return estimate_of(clustered_mean(self.values, self.clusters))


class PolicyTally:
    """The numbers of one policy.

    Candidates of one episode or group resemble each other. So the methods take the number of the episode, or of the
    first episode of the group, with each value: values with one number are a cluster.
    """

    def __init__(self, policy: NamedPolicy, first: int) -> None:
        """first: number of the policy's first episode."""
        self.policy = policy
        self.first = first
        self.episodes = 0
        """Number of episodes."""
        self.undecided = 0
        """Number of episodes whose reward is undecided."""
        self.new = 0
        """Number of new candidates."""
        self.outcomes = ClusteredSample()
        """Rewards of whole episodes."""
        self.distances = ClusteredSample()
        """Distances between the new candidates of a group."""
        self.statuses = Counter[str]()
        """Number of proposals by status."""
        self.scaffolds = Counter[str]()
        """Number of new candidates by family."""
        self.drawn = ClusteredSample()
        """Payoffs of the candidates that a lot sent to the terminal rung."""
        self.chances = list[float]()
        """The chance with which each candidate of `drawn` was drawn."""
        self.promised = ClusteredSample()
        """Payoffs that the law expects of the candidates that were not drawn."""
        self.payoffs = ClusteredSample()
        """Payoffs of the candidates on which the control ran."""
        self.scores = ClusteredSample()
        """Scores by the control of the candidates of `payoffs`."""
        self.gaps = ClusteredSample()
        """Payoff less score of the candidates of `payoffs`."""

    def add_episode(self, number: int, rows: Sequence[RewardRow], turns: Sequence[EpisodeTurn]) -> None:
        """Adds an episode. rows: rewards of its turns, and of the episode itself, which have no `turn_id`."""
        self.first = min(self.first, number)
        self.episodes += 1
        for row in rows:
            if row.turn_id is not None:
                continue
            if row.value is None:
                self.undecided += 1
            else:
                self.outcomes.add(row.value, number)
        for turn in turns:
            self.statuses.update(each.status for each in turn.proposals if each.status != FILTERED)

    def add_candidate(self, family: str) -> None:
        """Adds a new candidate of an episode by its family. All molecules without rings share one family."""
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
        self.payoffs.add(payoff, number)
        self.scores.add(score, number)
        self.gaps.add(payoff - score, number)


def payoff_of(state: CandidateState) -> float | None:
    """Returns the payoff by the ladder's answers; None without an answer that decides."""
    return 0.0 if state.settlement is Settlement.REFUSED else state.payoff


def estimate_of(mean: ClusteredMean | None) -> GuardEstimate | None:
    """Returns a mean as the answer shows it."""
    return None if mean is None else GuardEstimate(value=mean.value, error=mean.error, n=mean.n)


def guards_of_tallies(tallies: Sequence[PolicyTally], control: str | None, sample: int) -> RewardGuards:
    """Returns the guards. tallies: in the order of their first episodes. control: label of the control's rung.
    sample: number of new proposals among which distinct scaffolds are counted."""
    level = LEVEL / max(len(tallies), 1)  # of each policy, so that the whole table has `LEVEL`
    with_control = [tally for tally in tallies if tally.gaps.clusters]  # the control ran on their candidates
    first = with_control[0] if with_control else None  # the policy with which later ones are compared
    first_name = None if first is None else first.policy.name
    guards_of_policies = []
    for tally in tallies:
        promise = _promise(tally)
        compared_with = None if tally is first else first
        check = _control(tally, compared_with)
        guards_of_policies.append(
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
                alarms=tuple(_alarms(check, promise, level, since=first_name)),
            )
        )
    return RewardGuards(control=control, sample=sample, level=LEVEL, policies=tuple(guards_of_policies))


def _promise(tally: PolicyTally) -> PromiseCheck | None:
    """Returns the check of the law's promises for a policy; None if it has no candidates to compare."""
    drawn = tally.drawn
    promised = tally.promised
    chances = np.array(tally.chances, dtype=float)
    comparison = kept_promise(
        payoffs=drawn.values,
        chances=chances,
        drawn_in=drawn.clusters,
        expected=promised.values,
        others_in=promised.clusters,
    )
    if comparison is None:
        return None
    expected = estimate_of(comparison.promised)
    verified = estimate_of(comparison.kept)
    assert expected is not None and verified is not None
    index = GuardEstimate(value=comparison.index, error=comparison.error, n=expected.n + verified.n)
    return PromiseCheck(expected=expected, verified=verified, index=index, p=comparison.p)


def _control(tally: PolicyTally, first: PolicyTally | None) -> ControlCheck | None:
    """Returns the control's check of a policy.

    first: the policy with which it is compared; None for the first policy itself.
    """
    reward = tally.payoffs.mean()
    control = tally.scores.mean()
    gap = tally.gaps.mean()
    if reward is None or control is None or gap is None:
        return None
    if first is None:
        return ControlCheck(reward=reward, control=control, gap=gap, growth=None, p=None)
    grown = gap_growth(
        gaps=tally.gaps.values,
        episodes=tally.gaps.clusters,
        first_gaps=first.gaps.values,
        first_episodes=first.gaps.clusters,
    )
    if grown is None:
        return ControlCheck(reward=reward, control=control, gap=gap, growth=None, p=None)
    growth = GuardEstimate(value=grown.value, error=grown.error, n=gap.n)
    return ControlCheck(reward=reward, control=control, gap=gap, growth=growth, p=grown.p)


def _diversity(tally: PolicyTally, sample: int) -> PolicyDiversity:
    """Returns how much the proposals of a policy differ. sample: as in `guards_of_tallies`."""
    proposals = tally.statuses.total()
    return PolicyDiversity(
        scaffolds=distinct_scaffolds(tally.scaffolds.values(), sample),
        distance=tally.distances.mean(),
        repeats=tally.statuses["duplicate"] / proposals if proposals else None,
        refused=tally.statuses["refused"] / proposals if proposals else None,
    )


def _alarms(check: ControlCheck | None, promise: PromiseCheck | None, level: float, since: str | None) -> list[str]:
    """Returns the alarms of a policy. level: p below which a check raises one. since: name of the first policy."""
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
    """Returns the probability p of a test as a text."""
    return f"p = {p:.2g}" if p >= LEAST_P else f"p < {LEAST_P:g}"


class CheckedCandidate(NamedTuple):
    """A new candidate of an episode."""

    candidate: Candidate
    worth: float | None
    """Reward that the candidate brings by itself, before the discount for alike ones; None if undecided."""
    settled: bool
    """Whether the terminal rung has answered, or nothing more can be bought."""
    state: CandidateState | None
    """Only read if there is a lot or a control."""
    lot: Lot | None
    """None for a candidate for which no lot is drawn."""
    expected: float | None
    """Payoff that the law expects of an unverified candidate; None without a law."""
    score: float | None
    """Score by the control; None if the control has not answered."""


class CheckedEpisode(NamedTuple):
    """An episode with its new candidates."""

    id: int
    """Id of the trajectory."""
    turns: Sequence[EpisodeTurn]
    candidates: Sequence[CheckedCandidate]


class EpisodeReader:
    """Reads the episodes of a version of rewards."""

    def __init__(
        self, built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
    ) -> None:
        """rows: the rewards of the episodes. spec, as_of: description and watermark of their version."""
        self._built = built
        self._connection = connection
        self._spec = spec
        self._as_of = as_of
        self._lots = Lots(built, connection, as_of)
        self.rewards: dict[int, list[RewardRow]] = {}
        """The rewards, by id of the episode."""
        for row in rows:
            self.rewards.setdefault(row.trajectory_id, []).append(row)

    def read(self, ids: Sequence[int]) -> dict[int, CheckedEpisode]:
        """Returns the episodes by id. ids: ids of episodes that have rewards."""
        turns = reward_inputs.turns_of(self._connection, ids, self._as_of)
        new_ids = set[int]()
        for turn in chain.from_iterable(turns.values()):
            for proposal in turn.proposals:
                if proposal.status == "new" and proposal.candidate_id is not None:
                    new_ids.add(proposal.candidate_id)
        loaded = candidates.load(self._connection, sorted(new_ids))
        scores = self._scores(loaded)
        # a state is needed where a lot or the control is compared with a payoff
        ids_with_state = list(loaded if self._lots.any else scores)
        states_by_id: dict[int, CandidateState] = {}
        if ids_with_state:
            states_by_id = states(self._built, self._connection, ids_with_state, self._as_of)
        checked_episodes = {}
        for id_ in ids:
            checked = self._checked(id_, turns[id_], loaded, states_by_id, scores)
            checked_episodes[id_] = CheckedEpisode(id_, turns[id_], checked)
        return checked_episodes

    def _checked(
        self,
        episode_id: int,
        turns: Sequence[EpisodeTurn],
        loaded: Mapping[int, Candidate],
        states_by_id: Mapping[int, CandidateState],
        scores: Mapping[int, float],
    ) -> list[CheckedCandidate]:
        """Returns the new candidates of an episode that have rewards. loaded, scores: by candidate id."""
        rewarded = {}
        for row in self.rewards[episode_id]:
            for stored in row.candidates:
                rewarded[stored["key"]] = stored
        proposed_ids = set[int | None]()
        for turn in turns:
            proposed_ids.update(proposal.candidate_id for proposal in turn.proposals)
        checked = []
        for id_, candidate in loaded.items():
            if id_ not in proposed_ids or candidate.key not in rewarded:
                continue
            reward = rewarded[candidate.key]
            state = states_by_id.get(id_)
            checked.append(
                CheckedCandidate(
                    candidate=candidate,
                    worth=reward["value"],
                    settled=bool(reward["settled"]),
                    state=state,
                    lot=None if state is None else self._lots.of(id_, state),
                    expected=self._expected(candidate, reward["value"]),
                    score=scores.get(id_),
                )
            )
        return checked

    def _scores(self, loaded: Mapping[int, Candidate]) -> dict[int, float]:
        """Returns the scores of the candidates that were drawn for the control, by id, if it has answered."""
        control = self._built.control
        if control is None or not loaded:
            return {}
        drawn = is_drawn(control, self._built.spec.seed, (candidate.key for candidate in loaded.values()))
        ids = [id_ for id_, is_chosen in zip(loaded, drawn, strict=True) if is_chosen]
        if not ids:
            return {}
        source = evidence.evidence_as_of(self._as_of)
        answers = pooled_replicates.pooled_answers(self._connection, ids, control.verifier.computation, source=source)
        scores = {}
        for id_, answer in answers.items():
            score = control_score(control.spec, self._built.objectives, answer)
            if score is not None:
                scores[id_] = score
        return scores

    def _expected(self, candidate: Candidate, worth: float | None) -> float | None:
        """Returns the payoff that the law expects of an unverified candidate; None without a law.

        Under `posterior` the worth is the expected payoff less the price of the terminal rung, and at least 0.
        """
        if (
            not worth or self._spec.unsettled != "posterior"
        ):  # a worth of 0 does not tell how far below the price it was
            return worth
        cost = self._built.rungs[self._built.terminal].declared_cost(candidate)
        return worth + price_of(cost or {}, self._spec.prices)


EPISODES_PER_READ = 256
MAX_SAMPLE = 100  # new proposals among which distinct scaffolds are counted; fewer if a policy has fewer
LEAST_PROPOSALS = 10  # new proposals of a policy below which its scaffolds are not counted


def guards(
    built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
) -> RewardGuards:
    """Returns the guards of all policies.

    rows: the rewards of a version. spec, as_of: its description and its watermark.
    """
    reading = _Reading(built, connection, rows, spec, as_of)
    for groups in _batches(reward_inputs.episodes(connection, built.row.id, as_of, reading.rewards)):
        reading.add(groups)
    tallies = sorted(reading.tallies.values(), key=lambda tally: tally.first)
    sizes = [tally.new for tally in tallies if tally.new >= LEAST_PROPOSALS]
    label = None if built.control is None else built.control.spec.rung
    sample = min([MAX_SAMPLE, *sizes])
    return guards_of_tallies(tallies, label, sample)


def show_guards(ledger: Ledger, version: int) -> ShownGuards:
    """Returns the guards as of a version. Raises UnknownNameError."""
    with ledger.read() as connection:
        row = rewards.get(connection, version)
        name = rewards.campaign_of(connection, version)
    about = {"version": version, "campaign": name, "watermark": row.watermark}
    return ShownGuards.model_validate(about | row.guards)


def _batches(rows: Sequence[EpisodeRow]) -> Iterator[list[list[EpisodeRow]]]:
    """Yields lists of groups with about `EPISODES_PER_READ` episodes; an episode without a group is its own group."""

    def group_key(row: EpisodeRow) -> tuple[int | None, int | None]:
        """Returns (group, None) or (None, episode), since a group and an episode may have the same id."""
        if row.group_id is None:
            return None, row.id
        return row.group_id, None

    batch = list[list[EpisodeRow]]()
    n = 0
    for _, members in groupby(rows, key=group_key):
        group = list(members)
        batch.append(group)
        n += len(group)
        if n >= EPISODES_PER_READ:
            yield batch
            batch = []
            n = 0
    if batch:
        yield batch


class _Reading:
    """The rewards of a version, and the tallies of the policies that earned them."""

    def __init__(
        self, built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
    ) -> None:
        self._built = built
        self._connection = connection
        self._reader = EpisodeReader(built, connection, rows, spec, as_of)
        self.tallies: dict[NamedPolicy, PolicyTally] = {}

    @property
    def rewards(self) -> Mapping[int, Sequence[RewardRow]]:
        """The rewards by id of the episode."""
        return self._reader.rewards

    def add(self, groups: Sequence[Sequence[EpisodeRow]]) -> None:
        """Adds the episodes of some groups to the tallies of their policies."""
        ids = [row.id for row in chain.from_iterable(groups)]
        subject = self._built.subject
        checked = self._reader.read(ids)
        named = policies_and_roles.of_episodes(self._connection, ids)
        for group in groups:
            features_by_policy: dict[NamedPolicy, list[Features]] = {}
            for row in group:
                policy = named.get(row.id, NamedPolicy("unknown", None))
                tally = self.tallies.setdefault(policy, PolicyTally(policy, row.number))
                tally.add_episode(row.number, self.rewards[row.id], checked[row.id].turns)
                for checked_candidate in checked[row.id].candidates:
                    features = subject.features(subject.notation(checked_candidate.candidate))
                    _add_checked(tally, row.number, checked_candidate, features.family)
                    features_by_policy.setdefault(policy, []).append(features)
            for policy, features_of_group in features_by_policy.items():
                distances = nearest_distances(subject, features_of_group)
                self.tallies[policy].add_group(group[0].number, distances)


def _add_checked(tally: PolicyTally, number: int, checked: CheckedCandidate, family: str) -> None:
    """Adds a new candidate of an episode. number: number of the episode. family: family of the candidate."""
    tally.add_candidate(family)
    if checked.state is None:
        return
    if checked.lot is not None:
        tally.add_lot(number, checked.lot, checked.state, checked.expected)
    payoff = payoff_of(checked.state)
    if checked.score is not None and payoff is not None:
        tally.add_control(number, payoff, checked.score)
