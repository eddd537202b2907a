"""Reads what guards need of episodes: new candidates with their verdicts, their lots, and the scores by the control."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.core.control_scores import control_score, is_drawn
from sciagent.campaign.rewarding.lots import Lot, Lots
from sciagent.domain.candidates import Candidate
from sciagent.rewards.estimators import CandidateState
from sciagent.rewards.process import price_of
from sciagent.rewards.spec import RewardSpec
from sciagent.rewards.states import states
from sciagent.store.learning import episodes
from sciagent.store.learning.episodes import EpisodeTurn
from sciagent.store.learning.rewards import RewardRow
from sciagent.store.results import candidates, evidence, pooled


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
    """Score by the control; None if it has not answered."""


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
        self._built, self._connection, self._spec, self._as_of = built, connection, spec, as_of
        self._lots = Lots(built, connection, as_of)
        self.rewards: dict[int, list[RewardRow]] = {}
        """By id of the episode."""
        for row in rows:
            self.rewards.setdefault(row.trajectory_id, []).append(row)

    def read(self, ids: Sequence[int]) -> dict[int, CheckedEpisode]:
        """Returns the episodes by id. ids: of episodes that have rewards."""
        turns = episodes.turns_of(self._connection, ids, self._as_of)
        new = {p.candidate_id for of in turns.values() for turn in of for p in turn.proposals if p.status == "new"}
        loaded = candidates.load(self._connection, sorted(id_ for id_ in new if id_ is not None))
        scores = self._scores(loaded)
        asked = list(loaded if self._lots.any else scores)
        known = states(self._built, self._connection, asked, self._as_of) if asked else {}
        checked = {id_: self._checked(id_, turns[id_], loaded, known, scores) for id_ in ids}
        return {id_: CheckedEpisode(id_, turns[id_], found) for id_, found in checked.items()}

    def _checked(
        self,
        episode_id: int,
        turns: Sequence[EpisodeTurn],
        loaded: Mapping[int, Candidate],
        known: Mapping[int, CandidateState],
        scores: Mapping[int, float],
    ) -> list[CheckedCandidate]:
        rewarded = {candidate["key"]: candidate for row in self.rewards[episode_id] for candidate in row.candidates}
        proposed = {p.candidate_id for turn in turns for p in turn.proposals}
        found = []
        for id_, candidate in loaded.items():
            if id_ not in proposed or (shown := rewarded.get(candidate.key)) is None:
                continue
            state = known.get(id_)
            found.append(
                CheckedCandidate(
                    candidate,
                    shown["value"],
                    bool(shown["settled"]),
                    state,
                    None if state is None else self._lots.of(id_, state),
                    self._expected(candidate, shown["value"]),
                    scores.get(id_),
                )
            )
        return found

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

    def _expected(self, candidate: Candidate, worth: float | None) -> float | None:
        """Returns the payoff that the law expects of an unverified candidate; None without a law. Under `posterior`
        its worth is less by the price of the terminal rung, unless that would be below 0."""
        if not worth or self._spec.unsettled != "posterior":
            return worth
        cost = self._built.rungs[self._built.terminal].declared(candidate)
        return worth + price_of(cost or {}, self._spec.prices)
