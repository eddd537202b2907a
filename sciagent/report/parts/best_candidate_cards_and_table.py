"""The best candidates of a report: `cards` with structure, geometry, values, lineage and provenance, and the
`table`. Imported values were measured elsewhere and are read from a file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import drawn, subject_of
from sciagent.domain.answers.candidate_and_value_answers import same_compound_text
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.outcomes_verdicts_and_reasons import LIKE_ANOTHER
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import SURE_PERCENT, percent_of
from sciagent.errors import InvalidCandidateError
from sciagent.report.parts.candidate_stories import CandidateStories, CandidateStory
from sciagent.report.parts.export_rows import CIF_FORMAT, geometry
from sciagent.report.parts.margins_and_method_errors import Certainty
from sciagent.report.parts.series_charts import SeriesChart, series_chart, stored_series
from sciagent.report.parts.wording import MEANS, is_by_measurement, mean_note, missed_property, value, words
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.progress_and_comparisons import kind_of
from sciagent.store.views.report_candidates import (
    MEASURED_LABEL,
    EvidenceAnswer,
    MeasuredAt,
    Origin,
    RankedCandidate,
    best_candidates,
    origin_of,
    pooled_by_rung,
)

MAX_CARDS = 12
MAX_TABLE_ROWS = 10_000  # rows of the table
PAGE_ROWS = 500  # rows of the table that are read at once
MAX_DRAWINGS = 300  # rows of the table with a drawing
MAX_VALUE_COLUMNS = 14  # columns of the table besides those that every campaign has
# places of cells in a row of the table
KIND_PLACE = 3
NAME_PLACE = 9
MAX_SERIES = 2  # charts of series on a card
KEY_DIGITS = 12  # digits of a candidate's key in the table and its drawings
MAX_GEOMETRY = 100_000  # bytes of one XYZ file
CONTRADICTED = ", contradicted by a measurement"
"""End of the status of a candidate whose verdict an imported value contradicts."""


"""A value and the answer that holds it."""
TableColumn = tuple[str, str, str, str]
"""(rung, property, unit, level); an empty text for the rung of imported values."""


@dataclass(frozen=True)
class Card:
    """A card of a top candidate."""

    rank: int
    candidate: RankedCandidate
    status: str
    """The status in a few words; see `status`."""
    kind: str
    """`hit`, `contradicted`, `verified`, `open` or `fallen`."""
    contradicted: str | None
    """The imported values that contradict the verdict, as a sentence; None if none does."""
    same_compound: str
    """The other hits of the same compound, as a clause; empty if there are none."""
    drawing: str
    """SVG; empty if it cannot be drawn."""
    geometry: Mapping[str, str] | None
    """`text` of a geometry file, and its `format`; None without a geometry."""
    series: list[SeriesChart]
    """Charts of the candidate's series, such as powder patterns; the series of the highest rungs."""
    headline: list[MeasuredAt]
    """Value of each objective's property at the highest rung that measured it; replicates are pooled."""
    imported: list[MeasuredAt]
    """Imported values."""
    certainty: Certainty
    """How certain it is that it meets the limits."""
    origin: Origin
    answers: list[EvidenceAnswer]
    """All evidence of the candidate, with separate replicates; imported values come last."""

    @property
    def isomers(self) -> list[str]:
        """A sentence for each stereoisomer that the headline's values were computed for; none where no stereo is
        undefined."""
        isomers = [measured.quantity.isomer for _, measured in self.headline]
        return list(dict.fromkeys(str(isomer) for isomer in isomers if isomer is not None))

    def mean(self, answer: EvidenceAnswer, measured: Measured) -> str:
        """Returns what a headline's value and its ± are, if the value is the mean of several measurements; else an
        empty text."""
        kind = measured.quantity.uncertainty_kind
        if kind not in MEANS:
            return ""
        label = "" if answer.rung == MEASURED_LABEL else answer.rung  # imported values have no rung
        n = 0
        for own in self.answers:
            if own.rung == label:
                n += any(value.property == measured.property for value in own.measured)
        return mean_note(kind, n)

    def distance(self, name: str) -> str:
        """Returns the distance of a property's value from its limits in words; empty without one."""
        return next((str(margin) for margin in self.certainty.margins if margin.property == name), "")


def cards(
    connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], artifacts: ArtifactStore, n: int
) -> list[Card]:
    """Returns the cards of the n best candidates; a candidate without a worth has no card."""
    best = best_candidates(connection, row, n)
    ranked = [candidate for candidate in best if candidate.chance is not None]
    objective_names = [objective["property"] for objective in row.spec.get("objectives", ())]
    shown_cards = []
    for rank, story in enumerate(CandidateStories(connection, row, ladder).of(ranked), start=1):
        candidate = story.candidate
        status_text, kind, contradicted = _standing(story, ladder)
        first_series = islice(stored_series(artifacts, story.answers), MAX_SERIES)
        shown_cards.append(
            Card(
                rank,
                candidate,
                status_text,
                kind,
                contradicted,
                same_compound=same_compound_text(story.same_compound, candidate.hit),
                drawing=depicted(candidate),
                geometry=_shown_geometry(artifacts, candidate, story.answers),
                series=[series_chart(stored) for stored in first_series],
                headline=[story.values[name] for name in objective_names if name in story.values],
                imported=all_values(story.imported),
                certainty=story.certainty,
                origin=origin_of(connection, candidate),
                answers=[*story.answers, *story.imported],
            )
        )
    return shown_cards


def _shown_geometry(
    artifacts: ArtifactStore, candidate: RankedCandidate, answers: Sequence[EvidenceAnswer]
) -> Mapping[str, str] | None:
    """Returns the field geometry of `Card`: from an answer, else as proposed. answers: of the candidate's rungs."""
    subject = subject_of(candidate.kind)
    found = geometry(artifacts, answers, MAX_GEOMETRY) or subject.geometry(candidate.payload)
    if found and found[1] == CIF_FORMAT:  # a stored CIF has one site of each orbit, and the view applies no symmetry
        with suppress(InvalidCandidateError):
            found = subject.geometry(subject.read(found[0]).payload())
    if not found:
        return None
    text = found[0]
    file_format = found[1]
    return {"text": text, "format": file_format}


def all_values(answers: Sequence[EvidenceAnswer]) -> list[MeasuredAt]:
    """Returns each value with its answer."""
    pairs = []
    for answer in answers:
        for measured in answer.measured:
            pairs.append((answer, measured))
    return pairs


def _standing(story: CandidateStory, ladder: Sequence[RungRow]) -> tuple[str, str, str | None]:
    """Returns the fields status, kind and contradicted of `Card`."""
    candidate = story.candidate
    words_of_status = status(candidate, ladder)
    kind = kind_of(candidate.standing, candidate.hit)
    against = story.contradicted
    if against is None:
        return words_of_status, kind, None
    if candidate.hit:
        kind = "contradicted"
    return f"{words_of_status}{CONTRADICTED}", kind, against


def status(candidate: RankedCandidate, ladder: Sequence[RungRow]) -> str:
    """Returns a few words: that the candidate is a hit, which limit it failed, or which rung it has reached."""
    rung = ladder[candidate.position].name
    is_settled = candidate.standing == Standing.SETTLED
    if candidate.hit:
        return "hit"
    if candidate.standing == Standing.HELD:
        return f"held by a person at {rung}"
    if candidate.standing == Standing.VETOED:
        return f"taken out by a person at {rung}"
    if candidate.reason in LIKE_ANOTHER:
        return f"fell at {rung}: {candidate.detail}"
    if candidate.reason:
        missed = missed_property(candidate.reason, candidate.detail)
        subject = f"{words(missed)} " if missed else ""
        end = "verified" if is_settled else f"fell at {rung}"
        if is_by_measurement(candidate.detail):
            end = "fell by a measured value"
        return f"{end}: {subject}{words(candidate.reason)}"
    if is_settled:
        return "verified"
    if candidate.standing == Standing.OPEN:
        return f"not verified yet: waits for {rung}"
    return f"runs at {rung}"


def depicted(candidate: RankedCandidate) -> str:
    """Returns the structure as SVG; an empty text if it cannot be drawn."""
    return drawn(candidate.kind, candidate.drawn_from)


@dataclass
class HitsInDoubt:
    """Numbers of hits that may be misses. A hit is near a limit if it lies within its repeatability (k = 1) of one."""

    by_method: int = 0
    """Hits whose P(limits) is below `SURE_PERCENT`."""
    by_method_near: int = 0
    """Those of them that are near a limit."""
    by_measurement: int = 0
    """Those of them that have an experimental value, from which P(limits) comes."""
    unknown: int = 0
    """Hits whose P(limits) is unknown."""
    unknown_near: int = 0
    """Those of them that are near a limit."""
    unknown_measured: int = 0
    """Those of them that have an experimental value without an uncertainty."""

    def add(self, certain: Certainty) -> None:
        """Counts a hit."""
        # an unknown repeatability or 0 is no reason to call a hit near
        near = [margin for margin in certain.margins if margin.repeatability and margin.margin <= margin.repeatability]
        if certain.p_limits is None:
            self.unknown += 1
            self.unknown_near += bool(near)
            self.unknown_measured += any(name in certain.measured for name in certain.unknown)
        elif 100 * certain.p_limits < SURE_PERCENT:
            self.by_method += 1
            self.by_method_near += bool(near)
            self.by_measurement += bool(certain.measured)


@dataclass(frozen=True)
class Table:
    """The table of the best candidates; replicates are pooled."""

    columns: list[TableColumn]
    """Columns of values: imported values first, then the highest rung first."""
    rows: list[list[Any]]
    """Cells of each row as JSON values; see `table`."""
    pictures: dict[str, str]
    """{first KEY_DIGITS digits of the key: drawing as SVG} of the first MAX_DRAWINGS candidates."""
    doubts: HitsInDoubt
    """The hits that may be misses."""
    imported: list[tuple[RankedCandidate, list[MeasuredAt]]]
    """The candidates that have imported values, with these values."""
    contradicted_misses: int
    """Number of candidates that missed limits although an imported value lies inside them."""

    @property
    def named(self) -> bool:
        """Whether a candidate of the table has a name."""
        return any(row[NAME_PLACE] for row in self.rows)

    @property
    def levels(self) -> dict[str, list[str]]:
        """{level: the columns that hold its values}."""
        by_level: dict[str, list[str]] = {}
        for rung, name, _, level in self.columns:
            column = f"{words(name)} at {rung}" if rung else f"measured {words(name)}"
            by_level.setdefault(level, []).append(column)
        return by_level


def table(connection: Connection, row: CampaignRow, ladder: Sequence[RungRow], n: int = MAX_TABLE_ROWS) -> Table:
    """Returns the table of the n best candidates.

    A row is rank, text, status, kind, expected utility, [P(hit), text] or None, in_seeds, inchikey, key, name, then
    [value, text] or None for each column. The columns are the properties of objectives and gates: imported values,
    then every rung that measured them, highest rung first.
    """
    ranked = best_candidates(connection, row, n)
    unordered_rows = []
    imported = []
    stories = CandidateStories(connection, row, ladder)
    doubts = HitsInDoubt()
    n_contradicted_misses = 0
    columns = set[TableColumn]()
    for start in range(0, len(ranked), PAGE_ROWS):
        page = _Page(row, ladder, stories.of(ranked[start : start + PAGE_ROWS]))
        columns.update(page.columns)
        imported += page.imported_values()
        page.count_doubts(doubts)
        for rank, story in enumerate(page.stories, start=start + 1):
            first_cells, value_cells, is_contradicted = page.row(rank, story)
            unordered_rows.append((first_cells, value_cells))
            if is_contradicted and not story.candidate.hit:
                n_contradicted_misses += 1
    ordered_columns = _ordered(row, ladder, columns)
    rows = []
    for first_cells, value_cells in unordered_rows:
        ordered_cells = [value_cells.get((rung, name, level)) for rung, name, _, level in ordered_columns]
        rows.append([*first_cells, *ordered_cells])
    drawings = _drawings(ranked[:MAX_DRAWINGS])
    return Table(
        ordered_columns, rows, drawings, doubts=doubts, imported=imported, contradicted_misses=n_contradicted_misses
    )


class _Page:
    """Some rows of the table, with the evidence of their candidates."""

    def __init__(self, row: CampaignRow, ladder: Sequence[RungRow], stories: Sequence[CandidateStory]) -> None:
        self.stories = stories
        self._ladder = ladder
        self._wanted = properties_of_spec(row.spec)
        self._pooled_imported = {
            story.candidate.id: pooled_by_rung(story.imported, {}, row.limits) for story in stories
        }

    @property
    def columns(self) -> set[TableColumn]:
        """The columns in which a candidate of these rows has a value."""
        of_rungs = [story.pooled for story in self.stories]
        answers = chain.from_iterable((*self._pooled_imported.values(), *of_rungs))
        shown_columns = set()
        for answer in answers:
            for measured in answer.measured:
                if measured.property in self._wanted:
                    unit = measured.quantity.unit
                    shown_columns.add((answer.rung, measured.property, unit, measured.level.label))
        return shown_columns

    def row(self, rank: int, story: CandidateStory) -> tuple[list[Any], Mapping[tuple[str, str, str], list[Any]], bool]:
        """Returns the first cells of a row, [value, text] by (rung, property, level), and whether an imported value
        contradicts the verdict."""
        candidate = story.candidate
        imported = self._pooled_imported[candidate.id]
        value_cells: dict[tuple[str, str, str], list[Any]] = {}
        for answer, measured in all_values([*imported, *story.pooled]):
            if measured.property in self._wanted:
                column = (answer.rung, measured.property, measured.level.label)
                value_cells[column] = [measured.quantity.value, value(measured, unit=False)]
        status_text, kind, contradicted = _standing(story, self._ladder)
        p_hit = None if candidate.p_hit is None else [candidate.p_hit, percent_of(candidate.p_hit)]
        first_cells = [
            rank, candidate.text, status_text, kind, candidate.expected_utility, p_hit, candidate.in_seeds,
            candidate.inchikey or "", candidate.key[:KEY_DIGITS], candidate.name,
        ]  # fmt: skip
        return first_cells, value_cells, contradicted is not None

    def count_doubts(self, doubts: HitsInDoubt) -> None:
        """Counts the hits of these rows in `doubts`."""
        for story in self.stories:
            if story.candidate.hit:
                doubts.add(story.certainty)

    def imported_values(self) -> list[tuple[RankedCandidate, list[MeasuredAt]]]:
        """Returns the candidates that have imported values, with these values."""
        return [(story.candidate, all_values(story.imported)) for story in self.stories if story.imported]


def _drawings(ranked: Sequence[RankedCandidate]) -> dict[str, str]:
    """Returns {first digits of the key: SVG}, without candidates that cannot be drawn."""
    drawings = {candidate.key[:KEY_DIGITS]: depicted(candidate) for candidate in ranked}
    return {key: svg for key, svg in drawings.items() if svg}


def _ordered(row: CampaignRow, ladder: Sequence[RungRow], columns: Iterable[TableColumn]) -> list[TableColumn]:
    """Returns the columns of the table: imported values first, then the highest rung first."""
    properties = list(properties_of_spec(row.spec))
    positions = {rung.name: rung.position for rung in ladder}
    positions[""] = len(ladder)  # imported values

    def order(column: TableColumn) -> tuple[int, int, str]:
        rung, name, _, level = column
        return -positions[rung], properties.index(name), level

    return sorted(columns, key=order)[:MAX_VALUE_COLUMNS]


def properties_of_spec(spec: Mapping[str, Any]) -> dict[str, None]:
    """Returns the properties that a spec names as an ordered set: those of the objectives, then those of the gates."""
    names = [objective["property"] for objective in spec.get("objectives", ())]
    for rung in spec.get("ladder", ()):
        names += list(rung.get("gate", {}))
    return dict.fromkeys(names)
