"""Scores of the proposers' predictions against the answers of paid rungs.

The score is the CRPS, in the unit of the property; 0 is best. For scale: predicting the answers' mean and standard
deviation every time scores 0.56 of that standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.properties import properties
from sciagent.domain.scoring import COVERS_90, crps, read
from sciagent.domain.tiers import Tier
from sciagent.report.analysis.proposers import PEOPLE
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow, rungs
from sciagent.store.results import pooled
from sciagent.store.views import report_proposers as ask
from sciagent.store.views.report_proposers import PredictionMade

CHUNK = 500
BINS = 10  # number of bins over a proposer's episodes


@dataclass
class PredictionRecord:
    """Sums over a group of answered predictions, in the property's unit."""

    n: int = 0
    score: float = 0.0
    off: float = 0.0
    """Sum of predicted minus measured."""
    within: int = 0
    """Number of answers within one predicted standard deviation."""
    within_90: int = 0
    """Number of answers within 1.64 predicted standard deviations."""
    _first: float = 0.0
    """The first answer; it is subtracted from the others for numerical stability."""
    _sum: float = 0.0
    _squares: float = 0.0

    def add(self, value: float, error: float, answer: float) -> None:
        self._first = self._first if self.n else answer
        self.n += 1
        self.score += crps(value, error, answer)
        self.off += value - answer
        self.within += abs(value - answer) <= error
        self.within_90 += abs(value - answer) <= COVERS_90 * error
        self._sum += answer - self._first
        self._squares += (answer - self._first) ** 2

    @property
    def crps(self) -> float:
        """Mean score."""
        return self.score / self.n

    @property
    def bias(self) -> float:
        """Mean of predicted minus measured."""
        return self.off / self.n

    @property
    def spread(self) -> float | None:
        """Standard deviation of the answers; None below two."""
        if self.n < 2:
            return None
        return math.sqrt(max(self._squares - self._sum**2 / self.n, 0.0) / (self.n - 1))


class Bin(NamedTuple):
    """Episodes from `first` to `last`, both included."""

    first: int
    last: int
    record: PredictionRecord


@dataclass
class PredictionAccuracy:
    """The predictions of a property at a rung by a proposer."""

    rung: str
    property: str
    unit: str
    proposer: str
    record: PredictionRecord = field(default_factory=PredictionRecord)
    bins: list[Bin] = field(default_factory=list)
    """The proposer's episodes that have an answer, in order."""


class AnsweredPrediction(NamedTuple):
    """A prediction with the answer of a rung, replicates pooled; in the property's canonical unit."""

    rung: RungRow
    property: str
    made: PredictionMade
    value: float
    error: float
    answer: float


def answered(
    connection: Connection, row: CampaignRow, predictions: Iterable[PredictionMade]
) -> Iterator[AnsweredPrediction]:
    """Yields the predictions that a paid rung has answered, with the answer; reads 500 predictions at a time."""
    paid = [rung for rung in rungs(connection, row.id) if rung.tier != Tier.FAST]
    stream = iter(predictions)
    while chunk := list(islice(stream, CHUNK)):
        stated = {int(p.candidate_id): (p, expected) for p in chunk if (expected := read(p.predicted))}
        for rung in paid:
            answers = pooled.values_of(
                connection, list(stated), rung.verifier, rung.verifier_version, rung.settings_hash
            )
            for id_, values in answers.items():
                prediction, expected = stated[id_]
                for name, quantity in (values or {}).items():
                    if name in expected:
                        yield AnsweredPrediction(rung, name, prediction, *expected[name], quantity.value)


def latest_scores(connection: Connection, row: CampaignRow, n: int) -> dict[tuple[str, str], PredictionRecord]:
    """Returns the scores of the latest n predictions of all proposers: {(rung, property): record}, in ladder order."""
    records: dict[tuple[int, str, str], PredictionRecord] = {}
    for rung, name, _, *numbers in answered(connection, row, ask.predictions(connection, row, n)):
        records.setdefault((rung.position, rung.name, name), PredictionRecord()).add(*numbers)
    return {(rung, name): record for (_, rung, name), record in sorted(records.items())}


def prediction_scores(connection: Connection, row: CampaignRow) -> list[PredictionAccuracy]:
    """Returns the scores of all predictions, the terminal rung first, then from the highest rung down, by property and
    proposer. The bins of episodes show whether a proposer learns."""
    records: dict[tuple[bool, int, str, str], PredictionAccuracy] = {}
    binned: dict[tuple[bool, int, str, str], dict[int, PredictionRecord]] = {}
    spans = ask.episode_numbers(connection, row)
    for rung, name, prediction, *numbers in answered(connection, row, ask.predictions(connection, row)):
        who = prediction.proposer or PEOPLE
        key = (rung.name != row.spec.get("terminal"), -rung.position, name, who)
        if key not in records:
            records[key] = PredictionAccuracy(rung.name, name, properties()[name].unit, who)
        records[key].record.add(*numbers)
        first, last = spans.get(who, (0, 0))
        begin = first if (n := prediction.episode) is None else n - (n - first) % _width(first, last)
        binned.setdefault(key, {}).setdefault(begin, PredictionRecord()).add(*numbers)
    for key, accuracy in records.items():
        first, last = spans.get(accuracy.proposer, (0, 0))
        end = _width(first, last) - 1
        accuracy.bins += [Bin(begin, min(begin + end, last), record) for begin, record in sorted(binned[key].items())]
    return [accuracy for _, accuracy in sorted(records.items())]


def _width(first: int, last: int) -> int:
    """Returns the number of episodes of a bin."""
    return math.ceil((last - first + 1) / BINS)
