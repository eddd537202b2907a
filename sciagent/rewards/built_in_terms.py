"""The named terms of a turn's reward that sciagent has, beside the evidence: a class for each.

`refused`, `novelty`, `diversity` and `prediction` are means over the proposals of a turn; `empty` is about the whole
episode. `novelty` compares with the snapshot that the episode's group began with, and `diversity` with the earlier
proposals of the episode itself. So neither depends on siblings, nor on what the campaign has learnt since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import sqlalchemy as sa
from pydantic import Field
from sqlalchemy.engine import Connection

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.proposing.prediction_scores import crps, read_predictions
from sciagent.chemistry.fingerprints_and_families import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.evidence_keys_and_pooled_replicates import at_highest_rung
from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.rewards.candidate_states_lots_and_episode_starts import answers_as_of, beginnings
from sciagent.rewards.reward_term_contract import RewardTerm, Settlement, TermInputs, TermSettings, TurnOfEpisode
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.condition_for_part_of_candidates import CandidatePart
from sciagent.store.learning import rollout_groups
from sciagent.store.learning.reward_inputs import EpisodeTurn
from sciagent.store.results import candidates


class RefusedTerm(RewardTerm):
    """The share of a turn's proposals that were known already, or are no candidates."""

    name = "refused"
    version = "1"

    def of(self, turn: TurnOfEpisode) -> float:
        proposals = [proposal for proposal in turn.turn.proposals if proposal.status != FILTERED]
        refused = sum(proposal.status != "new" for proposal in proposals)
        return refused / max(len(proposals), 1)


class EmptyTerm(RewardTerm):
    """1 in the last turn of an episode that has proposed nothing, or only what a fast rung threw out.

    An episode of which a filter dropped proposals is not known to be empty."""

    name = "empty"
    version = "1"

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        self._states = inputs.states

    def of(self, turn: TurnOfEpisode) -> float:
        if not turn.is_last or any(each.was_filtered for each in turn.turns):
            return 0.0
        proposed = _new_in(turn.turns)
        return float(all(self._states[id_].screened for id_ in proposed))


class NoveltyTerm(RewardTerm):
    """The mean over a turn's proposals of the distance to the snapshot that the episode's group began with.

    The distance is 1 less the similarity to the nearest candidate (for molecules Tanimoto, ECFP4); 1 if the snapshot is
    empty. A proposal that is not new counts 0. In an episode without a group, which has no snapshot, all count 0.
    """

    name = "novelty"
    version = "1"

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        self._subject = inputs.built.subject
        self._notations = inputs.notations
        group_ids = sorted({row.group_id for row, _ in inputs.episodes if row.group_id is not None})
        groups = rollout_groups.of_ids(connection, group_ids)
        self._parts = {group.id: group.part for group in groups.values()}
        end_of_largest = max((part.end or 0 for part in self._parts.values()), default=0)
        members = _members(connection, inputs.built.row.id, CandidatePart(end_of_largest))
        notations = candidates.notations(connection, self._subject, {id_: text for id_, _, text in members})
        self._seqs_and_features = [(seq, self._subject.features(notations[id_])) for id_, seq, _ in members]
        self._snapshot = lru_cache(maxsize=1)(self._snapshot_of)  # the episodes of a group stand one after the other

    def of(self, turn: TurnOfEpisode) -> float:
        group_id = turn.episode.group_id
        if group_id is None:
            return 0.0
        snapshot = self._snapshot(group_id)
        total = 0.0
        for id_ in _proposed_first(turn):
            features = self._subject.features(self._notations[id_])
            total += _unlikeness(self._subject, features, snapshot)
        return total / max(len(turn.turn.proposals), 1)

    def _snapshot_of(self, group_id: int) -> Sequence[Features]:
        """Returns the candidates that the campaign had when the group began."""
        part = self._parts[group_id]
        return [features for seq, features in self._seqs_and_features if part.holds(seq)]


class DiversityTerm(RewardTerm):
    """The mean over a turn's proposals of the distance to the earlier proposals of the episode.

    The distance is 1 less the similarity to the nearest candidate (for molecules Tanimoto, ECFP4); 1 for the first
    candidate. A proposal that is not new counts 0.
    """

    name = "diversity"
    version = "1"

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        self._subject = inputs.built.subject
        self._notations = inputs.notations

    def of(self, turn: TurnOfEpisode) -> float:
        before = [self._features(id_) for id_ in _new_in(turn.earlier)]
        total = 0.0
        for id_ in _proposed_first(turn):
            proposed = self._features(id_)
            total += _unlikeness(self._subject, proposed, before)
            before.append(proposed)
        return total / max(len(turn.turn.proposals), 1)

    def _features(self, candidate_id: int) -> Features:
        return self._subject.features(self._notations[candidate_id])


def _members(connection: Connection, campaign_id: int, part: CandidatePart) -> Sequence[Any]:
    """Returns (id, seq, text) of the candidates in a part of the campaign, in order."""
    cc = t.campaign_candidate.c
    c = t.candidate.c
    query = sa.select(c.id, cc.seq, c.text).join(t.candidate, c.id == cc.candidate_id)
    query = query.where(cc.campaign_id == campaign_id, part.condition)
    return connection.execute(query.order_by(cc.seq)).all()


def _new_in(turns: Sequence[EpisodeTurn]) -> list[int]:
    """Returns the ids of the candidates that were new in some turns, each once, in order."""
    return list(dict.fromkeys(id_ for turn in turns for id_ in turn.new_candidates))


def _proposed_first(turn: TurnOfEpisode) -> list[int]:
    """Returns the ids of the new candidates of a turn that no earlier turn had."""
    earlier = set(_new_in(turn.earlier))
    return [id_ for id_ in turn.turn.new_candidates if id_ not in earlier]


def _unlikeness(subject: Subject, candidate: Features, others: Sequence[Features]) -> float:
    """Returns 1 less the similarity to the nearest of others: 1 if there are none."""
    similarity = subject.nearest(candidate, others)
    return 1.0 if similarity is None else 1.0 - similarity


SETTLED = (Settlement.ANSWERED, Settlement.REFUSED)
LEAST_SCORE = -1.0  # least score of a prediction of one property


class _Prediction(NamedTuple):
    """A prediction of a turn about a candidate that was new in its episode."""

    candidate_id: int
    stated: Mapping[str, tuple[float, float]]
    """(value, error) by property, in canonical units."""


class _Answer(NamedTuple):
    """A value that the ladder has found."""

    value: float
    watermark: int
    """Watermark of the rung's first answer."""


class PredictionSettings(TermSettings):
    """The settings of `prediction`, which a description states as `prediction_scales`."""

    scales: Mapping[str, float] = Field(min_length=1)
    """By property, the CRPS at which a prediction earns nothing, in the property's own unit."""


class PredictionTerm(RewardTerm):
    """The agreement of a model's predictions for its own candidates with the answers; None until all answers are in.

    A prediction of a property scores 1 - CRPS / scale: 1 if it was exact and sure, 0 at a CRPS of one scale, never less
    than -1. The CRPS is proper, so that an honest prediction scores best on average. The term is the mean over the
    proposals of the turn and over the properties that have a scale. A property without a prediction earns 0, so that a
    model may leave out what it does not know. A prediction counts only if its candidate is new in the episode and had
    no answer before the episode began.

    Source: Gneiting and Raftery, J. Am. Stat. Assoc. 102, 359 (2007).
    """

    name = "prediction"
    version = "1"
    Settings = PredictionSettings
    settings: PredictionSettings

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        built = inputs.built
        scales = self.settings.scales
        turn_ids = [turn.id for _, turns in inputs.episodes for turn in turns]
        self._predictions = _predictions(connection, turn_ids, scales)
        predictions = chain.from_iterable(self._predictions.values())
        ids = sorted({prediction.candidate_id for prediction in predictions})
        self._states = inputs.states
        self._answers = _answers(built, connection, ids, scales, inputs.as_of)
        beginning_of = beginnings(built, connection, inputs.episodes)
        self._first_watermark = {id_: beginning.watermark for id_, beginning in beginning_of.items()}
        self._may_stay_open = inputs.unsettled != "settled"

    def of(self, turn: TurnOfEpisode) -> float | None:
        earlier_ids = set[int | None]()
        for earlier_turn in turn.earlier:
            earlier_ids.update(proposal.candidate_id for proposal in earlier_turn.proposals)
        total = 0.0
        for prediction in self._predictions.get(turn.turn.id, ()):
            if prediction.candidate_id in earlier_ids:
                continue
            score = self._score(turn.episode.id, prediction)
            if score is None:
                return None
            total += score
        return total / max(len(turn.turn.proposals), 1)

    def _score(self, episode_id: int, prediction: _Prediction) -> float | None:
        """Returns the mean score of a prediction over the properties with a scale; None while a verdict is missing."""
        settlement = self._states[prediction.candidate_id].settlement
        if settlement is Settlement.OPEN and self._may_stay_open:  # nothing is waited for
            return 0.0
        if settlement not in SETTLED:
            return None
        answers = self._answers.get(prediction.candidate_id, {})
        total = 0.0
        for name, scale in self.settings.scales.items():
            answer = answers.get(name)
            if name not in prediction.stated or answer is None:
                continue
            if answer.watermark > self._first_watermark[episode_id]:
                value, error = prediction.stated[name]
                total += max(LEAST_SCORE, 1.0 - crps(value, error, answer.value) / scale)
        return total / len(self.settings.scales)


def _predictions(
    connection: Connection, turn_ids: Sequence[int], names: Mapping[str, Any]
) -> dict[int, list[_Prediction]]:
    """Returns the predictions of new candidates by turn. names: the properties that count."""
    p = t.proposal.c
    query = sa.select(p.turn_id, p.candidate_id, p.predicted).where(among(connection, p.turn_id, turn_ids))
    query = query.where(p.status == "new", p.candidate_id.is_not(None), p.predicted.is_not(None)).order_by(p.id)
    found: dict[int, list[_Prediction]] = {}
    for turn_id, candidate_id, predicted in connection.execute(query):
        stated = {name: numbers for name, numbers in read_predictions(predicted).items() if name in names}
        if stated:
            found.setdefault(int(turn_id), []).append(_Prediction(int(candidate_id), stated))
    return found


def _answers(
    built: Built, connection: Connection, ids: Sequence[int], names: Mapping[str, Any], as_of: int
) -> dict[int, dict[str, _Answer]]:
    """Returns by candidate and property the value of the highest rung that measured it."""
    answers_by_id: dict[int, dict[str, _Answer]] = {id_: {} for id_ in ids}
    first_watermark = {}
    for id_, position, watermark in _first_watermarks(built, connection, ids, as_of):
        first_watermark[id_, position] = watermark
    for id_, answers in answers_as_of(built, connection, ids, as_of).items():
        with_values = [answer for answer in answers if answer.measured]
        for name, (answer, measured) in at_highest_rung(with_values).items():
            if name in names:
                watermark = first_watermark.get((id_, int(answer.position)), 0)
                answers_by_id[id_][name] = _Answer(measured.quantity.value, watermark)
    return answers_by_id


def _first_watermarks(
    built: Built, connection: Connection, ids: Sequence[int], as_of: int
) -> Iterator[tuple[int, int, int]]:
    """Yields candidate id, position of a rung, and the watermark of its first answer."""
    e = t.evidence.c
    for rung in built.rungs:
        computation = rung.verifier.computation
        query = sa.select(e.candidate_id, sa.func.min(e.watermark)).where(
            e.verifier == computation.verifier,
            e.verifier_version == computation.version,
            e.settings_hash == computation.settings_hash,
            e.watermark <= as_of,
            among(connection, e.candidate_id, ids),
        )
        for id_, watermark in connection.execute(query.group_by(e.candidate_id)):
            yield int(id_), int(rung.rules.position), int(watermark)
