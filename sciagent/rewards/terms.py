"""Named terms of turns beside the evidence: how many proposals were wasted, and how new and how varied the others are.

`novelty` compares with the snapshot that the episode's group began with, and `diversity` with what the episode itself
proposed before. So neither depends on siblings, nor on what the campaign has learnt since.

Scores what models predicted of their own candidates against the verdicts: the term `prediction` of a turn.

A prediction of a property scores 1 - CRPS / scale: 1 if it was exact and sure, 0 at a CRPS of one scale, never less
than -1. The CRPS is proper, so that an honest prediction scores best on average. Nothing is earned where nothing was
predicted, so that a model may leave out what it does not know.

Source: Gneiting and Raftery, J. Am. Stat. Assoc. 102, 359 (2007).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing.prediction_scores import crps, read
from sciagent.chemistry.fingerprint import Features
from sciagent.chemistry.subjects.base import Subject
from sciagent.domain.evidence import at_highest_rung
from sciagent.rewards.process import Settlement
from sciagent.rewards.spec import RewardSpec, Term
from sciagent.rewards.states import answers_as_of, beginnings, states
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.database.parts import CandidatePart
from sciagent.store.learning import groups
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.results import candidates

OF_STRUCTURES: tuple[Term, ...] = ("novelty", "diversity")


class Snapshots:
    """The candidates that a campaign had when each of its groups of rollouts began."""

    def __init__(self, built: Built, connection: Connection, spec: RewardSpec, group_ids: Sequence[int]) -> None:
        wanted = [name for name in OF_STRUCTURES if spec.terms.get(name)]
        self._parts = (
            {row.id: row.part for row in groups.of_ids(connection, group_ids).values()} if "novelty" in wanted else {}
        )
        end = max((part.end or 0 for part in self._parts.values()), default=0)
        members = _members(connection, built.row.id, CandidatePart(end))
        notations = candidates.notations(connection, built.subject, {id_: text for id_, _, text in members})
        self._known = [(seq, built.subject.features(notations[id_])) for id_, seq, _ in members]

    def of(self, group_id: int | None) -> Sequence[Features] | None:
        """Returns the candidates of a group's snapshot; None for an episode without a group."""
        if group_id is None or group_id not in self._parts:
            return None
        return [known for seq, known in self._known if self._parts[group_id].holds(seq)]


def _members(connection: Connection, campaign_id: int, part: CandidatePart) -> Sequence[Any]:
    """Returns (id, seq, text) of the candidates in a part of the campaign, in order."""
    cc = t.campaign_candidate.c
    c = t.candidate.c
    query = sa.select(c.id, cc.seq, c.text).join(t.candidate, c.id == cc.candidate_id)
    return connection.execute(query.where(cc.campaign_id == campaign_id, part.condition).order_by(cc.seq)).all()


def terms_of(
    turns: Sequence[EpisodeTurn],
    notations: Mapping[int, str],
    snapshot: Sequence[Features] | None,
    spec: RewardSpec,
    subject: Subject,
) -> list[dict[Term, float]]:
    """Returns the terms of an episode's turns before their weights, each from 0 to 1: (turns,).

    Each is a mean over the proposals of a turn, in which one that is not new counts 1 for `refused` and 0 for the
    others. The novelty of a candidate is 1 less its similarity (of molecules Tanimoto, ECFP4) to the nearest of the
    snapshot, its diversity the same to the nearest of those that the episode proposed before it; 1 if there are none.
    notations: by candidate id. snapshot: None for an episode without a group, whose candidates have novelty 0.
    """
    compared: dict[Term, Sequence[Features] | None] = {}
    own: list[Features] = []
    for name, others in zip(OF_STRUCTURES, (snapshot, own), strict=True):
        if spec.terms.get(name):
            compared[name] = others
    seen: set[int] = set()
    found = []
    for turn in turns:
        sums: dict[Term, float] = dict.fromkeys(("refused", *compared), 0.0)
        for proposal in turn.proposals:
            id_ = proposal.candidate_id
            if proposal.status != "new" or id_ is None:
                sums["refused"] += proposal.status != "new"
            elif compared and id_ not in seen:
                seen.add(id_)
                found_features = subject.features(notations[id_])
                for name, others in compared.items():
                    sums[name] += _unlikeness(subject, found_features, others)
                own.append(found_features)
        found.append({name: total / max(len(turn.proposals), 1) for name, total in sums.items()})
    return found


def _unlikeness(subject: Subject, candidate: Features, others: Sequence[Features] | None) -> float:
    """Returns 1 less the similarity to the nearest of others: 1 if there are none. others: None leaves it 0."""
    return 0.0 if others is None else 1.0 - (subject.nearest(candidate, others) or 0.0)


SETTLED = (Settlement.ANSWERED, Settlement.REFUSED)
WORST = -1.0


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


class PredictionScores:
    """The scores of the predictions in some episodes. Nothing is read unless the rewards have the term."""

    def __init__(
        self,
        built: Built,
        connection: Connection,
        spec: RewardSpec,
        held: Sequence[tuple[EpisodeRow, Sequence[EpisodeTurn]]],
        as_of: int,
    ) -> None:
        """held: the episodes with their turns. as_of: watermark of the rewards."""
        self._scales = spec.prediction_scales if spec.terms.get("prediction") else {}
        self._may_stay_open = spec.unsettled != "settled"
        self._predictions: dict[int, list[_Prediction]] = {}
        if not self._scales:
            return
        self._predictions = _predictions(connection, [turn.id for _, turns in held for turn in turns], self._scales)
        ids = sorted({each.candidate_id for found in self._predictions.values() for each in found})
        self._states = states(built, connection, ids, as_of)
        self._answers = _answers(built, connection, ids, self._scales, as_of)
        self._begun = {id_: begun.watermark for id_, begun in beginnings(built, connection, held).items()}

    def of(self, row: EpisodeRow, turns: Sequence[EpisodeTurn]) -> list[float | None]:
        """Returns the term of each turn of an episode before its weight, from -1 to 1; None while a verdict is missing.

        It is a mean over the proposals of the turn and over the properties that have a scale. What is not new in the
        episode, or had an answer before the episode began, is no prediction.
        """
        seen = set[int]()
        found = list[float | None]()
        for turn in turns:
            new = [each for each in self._predictions.get(turn.id, ()) if each.candidate_id not in seen]
            seen.update(each.candidate_id for each in new)
            seen.update(proposal.candidate_id for proposal in turn.proposals if proposal.candidate_id is not None)
            scores = [self._score(row, each) for each in new]
            known = [score for score in scores if score is not None]
            found.append(None if len(known) < len(scores) else sum(known) / max(len(turn.proposals), 1))
        return found

    def _score(self, row: EpisodeRow, made: _Prediction) -> float | None:
        settlement = self._states[made.candidate_id].settlement
        if settlement not in SETTLED:
            return 0.0 if settlement is Settlement.OPEN and self._may_stay_open else None
        answers = self._answers.get(made.candidate_id, {})
        total = 0.0
        for name, scale in self._scales.items():
            answer = answers.get(name)
            if name in made.stated and answer is not None and answer.watermark > self._begun[row.id]:
                total += max(WORST, 1.0 - crps(*made.stated[name], answer.value) / scale)
        return total / len(self._scales)


def _predictions(
    connection: Connection, turn_ids: Sequence[int], names: Mapping[str, Any]
) -> dict[int, list[_Prediction]]:
    """Returns the predictions of new candidates by turn. names: the properties that count."""
    p = t.proposal.c
    query = sa.select(p.turn_id, p.candidate_id, p.predicted).where(among(connection, p.turn_id, turn_ids))
    query = query.where(p.status == "new", p.candidate_id.is_not(None), p.predicted.is_not(None)).order_by(p.id)
    found: dict[int, list[_Prediction]] = {}
    for turn_id, candidate_id, predicted in connection.execute(query):
        stated = {name: numbers for name, numbers in read(predicted).items() if name in names}
        if stated:
            found.setdefault(int(turn_id), []).append(_Prediction(int(candidate_id), stated))
    return found


def _answers(
    built: Built, connection: Connection, ids: Sequence[int], names: Mapping[str, Any], as_of: int
) -> dict[int, dict[str, _Answer]]:
    """Returns by candidate and property the value of the highest rung that measured it."""
    found: dict[int, dict[str, _Answer]] = {id_: {} for id_ in ids}
    first = {(id_, position): watermark for id_, position, watermark in _first(built, connection, ids, as_of)}
    for id_, answers in answers_as_of(built, connection, ids, as_of).items():
        for name, (answer, measured) in at_highest_rung([each for each in answers if each.measured]).items():
            if name in names:
                found[id_][name] = _Answer(measured.quantity.value, first.get((id_, int(answer.position)), 0))
    return found


def _first(built: Built, connection: Connection, ids: Sequence[int], as_of: int) -> Iterator[tuple[int, int, int]]:
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
