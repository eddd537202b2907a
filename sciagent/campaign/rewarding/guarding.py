"""The guards of a version of rewards: statistics of each policy from the ledger up to the version's watermark.

Episodes are read some groups at a time; only numbers are kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.core.control_scores import control_score, is_drawn
from sciagent.campaign.rewarding.lots import Lots
from sciagent.campaign.rewarding.policy_tally import PolicyTally, answered, payoff_of
from sciagent.campaign.rewarding.states import states
from sciagent.domain.answers.guards import RewardGuards, ShownGuards
from sciagent.domain.candidates import Candidate
from sciagent.rewards.estimators import CandidateState
from sciagent.rewards.process import price_of
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, policies, rewards
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.learning.policies import NamedPolicy
from sciagent.store.learning.rewards import RewardRow
from sciagent.store.results import candidates, evidence, pooled

AT_ONCE = 256  # episodes that are read together
SAMPLE = 100  # new proposals among which distinct scaffolds are counted; fewer if a policy has fewer
FEWEST = 10  # new proposals of a policy below which its scaffolds are not counted


def guards(
    built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
) -> RewardGuards:
    """Returns the guards of all policies.

    rows: the rewards of a version. spec, as_of: its description and its watermark.
    """
    reading = _Reading(built, connection, rows, spec, as_of)
    found = episodes.episodes(connection, built.row.id, as_of, reading.rewards)
    for groups in _batches(found):
        reading.add(groups)
    in_order = sorted(reading.tallies.values(), key=lambda tally: tally.first)
    sizes = [tally.new for tally in in_order if tally.new >= FEWEST]
    label = None if built.control is None else built.control.spec.rung
    return answered(in_order, label, min([SAMPLE, *sizes]))


def show_guards(ledger: Ledger, version: int) -> ShownGuards:
    """Returns the guards as of a version. Those of a version that was published without guards are computed now.

    Raises UnknownNameError.
    """
    with ledger.read() as connection:
        row = rewards.get(connection, version)
        name = rewards.campaign_of(connection, version)
    found = row.guards
    if found is None:
        built = open_for_people(ledger, name)
        with ledger.read() as connection:
            rows, spec = rewards.of_version(connection, version), RewardSpec.model_validate(row.spec)
            found = guards(built, connection, rows, spec, row.watermark).model_dump()
    about = {"version": version, "campaign": name, "watermark": row.watermark}
    return ShownGuards.model_validate(about | found)


def _batches(rows: Sequence[EpisodeRow]) -> Iterator[list[list[EpisodeRow]]]:
    """Yields lists of groups with about `AT_ONCE` episodes; an episode without a group is a group of its own."""
    batch, n = list[list[EpisodeRow]](), 0
    for _, members in groupby(rows, key=lambda row: (row.group_id, row.group_id is None and row.id)):
        batch.append(list(members))
        n += len(batch[-1])
        if n >= AT_ONCE:
            yield batch
            batch, n = [], 0
    if batch:
        yield batch


class _Batch(NamedTuple):
    """The data of some episodes, which are read together."""

    turns: Mapping[int, Sequence[EpisodeTurn]]
    """By id of the episode."""
    policies: Mapping[int, NamedPolicy]
    """By id of the episode."""
    loaded: Mapping[int, Candidate]
    """The new candidates of the episodes, by id."""
    known: Mapping[int, CandidateState]
    """States by id, of those for which a lot was drawn."""
    scores: Mapping[int, float]
    """Scores by the control, by id."""


class _Reading:
    """The rewards of a version, and the tallies of the policies that earned them."""

    def __init__(
        self, built: Built, connection: Connection, rows: Sequence[RewardRow], spec: RewardSpec, as_of: int
    ) -> None:
        self._built, self._connection, self._spec, self._as_of = built, connection, spec, as_of
        self._lots = Lots(built, connection, as_of)
        self.tallies: dict[NamedPolicy, PolicyTally] = {}
        self.rewards: dict[int, list[RewardRow]] = {}
        """By id of the episode."""
        for row in rows:
            self.rewards.setdefault(row.trajectory_id, []).append(row)

    def add(self, groups: Sequence[Sequence[EpisodeRow]]) -> None:
        """Adds the episodes of some groups to the tallies of their policies."""
        batch = self._read([row.id for group in groups for row in group])
        for group in groups:
            molecules: dict[NamedPolicy, list[str]] = {}
            for row in group:
                policy = batch.policies.get(row.id, NamedPolicy("unknown", None))
                tally = self.tallies.setdefault(policy, PolicyTally(policy, row.number))
                for candidate in self._add_episode(tally, row, batch):
                    molecules.setdefault(policy, []).append(candidate.text)
            for policy, texts in molecules.items() if self._built.spec.subject == "molecule" else ():
                self.tallies[policy].add_group(group[0].number, texts)

    def _read(self, ids: Sequence[int]) -> _Batch:
        turns = episodes.turns_of(self._connection, ids, self._as_of)
        new = {p.candidate_id for of in turns.values() for turn in of for p in turn.proposals if p.status == "new"}
        loaded = candidates.load(self._connection, sorted(id_ for id_ in new if id_ is not None))
        scores = self._scores(loaded)
        asked = list(loaded if self._lots.any else scores)
        known = states(self._built, self._connection, asked, self._as_of) if asked else {}
        return _Batch(turns, policies.of_episodes(self._connection, ids), loaded, known, scores)

    def _scores(self, loaded: Mapping[int, Candidate]) -> dict[int, float]:
        """Returns the scores of the candidates that were drawn for the control, by id, if it has answered."""
        control = self._built.control
        if control is None or not loaded:
            return {}
        drawn = is_drawn(control, self._built.spec.seed, (candidate.key for candidate in loaded.values()))
        ids = [id_ for id_, is_chosen in zip(loaded, drawn, strict=True) if is_chosen]
        source = evidence.evidence_as_of(self._as_of)
        answers = (
            pooled.pooled_answers(self._connection, ids, control.verifier.computation, source=source) if ids else {}
        )
        scores = {id_: control_score(control.spec, self._built.objectives, found) for id_, found in answers.items()}
        return {id_: score for id_, score in scores.items() if score is not None}

    def _add_episode(self, tally: PolicyTally, row: EpisodeRow, batch: _Batch) -> list[Candidate]:
        """Adds an episode; returns its new candidates."""
        turns = batch.turns[row.id]
        shown = tally.add_episode(row.number, self.rewards[row.id], turns)
        proposed = {p.candidate_id for turn in turns for p in turn.proposals}
        new = {id_: each for id_, each in batch.loaded.items() if id_ in proposed and each.key in shown}
        for id_, candidate in new.items():
            tally.add_candidate(candidate)
            if (state := batch.known.get(id_)) is None:
                continue
            if (lot := self._lots.of(id_, state)) is not None:
                tally.add_lot(row.number, lot, state, self._expected(candidate, shown[candidate.key]["value"]))
            if id_ in batch.scores and (payoff := payoff_of(state)) is not None:
                tally.add_control(row.number, payoff, batch.scores[id_])
        return list(new.values())

    def _expected(self, candidate: Candidate, worth: float | None) -> float | None:
        """Returns the payoff that the law expects of an unverified candidate; None without a law. Under `posterior`
        its worth is less by the price of the terminal rung, unless that would be below 0."""
        if not worth or self._spec.unsettled != "posterior":
            return worth
        cost = self._built.rungs[self._built.terminal].declared(candidate)
        return worth + price_of(cost or {}, self._spec.prices)
