"""The rows of exports: candidates with their values, and proposals. They are read in pages, so that memory never
holds all of them.

`columns` and `entries` give the table of candidates, `proposals` that of the proposals; `write_jsonl` writes either.
`geometry` reads the last geometry that a candidate's evidence has stored.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import IO, Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.chemistry.subjects.registry_and_candidate_dispatch import subject_of
from sciagent.domain.answers.candidate_and_value_answers import LimitMargin, plain
from sciagent.domain.answers.explanation import FilterStory
from sciagent.domain.candidate_and_its_names_in_files import Candidate, identifier_text, name_cells, smiles_of
from sciagent.domain.display_units import chosen_unit_of
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import properties
from sciagent.domain.quantities import Censoring
from sciagent.errors import InvalidCandidateError, SciagentError
from sciagent.report.parts.candidate_stories import CandidateStories
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.results.candidates import name_fields, names_of
from sciagent.store.results.evidence import IMPORT_VERIFIER
from sciagent.store.views import report_queries
from sciagent.store.views.report_candidates import (
    EvidenceAnswer,
    RankedCandidate,
    candidate_pages,
    imported_answers,
    is_of_rung,
    pooled_by_rung,
)

PAGE_ROWS = 500  # rows that are read together
IMPORTED = "imported"  # stands for imported values in place of a rung's label
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")  # first characters of what spreadsheets take for a formula
CIF_FORMAT = "cif"
GEOMETRY_FORMATS = {"chemical/x-xyz": "xyz", "chemical/x-cif": CIF_FORMAT}
MAX_GEOMETRY = 2_000_000  # bytes of a geometry file
FATE_COLUMNS = ("status", "reason", "detail", "text", "candidate", "operation", "rationale", "predicted")
PROPOSAL_COLUMNS = ("id", "at", "turn", "proposer", *FATE_COLUMNS, "chance", "propensity", "name")
STRUCTURE_COLUMNS = ("kind", "text", "smiles", "formula")
FIXED_COLUMNS = (
    "key", *STRUCTURE_COLUMNS, "inchikey", "standing", "rung", "verdict", "reason", "detail", "hit", "contradicted",
    "utility", "p_hit", "expected_utility", "p_limits", "basis", "in_seeds",
)  # fmt: skip
"""Columns of the table of candidates that every campaign has."""


@dataclass(frozen=True)
class MeasuredColumn:
    """A property as a rung measured it, or as it was imported."""

    rung: str
    """Label of the rung; `imported` for imported values."""
    property: str
    unit: str
    """Unit of the values: the one that the campaign chose, else the canonical one."""
    level: str
    """Label of the level."""
    name: str
    """Name of the property, with `@level` if the rung measured it at several levels."""
    description: str


@dataclass(frozen=True)
class Entry:
    """A candidate with its answers."""

    candidate: RankedCandidate
    answers: list[EvidenceAnswer]
    """All evidence of the candidate: from the campaign's rungs, then from files. Replicates are separate, and no value
    is calibrated."""
    values: dict[tuple[str, str], Measured]
    """{(rung, column name): value}; replicates are pooled, and values of calibrated rungs are calibrated."""
    named: Mapping[str, str]
    """Cells of the columns `name_columns`; empty texts for a candidate without names."""
    fixed: Mapping[str, Any]
    """Cells of FIXED_COLUMNS."""
    margins: Mapping[str, LimitMargin]
    """{property: distance of the deciding rung's value from the limits of its objective}."""


def name_columns(connection: Connection, row: CampaignRow) -> list[str]:
    """Returns the columns with the names of input files; none if no candidate of the campaign has a name."""
    return list(name_cells({}, name_fields(connection, row.id)))


def columns(connection: Connection, row: CampaignRow) -> list[MeasuredColumn]:
    """Returns a column for each property and level that the campaign's rungs measured, in ladder order, then those of
    imported values."""
    measured: list[MeasuredColumn] = []
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    lv = t.level.c
    cc = t.campaign_candidate.c
    sources = [(rung.name, rung.fits, is_of_rung(rung)) for rung in rungs(connection, row.id)]
    sources.append((IMPORTED, {}, e.verifier == IMPORT_VERIFIER))
    for label, fits, condition in sources:
        query = (
            sa.select(p.name, p.unit, p.description, lv.label)
            .distinct()
            .select_from(t.quantity)
            .join(t.property_, p.id == q.property_id)
            .join(t.level, lv.id == q.level_id)
            .join(t.current_evidence, e.id == q.evidence_id)
            .join(t.campaign_candidate, cc.candidate_id == e.candidate_id)
            .where(cc.campaign_id == row.id, condition)
            .order_by(p.name, lv.label)
        )
        rows = connection.execute(query).all()
        n_levels = Counter(name for name, _, _, _ in rows)
        for name, canonical_unit, description, raw_level in rows:
            level = raw_level
            if name in fits:  # the rung's values are calibrated
                level = fits[name].level_of(raw_level)
            column_name = name if n_levels[name] == 1 else f"{name}@{level}"
            unit = row.units.get(name, canonical_unit)
            measured.append(MeasuredColumn(label, name, unit, level, column_name, description))
    return measured


def entries(
    connection: Connection, row: CampaignRow, wanted: Sequence[MeasuredColumn], last: int = -1, hits: bool = False
) -> Iterator[Entry]:
    """Yields the candidates in order of arrival, or only the hits, in the order of `best`.

    wanted: columns whose values an entry has. hits: whether only hits are wanted. last: sequence number after which to
    start, unless hits are wanted; -1 for all.
    """
    ladder = rungs(connection, row.id)
    rung_labels = {rung.position: rung.name for rung in ladder}
    column_names = {(column.rung, column.property, column.level): column.name for column in wanted}
    fields = name_fields(connection, row.id)
    stories = CandidateStories(connection, row, ladder)
    for page in candidate_pages(connection, row, PAGE_ROWS, hits, last):
        imported = imported_answers(connection, [candidate.id for candidate in page], row.units)
        for story in stories.of(page):
            candidate = story.candidate
            from_files = [answer._replace(rung=IMPORTED) for answer in imported.get(candidate.id, ())]
            values = {}
            for answer in (*story.pooled, *pooled_by_rung(from_files, {}, {})):
                for measured in answer.measured:
                    source = (answer.rung, measured.property, measured.level.label)
                    if source in column_names:
                        values[answer.rung, column_names[source]] = measured
            # `smiles`, `rung`, `contradicted` and `p_limits` are no attributes of a candidate
            fixed = {name: getattr(candidate, name, None) for name in FIXED_COLUMNS}
            fixed["smiles"] = smiles_of(candidate.kind, candidate.text)
            fixed["rung"] = rung_labels.get(candidate.position)
            fixed["contradicted"] = story.contradicted
            fixed["p_limits"] = story.certainty.p_limits
            margins = {margin.property: margin for margin in story.certainty.margins}
            answers = [*story.answers, *from_files]
            yield Entry(candidate, answers, values, name_cells(candidate.names, fields), fixed, margins)


@dataclass(frozen=True)
class MarginColumn:
    """A column on the certainty of an objective's value."""

    name: str
    """Name of the column, such as `dipole margin [D]`."""
    unit: str
    description: str
    cell: Callable[[Entry], float | None]


def margin_columns(row: CampaignRow) -> list[MarginColumn]:
    """Returns the columns `margin` and `method error` of each objective with limits."""
    columns_of_objectives = []
    for objective in row.spec.get("objectives", ()):
        if objective.get("accept") in (None, [None, None]):
            continue
        name = objective["property"]
        unit = chosen_unit_of(name, row.units) if name in properties() else objective["unit"]
        parts: tuple[tuple[str, str, Callable[[LimitMargin], float | None]], ...] = (
            ("margin", "distance from the nearest limit; negative outside", lambda margin: margin.margin),
            ("method error", "mean absolute error of the method; empty where it is not known", _method_error),
        )
        for part, description, of_margin in parts:
            cell = partial(_margin_cell, name, of_margin)
            columns_of_objectives.append(MarginColumn(f"{name} {part} [{unit}]", unit, description, cell))
    return columns_of_objectives


def _margin_cell(name: str, of_margin: Callable[[LimitMargin], float | None], entry: Entry) -> float | None:
    """Returns the number of an objective; None without a distance from its limits."""
    return of_margin(entry.margins[name]) if name in entry.margins else None


def _method_error(margin: LimitMargin) -> float | None:
    return None if margin.method is None else margin.method.mean_absolute_error


def nested(entry: Entry) -> dict[str, dict[str, Any]]:
    """Returns {rung: {property: value with uncertainty, unit and level}} for JSON."""
    by_rung: dict[str, dict[str, Any]] = {a.rung: {} for a in entry.answers}
    for (rung, name), measured in entry.values.items():
        quantity = measured.quantity
        cell: dict[str, Any] = {field: getattr(quantity, field) for field in ("value", "uncertainty", "unit")}
        cell["level"] = measured.level.label
        if quantity.as_typed is not None:
            cell["as_typed"] = quantity.as_typed
        if quantity.censoring is not Censoring.NONE:
            cell["censoring"] = str(quantity.censoring)
        by_rung[rung][name] = cell
    return by_rung


def write_jsonl(
    connection: Connection,
    row: CampaignRow,
    file: IO[str],
    proposed: bool = False,
    hits: bool = False,
    artifacts: ArtifactStore | None = None,
) -> int:
    """Writes a line per candidate, or per proposal. Returns the number of lines.

    The line of a crystal has its cell under `structure`. artifacts: with relaxed cells; without them, all cells are as
    proposed.
    """
    objects: Iterator[Mapping[str, Any]]
    if proposed:
        objects = proposals(connection, row)
    else:
        found = entries(connection, row, columns(connection, row), hits=hits)
        objects = (_line(entry, artifacts) for entry in found)
    n_lines = 0
    for line in objects:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        n_lines += 1
    return n_lines


def _line(entry: Entry, artifacts: ArtifactStore | None) -> Mapping[str, Any]:
    """Returns the line of a candidate."""
    line = {
        **entry.fixed,
        "names": entry.candidate.names,
        "values": nested(entry),
        "margins": plain(tuple(entry.margins.values())),
    }
    cell = cell_of(entry, artifacts)
    return line if cell is None else {**line, "structure": cell}


AS_PROPOSED = "as proposed"
"""Origin of a structure that no rung has relaxed."""


def placed_candidate(entry: Entry, artifacts: ArtifactStore | None) -> tuple[Candidate, str]:
    """Returns the candidate with the cell that a rung stored last, and the origin of the cell.

    Without such a cell it is the candidate as it was proposed. Raises InvalidCandidateError if its payload cannot be
    read.
    """
    subject = subject_of(entry.candidate.kind)
    stored = None if artifacts is None else geometry(artifacts, entry.answers)
    if stored is not None and stored[1] == CIF_FORMAT:
        text, _, answer = stored
        with suppress(InvalidCandidateError):
            return subject.read(text), f"{answer.rung}, evidence {answer.key}"
    return subject.restored(entry.candidate.payload), AS_PROPOSED


def cell_of(entry: Entry, artifacts: ArtifactStore | None) -> Mapping[str, Any] | None:
    """Returns the cell of a crystal as JSON with its origin, `source`; None for a candidate without a cell."""
    subject = subject_of(entry.candidate.kind)
    if not subject.relaxed_file:
        return None
    candidate, source = placed_candidate(entry, artifacts)
    cell = subject.cell(candidate)
    return None if cell is None else {"source": source, **cell}


def harmless(cell: Any) -> Any:
    """Returns the cell, quoted if it is a text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell


def geometry(
    artifacts: ArtifactStore, answers: Sequence[EvidenceAnswer], max_bytes: int = MAX_GEOMETRY
) -> tuple[str, str, EvidenceAnswer] | None:
    """Returns (text, `xyz` or `cif`, answer) of the last stored geometry; None without one or if its file is gone."""
    for answer in reversed(answers):
        for _, sha256, size, media_type in answer.files:
            if media_type not in GEOMETRY_FORMATS or size > max_bytes:
                continue
            try:
                text = artifacts.get(sha256).decode("utf-8", errors="replace")
            except SciagentError:
                continue
            return text, GEOMETRY_FORMATS[media_type], answer
    return None


def proposals(connection: Connection, row: CampaignRow) -> Iterator[Mapping[str, Any]]:
    """Yields the proposals by status, then by arrival; each has the cells of PROPOSAL_COLUMNS.

    `candidate` is the candidate's key, `predicted` a JSON text, and `name` the identifiers that the candidate has in
    the campaign's files. A refused text has its names in `detail`. `chance` and `propensity` are those of a filter:
    the chance to be a hit that its law said, and the probability with which the proposal went on.
    """
    rows = report_queries.proposals(connection, row)
    while page := list(islice(rows, PAGE_ROWS)):
        candidate_ids = [candidate_id for candidate_id, *_ in page if candidate_id is not None]
        names = names_of(connection, candidate_ids, [row.id])
        for candidate_id, *values, decision in page:
            name = identifier_text(names.get(candidate_id, {}))
            said = FilterStory.of(decision)
            of_filter = [None, None] if said is None else [said.chance, said.propensity]
            proposal = dict(zip(PROPOSAL_COLUMNS, [*values, *of_filter, name], strict=True))
            proposal["at"] = proposal["at"].isoformat()
            predicted = proposal["predicted"]
            proposal["predicted"] = json.dumps(predicted, ensure_ascii=False) if predicted else None
            yield proposal
