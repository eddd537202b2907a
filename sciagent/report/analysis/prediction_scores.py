"""Scores of the proposers' predictions against the answers of paid rungs: by rung, property and proposer.

They are also given along a proposer's episodes, which shows whether it learns. The score is the CRPS, in the unit of
the property; 0 is best. For scale: predicting the answers' mean and standard deviation every time scores 0.56 of that
standard deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.domain.properties import properties
from sciagent.domain.scoring import COVERS_90, crps, read
from sciagent.domain.tiers import Tier
from sciagent.report.analysis.proposers import PEOPLE
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.results import pooled
from sciagent.store.views import report_proposers as ask

CHUNK = 500
BINS = 10  # of a proposer's episodes


@dataclass
class PredictionRecord:
    """Sums over predictions of a kind that were answered."""

    n: int = 0
    score: float = 0.0
    off: float = 0.0
    """Sum of predicted less measured."""
    within: int = 0
    """Answers within one predicted standard deviation."""
    within_90: int = 0
    """Answers within 1.64 predicted standard deviations."""
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
        return self.score / self.n

    @property
    def bias(self) -> float:
        return self.off / self.n

    @property
    def inside(self) -> float:
        return self.within / self.n

    @property
    def inside_90(self) -> float:
        return self.within_90 / self.n

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


def prediction_scores(connection: Connection, row: CampaignRow) -> list[PredictionAccuracy]:
    """Prediction scores, the terminal rung first, then from the highest rung down, by property and proposer.

    Only answers of paid rungs count. The list is empty where no prediction was answered.
    """
    paid = sorted(
        (r for r in rungs(connection, row.id) if r.tier != Tier.FAST),
        key=lambda r: (r.name != row.spec.get("terminal"), -r.position),
    )
    stream = ask.predictions(connection, row)
    records: dict[tuple[int, str, str], PredictionRecord] = {}
    binned: dict[tuple[int, str, str], dict[int, PredictionRecord]] = {}
    spans: dict[str, tuple[int, int]] = {}
    while chunk := list(islice(stream, CHUNK)):
        spans = spans or ask.episode_numbers(connection, row)
        foretold = {
            int(proposal.candidate_id): (proposal, expected)
            for proposal in chunk
            if (expected := read(proposal.predicted))
        }
        for place, rung in enumerate(paid):
            answers = pooled.values_of(
                connection, list(foretold), rung.verifier, rung.verifier_version, rung.settings_hash
            )
            for id_, values in answers.items():
                proposal, expected = foretold[id_]
                for name in expected.keys() & (values or {}).keys():
                    value, error = expected[name]
                    key = (place, name, proposal.proposer or PEOPLE)
                    bin_ = _bin(proposal.episode, spans.get(key[2]))
                    for record in (
                        records.setdefault(key, PredictionRecord()),
                        binned.setdefault(key, {}).setdefault(bin_, PredictionRecord()),
                    ):
                        record.add(value, error, (values or {})[name].value)
    units = properties()
    return [
        PredictionAccuracy(
            paid[place].name,
            name,
            units[name].unit if name in units else "1",
            who,
            record,
            list(_bins(binned[place, name, who], spans.get(who))),
        )
        for (place, name, who), record in sorted(records.items())
    ]


def _width(span: tuple[int, int]) -> int:
    return math.ceil((span[1] - span[0] + 1) / BINS)


def _bin(number: int | None, span: tuple[int, int] | None) -> int:
    return 0 if number is None or span is None else (number - span[0]) // _width(span)


def _bins(records: Mapping[int, PredictionRecord], span: tuple[int, int] | None) -> Iterable[Bin]:
    for place, record in sorted(records.items()):
        if span is None:
            yield Bin(0, 0, record)
            continue
        first = span[0] + place * _width(span)
        yield Bin(first, min(first + _width(span) - 1, span[1]), record)
