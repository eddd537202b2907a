"""What proposers foretold of their own candidates, beside what paid rungs answered: by rung, property and proposer, and
along its episodes, so that one sees whether it learns.

The score is the CRPS, in the unit of the property; 0 is best. Beside it stands the spread of the answers: who always
foretold their mean with that spread would be given 0.56 of it, where answers are distributed normally.
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
    """Predictions of one sort that were answered. Sums are of score, of foretold less measured, of answers within one
    error and within 1.64 of it, and of the answers with their squares, less the first answer."""

    n: int = 0
    score: float = 0.0
    off: float = 0.0
    within: int = 0
    within_90: int = 0
    _first: float = 0.0
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
    """One property at one rung, foretold by one proposer. bins: of its episodes that have an answer, in order."""

    rung: str
    property: str
    unit: str
    proposer: str
    record: PredictionRecord = field(default_factory=PredictionRecord)
    bins: list[Bin] = field(default_factory=list)


def prediction_scores(connection: Connection, row: CampaignRow) -> list[PredictionAccuracy]:
    """The rung that decides comes first, then the highest; of a rung by property and proposer. Empty where nothing was
    foretold and answered. Only answers of paid rungs count."""
    paid = sorted(
        (r for r in rungs(connection, row.id) if r.tier != Tier.FAST),
        key=lambda r: (r.name != row.spec.get("terminal"), -r.position),
    )
    stream = ask.said(connection, row)
    found: dict[tuple[int, str, str], PredictionRecord] = {}
    binned: dict[tuple[int, str, str], dict[int, PredictionRecord]] = {}
    spans: dict[str, tuple[int, int]] = {}
    while chunk := list(islice(stream, CHUNK)):
        spans = spans or ask.episode_numbers(connection, row)
        foretold = {int(one.candidate_id): (one, said) for one in chunk if (said := read(one.predicted))}
        for place, rung in enumerate(paid):
            answers = pooled.values_of(
                connection, list(foretold), rung.verifier, rung.verifier_version, rung.settings_hash
            )
            for id_, values in answers.items():
                one, said = foretold[id_]
                for name in said.keys() & (values or {}).keys():
                    value, error = said[name]
                    key = (place, name, one.proposer or PEOPLE)
                    bin_ = _bin(one.episode, spans.get(key[2]))
                    for record in (
                        found.setdefault(key, PredictionRecord()),
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
        for (place, name, who), record in sorted(found.items())
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
