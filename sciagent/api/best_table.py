"""The table of the best candidates in terminals, notebooks and pipes, and the lines of notes below it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Self

from rich.table import Table
from sqlalchemy.engine import Connection

from sciagent.api import notebook_html
from sciagent.api.notebook_tables import Cells, ResultTable, plain_records
from sciagent.api.terminal_tables_and_signals import records_table
from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import (
    BestCandidate,
    ImportedValue,
    LimitMargin,
    RungValue,
    ShownValue,
    isomer_lines,
    same_compound_text,
)
from sciagent.domain.candidate_and_its_names_in_files import name_cells, standardised_notes
from sciagent.domain.objectives import UTILITY_FLOOR
from sciagent.domain.outcomes_verdicts_and_reasons import LIKE_ANOTHER
from sciagent.domain.states_and_needs import Standing
from sciagent.domain.worth import percent_of
from sciagent.report.parts.wording import MEANS, missed_property, repeatability_text, uncertainties_text
from sciagent.report.status_best_trace import best
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views.report_candidates import MEASURED_LABEL

MAX_NAMED = 3  # candidates that a line names


class BestTable(ResultTable[BestCandidate]):
    """The best candidates with a display in terminals and notebooks.

    A level that all rows share stands in the title and has no column. The standing of a
    candidate that is not decided yet is its probability to be a hit. Imported values of an objective's property have a
    column if a candidate has just one.
    """

    properties: Sequence[str]
    """Properties of the objectives, one column each."""

    plain: Cells[BestCandidate]
    """Returns the cells of a row for a file or a pipe, with level and chance of a hit."""

    @classmethod
    def of(cls, candidates: Sequence[BestCandidate], properties: Sequence[str], title: str) -> Self:
        """Returns the table. properties: of the objectives. title: without the level."""
        levels = {_levels(candidate, properties) for candidate in candidates}
        levels.discard("")
        cells = partial(_cells, properties=properties, measured=_measured_columns(candidates, properties))
        has_chances = any(candidate.p_limits is not None for candidate in candidates)
        brief = partial(cells, with_level=len(levels) > 1, is_brief=True, has_chances=has_chances)
        full_title = f"{title} at {levels.pop()}" if len(levels) == 1 else title
        table = cls(candidates, full_title, brief, best_record)
        table.properties = properties
        table.plain = partial(cells, with_level=True)
        return table

    def plain_table(self) -> Table:
        """Returns the rows as a table for a file or a pipe: each uncertainty in a column of its own."""
        return records_table(plain_records([self.plain(row) for row in self]))

    def notes(self) -> Iterator[str]:
        """Yields lines on candidates that miss all ranges, on candidates that relaxed to the structure of another one,
        on hits of one compound, on rows that name a salt or a mixture, on the stereoisomers that were computed, on
        uncertainties, on estimated geometries, on imported values, and on verdicts that a measurement contradicts."""
        yield from self.unranked()
        for candidate in self:
            if candidate.reason in LIKE_ANOTHER:
                yield f"{candidate.label} {candidate.detail}"
        for candidate in self:
            if candidate.same_compound:
                yield f"{candidate.label}: {same_compound_text(candidate.same_compound, candidate.hit)}"
        yield from form_lines(self)
        yield from certainty_lines(self, self.properties)
        yield from chance_by_measurement_lines(self)
        yield from caveat_lines(self)
        measured = _measured_columns(self, self.properties)
        shown = list[ImportedValue]()
        for candidate in self:
            shown.extend(value for value in candidate.imported if _has_column(candidate, value, measured))
        lines = [f"measured {value.property}: {value.level}, from {value.file}" for value in shown]
        yield from dict.fromkeys(lines)  # each line once
        for candidate in self:
            for value in candidate.imported:
                if not _has_column(candidate, value, measured):
                    yield f"{candidate.label}: {value.line()} from {value.file}"
        for candidate in self:
            if candidate.contradicted is not None:
                verdict = "" if candidate.hit else f" ({candidate.detail})"
                yield f"contradicted by a measurement: {candidate.label}{verdict}: {candidate.contradicted}"

    def unranked(self) -> Iterator[str]:
        """Yields a line if several candidates have the lowest utility, so that the order among them is by distance."""
        rounding = 1e-9  # relative error by which a utility may be above the floor
        floor = UTILITY_FLOOR * (1 + rounding)
        utilities = [candidate.utility for candidate in self if candidate.utility is not None]
        n_lowest = len([utility for utility in utilities if utility <= floor])
        if n_lowest > 1:
            yield (
                f"{n_lowest} candidates have the lowest utility, {UTILITY_FLOOR:g}: their values lie too far outside "
                "what the objectives ask for; those that lie least far outside come first; state limits that the "
                "values can reach, in a campaign of another name"
            )


def best_of(connection: Connection, row: CampaignRow, n: int) -> BestTable:
    """Returns the n best candidates."""
    rows = best(connection, row, n)
    return BestTable.of(rows, objectives_of(row.spec), f"The best of {row.name}")


def _cells(
    candidate: BestCandidate,
    properties: Sequence[str],
    measured: MeasuredColumns,
    with_level: bool,
    is_brief: bool = False,
    has_chances: bool = False,
) -> Mapping[str, Any]:
    """Returns the cells of a row. measured: levels whose imported values have a column. is_brief: rounds the
    utility, says the probability to be a hit in the standing, and puts a space before each `//` of a level, at which a
    narrow terminal breaks it. has_chances: whether P(limits) of a candidate of the table is known."""
    several_properties = len(properties) > 1
    level = None
    if with_level:
        level = _levels(candidate, properties).replace("//", " //" if is_brief else "//")
    cells: dict[str, Any] = {"name": candidate.name, candidate.column: notebook_html.cell(candidate)}
    utility: Any = candidate.expected_utility
    stands = _stands(candidate, several_properties)
    if is_brief:
        utility = None if utility is None else round(utility, 3)
        if candidate.p_hit not in (None, 0.0, 1.0):
            stands = f"P(hit) {percent_of(candidate.p_hit)}"
    for name in properties:
        cells[name] = _value_cell(candidate, name, is_brief)
        heading = f"measured {name}" if several_properties else "measured"
        cells |= _imported_cells(candidate, name, measured.get(name, ()), heading)
    return {
        **cells,
        "level": level,
        "utility": utility,
        "P(hit)": None if is_brief else candidate.p_hit,
        **nearest_limit(candidate, several_properties),
        "P(limits)": _limits_cell(candidate, is_brief, has_chances),
        "stands": stands,
        "seed": "a seed" if candidate.in_seeds else "",
    }


def _value_cell(candidate: BestCandidate, name: str, is_brief: bool) -> RungValue | str | None:
    """Returns the value of a property. is_brief: as a text that says so if an experimental value decides the
    objective; a table for a file has the level of the value."""
    value = candidate.values.get(name)
    is_measured = is_brief and value is not None and value.rung == MEASURED_LABEL
    return f"{value} (measured)" if is_measured else value


def objectives_of(spec: Mapping[str, Any]) -> list[str]:
    """Returns the properties of the objectives of a campaign."""
    return [objective["property"] for objective in spec["objectives"]]


def _imported_cells(
    candidate: BestCandidate, name: str, levels: Sequence[str], heading: str
) -> dict[str, ImportedValue | str | None]:
    """Returns the cells of a property's imported values, one for each of the levels. heading: of a single column."""
    cells: dict[str, ImportedValue | str | None] = {}
    for level in levels:
        values = [value for value in candidate.imported if (value.property, value.level) == (name, level)]
        of_level = heading if len(levels) == 1 else f"{heading} [{level}]"
        cells[of_level] = f"{len(values)} values" if len(values) > 1 else next(iter(values), None)
    return cells


MeasuredColumns = Mapping[str, Sequence[str]]
"""The levels whose imported values have a column, by property."""


def _measured_columns(candidates: Sequence[BestCandidate], properties: Sequence[str]) -> MeasuredColumns:
    """Returns the properties and levels whose imported values have a column: a candidate has just one."""
    levels: dict[str, dict[str, None]] = {name: {} for name in properties}
    for candidate in candidates:
        counts = Counter((value.property, value.level) for value in candidate.imported)
        for (name, level), n in counts.items():
            if n == 1 and name in levels:
                levels[name][level] = None
    return {name: list(of_property) for name, of_property in levels.items() if of_property}


def _has_column(candidate: BestCandidate, value: ImportedValue, measured: MeasuredColumns) -> bool:
    """Whether an imported value stands in a column, not in a line: it is the candidate's only one at its level.
    measured: as in `_measured_columns`."""
    n_values = sum((other.property, other.level) == (value.property, value.level) for other in candidate.imported)
    return value.level in measured.get(value.property, ()) and n_values == 1


def _levels(candidate: BestCandidate, properties: Sequence[str]) -> str:
    return levels_text({name: candidate.values.get(name) for name in properties})


def levels_text(values: Mapping[str, ShownValue | None]) -> str:
    """Returns the level of the values by property, each level with its properties if there are several; an empty text
    without a value."""
    properties: dict[str, list[str]] = {}
    for name, value in values.items():
        if value is not None:
            properties.setdefault(value.level, []).append(name)
    if len(properties) == 1:
        [only_level] = properties
        return only_level
    return ", ".join(f"{level} ({', '.join(names)})" for level, names in properties.items())


def _stands(candidate: BestCandidate, several_properties: bool) -> str:
    """Returns the standing in a few words. several_properties: name the property that misses its limits."""
    contradicted = ", contradicted" if candidate.contradicted else ""
    if candidate.hit:
        return f"hit{contradicted}"
    reason = (candidate.reason or "").replace("_", " ")
    missed = missed_property(candidate.reason, candidate.detail) if several_properties else ""
    if missed:
        return f"{missed} {reason}{contradicted}"
    if reason or contradicted:
        return f"{reason}{contradicted}"
    if candidate.verified:
        return ""
    return "held" if candidate.standing == Standing.HELD else "open"


def _limits_cell(candidate: BestCandidate, is_brief: bool, has_chances: bool) -> float | str | None:
    """Returns P(limits). is_brief: in words; `unknown` without the names of the objectives, which `notes` give, and
    only beside candidates for which it is known."""
    if not is_brief:
        return candidate.p_limits
    if candidate.p_limits is not None:
        return percent_of(candidate.p_limits)
    return "unknown" if candidate.p_limits_unknown and has_chances else None


def nearest_limit(candidate: BestCandidate, several_properties: bool) -> Mapping[str, str]:
    """Returns the cell `margin`: the distance from the nearest limit, in the unit of the value, negative outside.

    The nearest is the one with the smallest distance in errors: of the method, or, where that is not known, in
    repeatabilities. The cell is missing where no value has a limit. several_properties: whether the cell names the
    property.
    """

    def relative(margin: LimitMargin) -> float:
        """Returns the distance in errors; infinite for an exact value, and where nothing is known of the error."""
        error = margin.method.mean_absolute_error if margin.method else margin.repeatability
        return margin.margin / error if error else math.copysign(math.inf, margin.margin)

    if not candidate.margins:
        return {}
    nearest = min(candidate.margins, key=relative)
    name = f"{nearest.property}: " if several_properties else ""
    return {"margin": f"{name}{nearest.cell()}"}


def certainty_lines(candidates: Sequence[BestCandidate], properties: Sequence[str]) -> Iterator[str]:
    """Yields lines on the meaning of the ± of objectives' values and on the error of the method against experiment.

    Properties with the same text share a line.
    """
    names_by_line: dict[str, list[str]] = {}
    for name in properties:
        labels = dict.fromkeys(candidate.values[name].rung for candidate in candidates if name in candidate.values)
        for rung in labels:
            if rung == MEASURED_LABEL:
                continue
            clauses = [*_repeatability(candidates, name, rung), *_method(candidates, name, rung)]
            if clauses:
                names_by_line.setdefault(f"at {rung}: {'; '.join(clauses)}", []).append(name)
    for line, names in names_by_line.items():
        yield f"{', '.join(names)} {line}"


def form_lines(candidates: Sequence[BestCandidate]) -> Iterator[str]:
    """Yields lines on the rows that name a salt or a mixture, then on the stereoisomers that were computed."""
    for candidate in candidates:
        for name, note in standardised_notes(candidate.names).items():
            yield f"{name or 'the row of the file'} names another form than {candidate.text}: {note}"
    for candidate in candidates:
        for line in isomer_lines(candidate.values.values()):
            yield f"{candidate.label}: {line}"


def caveat_lines(candidates: Sequence[BestCandidate]) -> Iterator[str]:
    """Yields a line on all candidates whose proposed geometry is an estimate of the same kind."""
    labels_by_caveat: dict[str, list[str]] = {}
    for candidate in candidates:
        caveat = subject_of(candidate.kind).caveat(candidate.drawn_from or candidate.text)
        if caveat:
            labels_by_caveat.setdefault(caveat, []).append(candidate.label)
    for caveat, labels in labels_by_caveat.items():
        yield f"{_first_labels(labels)}: {caveat}"


def chance_by_measurement_lines(candidates: Sequence[BestCandidate]) -> Iterator[str]:
    """Yields a line on all candidates whose P(limits) comes from measured values of the same properties."""
    labels_by_line: dict[str, list[str]] = {}
    for candidate in candidates:
        names = candidate.p_limits_measured
        if names and candidate.p_limits is not None:
            line = f"P(limits) comes from the measured {' and '.join(names)}, not from the method's error"
            labels_by_line.setdefault(line, []).append(candidate.label)
        without_uncertainty = [name for name in candidate.p_limits_unknown if name in names]
        if without_uncertainty:
            line = f"P(limits) is unknown: {' and '.join(without_uncertainty)} was measured without an uncertainty"
            labels_by_line.setdefault(line, []).append(candidate.label)
    for line, labels in labels_by_line.items():
        yield f"{_first_labels(labels)}: {line}"


def _first_labels(labels: Sequence[str]) -> str:
    """Returns the labels of a few candidates, and how many more there are."""
    n_more = len(labels) - MAX_NAMED
    more = f" and {n_more} more" if n_more > 0 else ""
    return f"{', '.join(labels[:MAX_NAMED])}{more}"


def _repeatability(candidates: Sequence[BestCandidate], name: str, rung: str) -> Iterator[str]:
    """Yields a clause on the meaning of the ± of a property at a rung; none without an uncertainty."""
    values = [candidate.values[name] for candidate in candidates if name in candidate.values]
    kinds = {value.uncertainty_kind for value in values if value.rung == rung and value.uncertainty}
    if kinds:
        is_of_one_isomer = any(value.of_one_isomer for value in values if value.rung == rung)
        end = "; a value is that of one isomer where the stereo is undefined" if is_of_one_isomer else ""
        words = subject_of(candidates[0].kind).words
        has_only_means = not kinds.isdisjoint(MEANS) and kinds <= {None, *MEANS}
        text = uncertainties_text(kinds, words) if has_only_means else repeatability_text(one_of(kinds), words)
        yield f"{text}{end}"


def _method(candidates: Sequence[BestCandidate], name: str, rung: str) -> Iterator[str]:
    """Yields a clause on the method's error for a property at a rung; none for an exact descriptor of the structure,
    and none without limits."""
    margins = []
    for candidate in candidates:
        for margin in candidate.margins:
            if (margin.property, margin.rung) == (name, rung):
                margins.append(margin)
    if not margins or all(margin.repeatability == 0 for margin in margins):
        return
    yield from dict.fromkeys(str(margin.method) for margin in margins if margin.method)
    yield from dict.fromkeys(
        f"the method's error is {margin.method_unknown}" for margin in margins if margin.method_unknown
    )


def one_of(kinds: set[str | None]) -> str | None:
    """Returns the only kind; None for several or none."""
    if len(kinds) != 1:
        return None
    [only_kind] = kinds
    return only_kind


def best_record(candidate: BestCandidate) -> Mapping[str, Any]:
    """Returns the cells of a best candidate for a data frame."""
    fixed = (
        "hit",
        "contradicted",
        "utility",
        "p_hit",
        "expected_utility",
        "p_limits",
        "basis",
        "verified",
        "in_seeds",
        "reason",
        "key",
    )
    cells: dict[str, Any] = {candidate.column: candidate.text}
    cells |= {name: getattr(candidate, name) for name in fixed}
    cells = name_cells(candidate.names, fields=tuple(candidate.names)) | cells
    for name, value in candidate.values.items():
        cells[name] = value.value
        for part in ("uncertainty", "unit", "level"):
            cells[f"{name} {part}"] = getattr(value, part)
    return cells
