"""The best candidates: cards with structure, geometry, values, lineage and provenance; and rows of the table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry import drawn, subject_of
from sciagent.domain.answers.values import LimitMargin
from sciagent.domain.evidence import Measured, at_highest_rung
from sciagent.domain.outcomes import Reason
from sciagent.domain.states import Standing
from sciagent.report.parts.margins import contradiction, margins, method_errors
from sciagent.report.parts.series_charts import SeriesChart, series_chart, stored_series
from sciagent.report.parts.table import geometry
from sciagent.report.parts.wording import missed_property, value, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.candidates import (
    EvidenceAnswer,
    Origin,
    RankedCandidate,
    best_candidates,
    fits_by_rung,
    imported_answers,
    origin_of,
    pooled_by_rung,
    rung_answers,
)
from sciagent.store.views.progress import kind_of

CARDS = 12
ROWS = 10_000
PAGE = 500  # rows of the table that are read at once
PICTURES = 300  # rows of the table with a drawing
COLUMNS = 14  # columns of the table besides those that every campaign has
NAME = 9  # place of the name in a row of the table
SERIES = 2  # charts of series on a card
MAX_GEOMETRY = 100_000  # bytes of one XYZ file


MeasuredAt = tuple[EvidenceAnswer, Measured]
"""A value and the answer that holds it."""
TableColumn = tuple[str, str, str, str]
"""(rung, property, unit, level); an empty text for the rung of imported values."""


@dataclass(frozen=True)
class Card:
    """A card of a top candidate."""

    rank: int
    candidate: RankedCandidate
    status: str
    kind: str
    """`hit`, `contradicted`, `verified`, `open` or `fallen`."""
    contradicted: str | None
    """The imported values that contradict the verdict, as a sentence; None if none does."""
    drawing: str
    geometry: Mapping[str, str] | None
    """`text` of a geometry file, and its `format`."""
    series: list[SeriesChart]
    """Charts of the series that its evidence left, such as powder patterns; those of the highest rungs."""
    headline: list[MeasuredAt]
    """Value of each objective's property at the highest rung that measured it; replicates are pooled."""
    imported: list[MeasuredAt]
    margins: Mapping[str, LimitMargin]
    """{property: distance of the value from the limits of its objective}."""
    origin: Origin
    answers: list[EvidenceAnswer]
    """All evidence of the candidate, with separate replicates; imported values come last."""


def cards(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], artifacts: ArtifactStore, n: int
) -> list[Card]:
    ranked = [
        candidate for candidate in best_candidates(connection, row, n) if candidate.hit or candidate.score is not None
    ]
    ids = [candidate.id for candidate in ranked]
    answers = rung_answers(connection, row, ladder, ids)
    imported = imported_answers(connection, ids)
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    errors = method_errors(connection, row, ladder)
    shown_cards = []
    fits = fits_by_rung(ladder)
    for rank, candidate in enumerate(ranked, start=1):
        own = answers.get(candidate.id, [])
        from_files = imported.get(candidate.id, [])
        highest = at_highest_rung(pooled_by_rung(own, fits))
        stored = geometry(artifacts, own, MAX_GEOMETRY) or subject_of(candidate.kind).geometry(candidate.payload)
        shown_cards.append(
            Card(
                rank,
                candidate,
                *_standing(row, candidate, ladder, from_files),
                depicted(candidate),
                geometry={"text": stored[0], "format": stored[1]} if stored else None,
                series=[series_chart(found) for found in islice(stored_series(artifacts, own), SERIES)],
                headline=[highest[name] for name in wanted if name in highest],
                imported=all_values(from_files),
                margins={margin.property: margin for margin in margins(row, highest, errors)},
                origin=origin_of(connection, candidate),
                answers=[*own, *from_files],
            )
        )
    return shown_cards


def all_values(answers: Sequence[EvidenceAnswer]) -> list[MeasuredAt]:
    pairs = []
    for answer in answers:
        for measured in answer.measured:
            pairs.append((answer, measured))
    return pairs


def _standing(
    row: CampaignRow, candidate: RankedCandidate, ladder: Sequence[RungRow], imported: Sequence[EvidenceAnswer]
) -> tuple[str, str, str | None]:
    """Returns the fields status, kind and contradicted of `Card`. imported: imported values of the candidate."""
    words_of_status = status(candidate, ladder)
    kind = kind_of(candidate.standing, candidate.hit)
    against = contradiction(row, candidate, candidate.hit, imported)
    if against is None:
        return words_of_status, kind, None
    return f"{words_of_status}{CONTRADICTED}", "contradicted" if candidate.hit else kind, against


def status(candidate: RankedCandidate, ladder: Sequence[RungRow]) -> str:
    """Returns a few words: that it is a hit, which limit it failed, or which rung it has reached."""
    rung = ladder[candidate.position].name
    settled = candidate.standing == Standing.SETTLED
    if candidate.hit:
        return "hit"
    if candidate.standing in (Standing.HELD, Standing.VETOED):
        return f"{'held' if candidate.standing == Standing.HELD else 'taken out'} by a person at {rung}"
    if candidate.reason == Reason.SAME_STRUCTURE:
        return f"fell at {rung}: {candidate.detail}"
    if candidate.reason:
        missed = missed_property(candidate.reason, candidate.detail)
        subject = f"{words(missed)} " if missed else ""
        return f"{'verified: ' if settled else f'fell at {rung}: '}{subject}{words(candidate.reason)}"
    if settled:
        return "verified"
    return f"not verified yet: waits for {rung}" if candidate.standing == Standing.OPEN else f"runs at {rung}"


def depicted(candidate: RankedCandidate) -> str:
    """Returns the structure as SVG; an empty text if it cannot be drawn."""
    return drawn(candidate.kind, candidate.drawn_from)


CONTRADICTED = ", contradicted by a measurement"
"""End of the status of a candidate whose verdict a measurement contradicts."""


@dataclass(frozen=True)
class Table:
    """The table of the best candidates; replicates are pooled."""

    columns: list[TableColumn]
    """Imported values come first."""
    rows: list[list[Any]]
    """Cells of each row as JSON values; see `table`."""
    pictures: dict[str, str]
    """{first 12 digits of the key: drawing as SVG} of the first PICTURES molecules."""
    near_edge: int
    """Number of hits that lie within one standard uncertainty of a limit."""
    doubtful: int
    """Number of hits that lie nearer to a limit than the mean absolute error of the method."""
    judged: int
    """Number of hits for which the error of the method is known."""
    imported: list[tuple[RankedCandidate, list[MeasuredAt]]]

    @property
    def contradicted_misses(self) -> int:
        """Number of candidates that missed limits although a measured value lies inside them."""
        return sum(row[2].endswith(CONTRADICTED) and row[3] != "contradicted" for row in self.rows)

    @property
    def named(self) -> bool:
        """Whether a candidate of the table has a name."""
        return any(row[NAME] for row in self.rows)

    @property
    def levels(self) -> dict[str, list[str]]:
        """{level: the columns that hold its values}."""
        by_level: dict[str, list[str]] = {}
        for rung, name, _, level in self.columns:
            by_level.setdefault(level, []).append(f"{words(name)} at {rung}" if rung else f"measured {words(name)}")
        return by_level


def table(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], n: int = ROWS) -> Table:
    """Returns the table of the n best candidates.

    A row is rank, text, status, kind, utility, score, in_seeds, inchikey, key, name, then [value, text] or None for
    each column. The columns are the properties of objectives and gates: imported values, then every rung that measured
    them, highest rung first.
    """
    ranked = best_candidates(connection, row, n)
    rows = []
    known = []
    hits = []
    columns = set[TableColumn]()
    for start in range(0, len(ranked), PAGE):
        page = _Page(connection, row, ladder, ranked[start : start + PAGE])
        columns |= page.columns
        known += page.imported_values()
        hits += page.hits()
        rows += [page.row(rank, c) for rank, c in enumerate(page.ranked, start=start + 1)]
    shown = _ordered(row, ladder, columns)
    cells = [[*fixed, *(at.get((rung, name, level)) for rung, name, _, level in shown)] for fixed, at in rows]
    return Table(shown, cells, _pictures(ranked[:PICTURES]), *_near_limits(connection, row, ladder, hits), known)


class _Page:
    """Some rows of the table, with the evidence that they need."""

    def __init__(
        self, connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], ranked: Sequence[RankedCandidate]
    ) -> None:
        self.ranked = ranked
        self._row = row
        self._ladder = ladder
        ids = [candidate.id for candidate in ranked]
        fits = fits_by_rung(ladder)
        self._imported = imported_answers(connection, ids)
        answers = rung_answers(connection, row, ladder, ids)
        self._answers = {id_: pooled_by_rung(own, fits) for id_, own in answers.items()}
        self._wanted = named_order(row.spec)
        self._by_people = {id_: pooled_by_rung(own, {}) for id_, own in self._imported.items()}

    @property
    def columns(self) -> set[TableColumn]:
        answers = chain.from_iterable((*self._by_people.values(), *self._answers.values()))
        shown_columns = set()
        for answer in answers:
            for m in answer.measured:
                if m.property in self._wanted:
                    shown_columns.add((answer.rung, m.property, m.quantity.unit, m.level.label))
        return shown_columns

    def row(self, rank: int, c: RankedCandidate) -> tuple[list[Any], Mapping[tuple[str, str, str], list[Any]]]:
        """Returns the first cells of a row, and [value, text] by (rung, property, level)."""
        measured = all_values([*self._by_people.get(c.id, ()), *self._answers.get(c.id, ())])
        at = {
            (a.rung, m.property, m.level.label): [m.quantity.value, value(m, unit=False)]
            for a, m in measured
            if m.property in self._wanted
        }
        status_and_kind = _standing(self._row, c, self._ladder, self._imported.get(c.id, ()))[:2]
        fixed = (rank, c.text, *status_and_kind, c.utility, c.score, c.in_seeds)
        return [*fixed, c.inchikey or "", c.key[:12], c.name], at

    def hits(self) -> list[Mapping[str, MeasuredAt]]:
        """Returns the highest values of each hit."""
        return [at_highest_rung(self._answers.get(c.id, ())) for c in self.ranked if c.hit]

    def imported_values(self) -> list[tuple[RankedCandidate, list[MeasuredAt]]]:
        return [(c, all_values(self._imported[c.id])) for c in self.ranked if c.id in self._imported]


def _pictures(ranked: Sequence[RankedCandidate]) -> dict[str, str]:
    drawings = {candidate.key[:12]: depicted(candidate) for candidate in ranked}
    return {key: svg for key, svg in drawings.items() if svg}


def _near_limits(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], hits: Sequence[Mapping[str, MeasuredAt]]
) -> tuple[int, int, int]:
    """Returns the fields near_edge, doubtful and judged of `Table`. hits: the highest values of each hit."""
    errors = method_errors(connection, row, ladder)
    of_hits = [margins(row, values, errors) for values in hits]
    near = sum(any(m.margin <= (m.repeatability or -math.inf) for m in of_hit) for of_hit in of_hits)
    doubtful = sum(any(m.is_clear() is False for m in of_hit) for of_hit in of_hits)
    return near, doubtful, sum(any(m.method for m in of_hit) for of_hit in of_hits)


def _ordered(row: CampaignRow, ladder: Sequence[RungRow], columns: Iterable[TableColumn]) -> list[TableColumn]:
    """Returns the columns of the table: imported values first, then the highest rung first."""
    wanted = list(named_order(row.spec))
    position = {"": len(ladder)} | {rung.name: rung.position for rung in ladder}
    return sorted(columns, key=lambda c: (-position[c[0]], wanted.index(c[1]), c[3]))[:COLUMNS]


def named_order(spec: Mapping[str, Any]) -> dict[str, None]:
    """Returns the properties that a spec names as an ordered set: those of the objectives, then those of the gates."""
    names = [o["property"] for o in spec.get("objectives", ())]
    return dict.fromkeys(names + [name for rung in spec.get("ladder", ()) for name in rung.get("gate", {})])
