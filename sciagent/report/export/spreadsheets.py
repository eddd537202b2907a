"""Writes tables of candidates: as CSV (`write_csv`) or an Excel workbook (`write_excel`), and one CSV file per series.

`chosen_columns` chooses the columns of both tables; the columns of the objectives come first. A workbook has numbers as
numbers, texts never as formulas, and pictures of the best molecules. A series of a candidate is, for example, a powder
pattern or a spectrum.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.candidate_and_its_names_in_files import (
    IMPORTED_PREFIX,
    MOLECULE_KIND,
    identifier_columns,
    source_rows,
)
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.quantities import Censoring
from sciagent.errors import SciagentError, UsageError, did_you_mean
from sciagent.report.parts.export_rows import (
    FIXED_COLUMNS,
    IMPORTED,
    PAGE_ROWS,
    PROPOSAL_COLUMNS,
    Entry,
    MeasuredColumn,
    columns,
    entries,
    harmless,
    margin_columns,
    name_columns,
    proposals,
)
from sciagent.report.parts.series_charts import StoredSeries, stored_series
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.results.candidates import name_fields
from sciagent.store.views.report_candidates import RankedCandidate, candidate_pages, ids_best_first, rung_answers

ALL_COLUMNS = "all"
"""The word by which a user selects every column."""
FIRST_COLUMNS = ("hit", "p_hit", "expected_utility", "p_limits")
"""Fixed columns behind the structure, before the values."""
LAST_COLUMNS = ("rung", "reason", "inchikey")
"""Fixed columns behind the values of the short table."""
DESCRIPTIONS = {
    "kind": "subject of the campaign",
    "text": "canonical SMILES of a molecule, formula and space group of a crystal",
    "smiles": "structure",
    "formula": "sum formula",
    "hit": "whether every objective is met at the terminal rung",
    "utility": "geometric mean of the desirabilities; 1 is best",
    "p_hit": "probability to be a hit at the terminal rung",
    "expected_utility": "utility to expect; the utility, once every objective is answered",
    "p_limits": "probability that the true values meet all limits, by errors of methods or by measured values",
    "basis": "what the probability and the expected utility rest on",
    "contradicted": "measurements that contradict the verdict",
    "rung": "the last rung",
    "reason": "why it is not a hit",
}
"""Descriptions of the fixed columns."""


@dataclass(frozen=True)
class SheetColumn:
    """A column of a table of candidates."""

    heading: str
    """Name of the column, with the unit."""
    about: str
    """The level of measured values; for other columns a description."""
    cell: Callable[[Entry], Any]
    """Returns the cell of a candidate: a number, a text, a truth value or None."""


class TableSelection(NamedTuple):
    """The lines and columns of a table of candidates."""

    columns: str | None
    """Names of columns, as in `chosen_columns`."""
    hits: bool = False
    """Whether only hits are written."""
    rows: bool = False
    """Whether each row of the campaign's files has a line of its own, joined to the results of its candidate."""


COMPLETE = TableSelection(ALL_COLUMNS)
SHORT = TableSelection(columns=None)
# a number as people write it, without leading zeros, which would be an identifier
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(?:\.\d+)?(?:[eE][+-]?\d{1,2})?")


def chosen_columns(
    connection: Connection, row: CampaignRow, asked: str | None, with_names: bool = True
) -> list[SheetColumn]:
    """Returns the columns of a campaign's table, objectives first.

    with_names: whether the names of input files are among them.

    asked: names with commas between them, such as `smiles,dft.homo_lumo_gap,logp`. A property stands for all rungs that
    measured it. `all` asks for every column; None for the names, the structure, the objectives and the fate of the
    candidate. Raises UsageError for an unknown name.
    """
    named = name_columns(connection, row) if with_names else []
    measured = _objectives_first(row, columns(connection, row))
    known = [*named, *FIXED_COLUMNS]
    known += [_label(column) for column in measured]
    known += [column.property for column in measured]
    known += [column.name for column in margin_columns(row)]
    is_complete = asked is not None and asked.strip() == ALL_COLUMNS
    if asked is None or is_complete:
        names = _names(row, named, measured, is_complete)
    else:
        names = [text.strip() for text in asked.split(",") if text.strip()]
    by_heading: dict[str, SheetColumn] = {}
    for name in names:
        if name not in known:
            listed = ", ".join(dict.fromkeys(known))
            hint = did_you_mean(name, known)
            raise UsageError(f'--columns: there is no "{name}"{hint}; there are: {listed}')
        for column in _columns(connection, row, name, named, measured, is_complete):
            by_heading[column.heading] = column
    return list(by_heading.values())


def _label(column: MeasuredColumn) -> str:
    """Returns the name of a measured column, such as `dft.homo_lumo_gap`."""
    return f"{column.rung}.{column.name}"


def _names(row: CampaignRow, named: Sequence[str], measured: Sequence[MeasuredColumn], is_complete: bool) -> list[str]:
    """Returns the names of the columns of the short or the complete table. named: columns with names of input files."""
    wanted = _objectives(row)
    structure = "smiles" if row.spec["subject"] == MOLECULE_KIND else "text"
    names = [*named, structure, *FIRST_COLUMNS]
    names += [_label(column) for column in measured if column.property in wanted]
    names += [column.name for column in margin_columns(row)]
    if not is_complete:
        return [*names, *LAST_COLUMNS]
    names += [name for name in FIXED_COLUMNS if name not in (structure, *FIRST_COLUMNS)]
    return names + [_label(column) for column in measured]


def _objectives(row: CampaignRow) -> list[str]:
    """Returns the properties of the objectives."""
    return [objective["property"] for objective in row.spec.get("objectives", ())]


def _columns(
    connection: Connection,
    row: CampaignRow,
    name: str,
    named: Sequence[str],
    measured: Sequence[MeasuredColumn],
    is_complete: bool,
) -> Iterator[SheetColumn]:
    """Yields the columns that a name stands for. is_complete: whether each value has a column for its censoring."""
    if name in named:
        yield SheetColumn(name, "name in the input file", lambda entry: entry.named.get(name) or None)
    elif name in FIXED_COLUMNS:
        yield SheetColumn(name, DESCRIPTIONS.get(name, ""), lambda entry: entry.fixed[name])
    for of_objective in margin_columns(row):
        if name == of_objective.name:
            yield SheetColumn(name, of_objective.description, of_objective.cell)
    for column in measured:
        if name in (_label(column), f"{column.rung}.{column.property}", column.property):
            with_censoring = is_complete or _is_censored(connection, row, column)
            yield from _measured(column, with_censoring)


def _objectives_first(row: CampaignRow, measured: Sequence[MeasuredColumn]) -> list[MeasuredColumn]:
    """Returns the columns of the objectives' properties, then the others in ladder order. Of a property the highest
    rung comes first, and imported values come last."""
    from_rungs = [column for column in reversed(measured) if column.rung != IMPORTED]
    imported = [column for column in reversed(measured) if column.rung == IMPORTED]
    ordered = list[MeasuredColumn]()
    for name in _objectives(row):
        ordered += [column for column in (*from_rungs, *imported) if column.property == name]
    return ordered + [column for column in measured if column not in ordered]


def _measured(column: MeasuredColumn, with_censoring: bool) -> Iterator[SheetColumn]:
    """Yields the columns of a value: the value, its uncertainty, its censoring if asked for, and its level."""
    # end of the heading: (description, function that returns the cell)
    parts: dict[str, tuple[str, Callable[[Measured], Any]]] = {
        "": (column.level, lambda m: m.quantity.value),
        " uncertainty": (f"standard uncertainty (k = 1) / {column.unit}", lambda m: m.quantity.uncertainty),
        " censoring": ("below or above where it is a limit", _censoring),
        " level": ("", lambda m: m.level.label),
    }
    for part, (about, of_value) in parts.items():
        if part != " censoring" or with_censoring:
            heading = f"{column.rung}.{column.name} [{column.unit}]{part}"
            yield SheetColumn(heading, about, partial(_cell, (column.rung, column.name), of_value))


def _cell(rung_and_name: tuple[str, str], of_value: Callable[[Measured], Any], entry: Entry) -> Any:
    """Returns the cell of a candidate in a measured column; None without a value."""
    measured = entry.values.get(rung_and_name)
    return None if measured is None else of_value(measured)


def _censoring(measured: Measured) -> str | None:
    side = measured.quantity.censoring
    return None if side is Censoring.NONE else str(side)


def _is_censored(connection: Connection, row: CampaignRow, column: MeasuredColumn) -> bool:
    """Returns whether any source gives only a limit of the property for a candidate of the campaign."""
    e = t.current_evidence.c
    q = t.quantity.c
    p = t.property_.c
    cc = t.campaign_candidate.c
    query = (
        sa.select(q.id)
        .join(t.property_, sa.and_(p.id == q.property_id, p.name == column.property))
        .join(t.current_evidence, e.id == q.evidence_id)
        .join(t.campaign_candidate, sa.and_(cc.candidate_id == e.candidate_id, cc.campaign_id == row.id))
        .where(q.censoring != Censoring.NONE)
        .limit(1)
    )
    return connection.execute(query).first() is not None


def write_csv(
    connection: Connection,
    row: CampaignRow,
    file: IO[str],
    proposed: bool = False,
    selection: TableSelection = COMPLETE,
) -> int:
    """Writes a row per candidate in order of arrival, per row of the campaign's files, or per proposal. Returns the
    number of rows.

    A measured value has a column `rung.property [unit]`, followed by its uncertainty, censoring and level.
    """
    lines = _proposal_lines(connection, row) if proposed else _candidate_lines(connection, row, selection)
    writer = csv.writer(file)
    n_lines = 0
    for line in lines:
        writer.writerow([harmless(cell) for cell in line])
        n_lines += 1
    return n_lines - 1  # without the headings


def _proposal_lines(connection: Connection, row: CampaignRow) -> Iterator[Sequence[Any]]:
    """Yields the headings, then the cells of each proposal."""
    yield PROPOSAL_COLUMNS
    for proposal in proposals(connection, row):
        yield list(proposal.values())


def _candidate_lines(connection: Connection, row: CampaignRow, selection: TableSelection) -> Iterator[Sequence[Any]]:
    """Yields the headings, then the cells of each line."""
    row_fields, wanted = _headings(connection, row, selection)
    yield [column.heading for column in (*row_fields.values(), *wanted)]
    for entry in entries(connection, row, columns(connection, row), hits=selection.hits):
        yield from _lines_of(entry, row_fields, wanted)


def _headings(
    connection: Connection, row: CampaignRow, selection: TableSelection
) -> tuple[dict[str, SheetColumn], list[SheetColumn]]:
    """Returns the columns of the rows of files by field, which are none unless each row has a line, and the columns of
    candidates."""
    wanted = chosen_columns(connection, row, selection.columns, with_names=not selection.rows)
    if not selection.rows:
        return {}, wanted
    taken = {column.heading for column in wanted}
    row_fields = {}
    for field in name_fields(connection, row.id):
        if not field.startswith(IMPORTED_PREFIX):
            heading = f"row.{field}" if field in taken else field
            row_fields[field] = SheetColumn(heading, "cell of the row of the input file", lambda _: None)
    return row_fields, wanted


def _lines_of(
    entry: Entry, row_fields: Mapping[str, SheetColumn], wanted: Sequence[SheetColumn]
) -> Iterator[list[Any]]:
    """Yields the lines of a candidate: one for each row of files that names it, else one."""
    cells = [column.cell(entry) for column in wanted]
    rows = source_rows(entry.candidate.names) if row_fields else []
    identifiers = identifier_columns(list(row_fields))
    for source_row in rows or [{}]:
        row_cells = []
        for field in row_fields:
            text = source_row.get(field)
            row_cells.append(text if field in identifiers else _number_or_text(text))
        yield [*row_cells, *cells]


def _number_or_text(text: str | None) -> float | str | None:
    """Returns the number that a cell of a file holds, else its text."""
    if text is None or not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


MAX_PICTURES = 500  # rows with a picture, the best first
MAX_ROWS = 1_000_000  # rows of a worksheet
PICTURE_WIDTH = 180  # pixels
PICTURE_HEIGHT = 130  # pixels
BOND_LENGTH = 22  # pixels
_MAX_CELL_TEXT = 32_000  # characters


def write_excel(connection: Connection, row: CampaignRow, path: Path, selection: TableSelection = SHORT) -> int:
    """Writes the candidates, the best first, and a second sheet that explains the columns. Returns the number of rows.

    Raises UsageError for more lines than a worksheet holds.
    """
    import xlsxwriter

    row_fields, wanted = _headings(connection, row, selection)
    headed = [*row_fields.values(), *wanted]
    lines = []  # (candidate id, structure as text, cells)
    for entry in entries(connection, row, columns(connection, row), hits=selection.hits):
        for cells in _lines_of(entry, row_fields, wanted):
            lines.append((entry.candidate.id, entry.candidate.text, cells))
        if len(lines) > MAX_ROWS:
            raise UsageError(f"a worksheet holds {MAX_ROWS} candidates; write a .csv or .parquet file, or take --hits")
    ranks = {id_: rank for rank, id_ in enumerate(ids_best_first(connection, row, selection.hits))}
    lines.sort(key=lambda line: ranks[line[0]])  # by the candidate's rank
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(str(path), options) as book:
        book.set_properties({"title": row.name, "comments": f"sciagent {__version__}, spec {row.spec_hash}"})
        _candidates(book, row, headed, [(text, cells) for _, text, cells in lines])
        _explanations(book, row, headed)
    return len(lines)


def _candidates(
    book: Any, row: CampaignRow, wanted: Sequence[SheetColumn], lines: Sequence[tuple[str, list[Any]]]
) -> None:
    """Adds the sheet of the candidates. lines: (structure as text, cells) of each row."""
    sheet = book.add_worksheet("candidates")
    bold = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
    middle = book.add_format({"valign": "vcenter"})
    has_pictures = row.spec["subject"] == MOLECULE_KIND
    headings = ["structure"] if has_pictures else []
    headings += [column.heading for column in wanted]
    for place, heading in enumerate(headings):
        width = 26 if heading == "structure" else min(40, max(12, len(heading) * 0.6))  # in characters
        sheet.write_string(0, place, heading, bold)
        sheet.set_column(place, place, width, middle)
    first_place = 1 if has_pictures else 0
    for line_number, (text, cells) in enumerate(lines, start=1):
        if has_pictures and line_number <= MAX_PICTURES:
            _insert_picture(sheet, line_number, text)
        for place, cell in enumerate(cells, start=first_place):
            sheet.write(line_number, place, cell[:_MAX_CELL_TEXT] if isinstance(cell, str) else cell)
    sheet.freeze_panes(1, first_place + 1)
    # first line and column, last line and column; a sheet without rows has a filter over one empty line
    sheet.autofilter(0, 0, max(len(lines), 1), max(len(headings) - 1, 0))


def _insert_picture(sheet: Any, line_number: int, text: str) -> None:
    """Inserts the picture of a molecule into the first column, if it can be drawn. text: SMILES."""
    image = png(text)
    if image is None:
        return
    sheet.set_row_pixels(line_number, PICTURE_HEIGHT + 4)
    # object_position 1: the picture moves with its cell and has the cell's size
    options = {"image_data": io.BytesIO(image), "x_offset": 2, "y_offset": 2, "object_position": 1}
    sheet.insert_image(line_number, 0, "structure.png", options | {"description": text})


def _explanations(book: Any, row: CampaignRow, wanted: Sequence[SheetColumn]) -> None:
    """Adds a sheet with facts about the campaign and the description of each column."""
    sheet = book.add_worksheet("columns")
    sheet.set_column(0, 1, 60)
    pairs = [("campaign", row.name), ("state", str(row.state)), ("written by", f"sciagent {__version__}"), ("", "")]
    pairs += [(column.heading, column.about) for column in wanted]
    for line_number, (name, text) in enumerate(pairs):
        sheet.write_string(line_number, 0, name)
        sheet.write_string(line_number, 1, text)


def png(text: str) -> bytes | None:
    """Returns the picture of a molecule; None if it cannot be drawn. text: SMILES."""
    from rdkit import Chem
    from rdkit.Chem.Draw import rdMolDraw2D

    from sciagent.chemistry.molecule import parse_molecule

    try:
        mol = rdMolDraw2D.PrepareMolForDrawing(Chem.RemoveHs(parse_molecule(text).mol), kekulize=True)
        drawer = rdMolDraw2D.MolDraw2DCairo(PICTURE_WIDTH, PICTURE_HEIGHT)
        options: Any = drawer.drawOptions()
        options.fixedBondLength = BOND_LENGTH
        drawer.DrawMolecule(mol)
        drawer.FinishDrawing()
    except (SciagentError, ValueError, RuntimeError):
        return None
    return bytes(drawer.GetDrawingText())


class SeriesFile(NamedTuple):
    """A series of a candidate, written as csv."""

    path: Path
    candidate: RankedCandidate
    stored: StoredSeries


def write_series(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, folder: Path, hits: bool = False
) -> int:
    """Writes the series of all candidates, or of the hits, into a folder. Returns the number of files."""
    n_files = 0
    for page in candidate_pages(connection, row, PAGE_ROWS, hits):
        written = list(series_files(connection, row, artifacts, page, folder))  # each file is written as it is yielded
        n_files += len(written)
    return n_files


def series_files(
    connection: Connection,
    row: CampaignRow,
    artifacts: ArtifactStore,
    candidates: Sequence[RankedCandidate],
    folder: Path,
) -> Iterator[SeriesFile]:
    """Writes the series of these candidates and yields them. A file is named by the candidate's key and the rung; the
    key of the evidence and a number follow where that name is taken."""
    answers = rung_answers(connection, row, rungs(connection, row.id), [candidate.id for candidate in candidates])
    for candidate in candidates:
        taken_names: set[str] = set()
        for stored in stored_series(artifacts, answers.get(candidate.id, [])):
            rung = re.sub(r"\W", "_", stored.answer.rung)
            name = f"{candidate.key[:16]}-{rung}"
            if name in taken_names:
                name = f"{name}-{stored.answer.key[:8]}-{len(taken_names)}"
            taken_names.add(name)
            path = folder / f"{name}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(stored.series.rows())
            yield SeriesFile(path, candidate, stored)
