"""Scores what models predicted of their own candidates against the verdicts: the term `prediction` of a turn.

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
from sciagent.campaign.rewarding.records import beginnings
from sciagent.domain.evidence import at_highest_rung
from sciagent.report.analysis.prediction_scores import crps, read
from sciagent.rewards.estimators import Settlement
from sciagent.rewards.spec import RewardSpec
from sciagent.rewards.states import answers_as_of, states
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn

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
        seen, found = set[int](), list[float | None]()
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
