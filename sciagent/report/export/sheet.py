"""Tables of candidates as files: CSV, an Excel workbook, and one CSV file per series.

The columns of the objectives come first. A workbook has numbers as numbers, texts never as formulas, and pictures of
the best molecules. Series are those of candidates, such as powder patterns and spectra.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.domain.evidence import Measured
from sciagent.domain.quantities import Censoring
from sciagent.errors import SciagentError, UsageError, did_you_mean
from sciagent.report.parts.series_charts import StoredSeries, stored_series
from sciagent.report.parts.table import (
    FIXED,
    IMPORTED,
    PAGE,
    PROPOSAL,
    Entry,
    MeasuredColumn,
    columns,
    entries,
    harmless,
    name_columns,
    proposals,
)
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.candidates import RankedCandidate, candidate_pages, ids_best_first, rung_answers

ALL = "all"
FIRST = ("hit", "utility")
SHORT = ("rung", "reason", "inchikey")
ABOUT = {
    "kind": "subject of the campaign",
    "text": "canonical SMILES of a molecule, formula and space group of a crystal",
    "smiles": "structure",
    "formula": "sum formula",
    "hit": "whether every objective is met at the terminal rung",
    "utility": "geometric mean of the desirabilities; 1 is best",
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


def chosen_columns(connection: Connection, row: CampaignRow, asked: str | None) -> list[SheetColumn]:
    """Returns the columns of a campaign's table, objectives first.

    asked: None for the names, the structure, the objectives and what became of the candidate; `all`; or names with
    commas, such as `smiles,dft.homo_lumo_gap,logp`. A property stands for all rungs that measured it. Raises UsageError
    for an unknown name.
    """
    named = name_columns(connection, row)
    measured = _objectives_first(row, columns(connection, row))
    known = [*named, *FIXED, *(f"{c.rung}.{c.name}" for c in measured), *(c.property for c in measured)]
    complete = asked is not None and asked.strip() == ALL
    made: dict[str, SheetColumn] = {}
    for name in _names(row, named, measured, complete) if asked is None or complete else asked.split(","):
        if (stripped := name.strip()) in known:
            of_name = _columns(connection, row, stripped, named, measured, complete)
            made |= {column.heading: column for column in of_name}
        elif stripped:
            listed = ", ".join(dict.fromkeys(known))
            hint = did_you_mean(stripped, known)
            raise UsageError(f'--columns: there is no "{stripped}"{hint}; there are: {listed}')
    return list(made.values())


def _names(row: CampaignRow, named: Sequence[str], measured: Sequence[MeasuredColumn], complete: bool) -> list[str]:
    """Returns the names of the columns of the short or the complete table."""
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    structure = "smiles" if row.spec["subject"] == MOLECULE_KIND else "text"
    first = [*named, structure, *FIRST, *(f"{c.rung}.{c.name}" for c in measured if c.property in wanted)]
    others = [name for name in FIXED if name not in (structure, *FIRST)] + [f"{c.rung}.{c.name}" for c in measured]
    return first + (others if complete else list(SHORT))


def _columns(
    connection: Connection,
    row: CampaignRow,
    name: str,
    named: Sequence[str],
    measured: Sequence[MeasuredColumn],
    complete: bool,
) -> Iterator[SheetColumn]:
    """Yields the columns that a name stands for. complete: whether each value has a column for its censoring."""
    if name in named:
        yield SheetColumn(name, "name in the input file", lambda entry: entry.named.get(name) or None)
    elif name in FIXED:
        yield SheetColumn(name, ABOUT.get(name, ""), lambda entry: entry.fixed[name])
    for column in measured:
        if name in (f"{column.rung}.{column.name}", f"{column.rung}.{column.property}", column.property):
            yield from _measured(column, complete or _is_censored(connection, row, column))


def _objectives_first(row: CampaignRow, measured: Sequence[MeasuredColumn]) -> list[MeasuredColumn]:
    """Returns the columns of objectives' properties, the highest rung first and imported values last, then the others
    in ladder order."""
    wanted = [o["property"] for o in row.spec.get("objectives", ())]
    order = sorted(reversed(measured), key=lambda column: column.rung == IMPORTED)
    first = list[MeasuredColumn]()
    for name in wanted:
        first.extend(column for column in order if column.property == name)
    return [*first, *(c for c in measured if c not in first)]


def _measured(column: MeasuredColumn, with_censoring: bool) -> Iterator[SheetColumn]:
    """Yields the columns of a value: the value, its uncertainty, its censoring if asked for, and its level."""
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


def _cell(place: tuple[str, str], of_value: Callable[[Measured], Any], entry: Entry) -> Any:
    measured = entry.values.get(place)
    return None if measured is None else of_value(measured)


def _censoring(measured: Measured) -> str | None:
    side = measured.quantity.censoring
    return None if side is Censoring.NONE else str(side)


def _is_censored(connection: Connection, row: CampaignRow, column: MeasuredColumn) -> bool:
    """Returns whether a value of the property, of any source, is only a limit for a candidate of the campaign."""
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
    asked: str | None = ALL,
    hits: bool = False,
) -> int:
    """Writes a row per candidate in order of arrival, or per proposal. Returns the number of rows.

    asked: see `chosen_columns`. hits: whether only hits are written. A measured value has a column
    `rung.property [unit]`, followed by its uncertainty, censoring and level.
    """
    of_proposals = chain([PROPOSAL], ([*proposal.values()] for proposal in proposals(connection, row)))
    n = 0
    writer = csv.writer(file)
    for n, line in enumerate(of_proposals if proposed else _lines(connection, row, asked, hits)):  # noqa: B007
        writer.writerow([harmless(cell) for cell in line])
    return n


def _lines(connection: Connection, row: CampaignRow, asked: str | None, hits: bool) -> Iterator[Sequence[Any]]:
    """Yields the headings, then the cells of each candidate."""
    wanted = chosen_columns(connection, row, asked)
    yield [column.heading for column in wanted]
    for entry in entries(connection, row, columns(connection, row), hits=hits):
        yield [column.cell(entry) for column in wanted]


PICTURES = 500  # rows with a picture, the best first
MOST = 1_000_000  # rows of a worksheet
WIDTH = 180
HEIGHT = 130  # pixels of a picture
_MAX_TEXT = 32_000  # characters of a cell


def write_excel(
    connection: Connection, row: CampaignRow, path: Path, asked: str | None = None, hits: bool = False
) -> int:
    """Writes the candidates, the best first, and a second sheet that explains the columns. Returns the number of rows.

    asked: see `chosen_columns`. Raises UsageError for more candidates than a worksheet holds.
    """
    import xlsxwriter

    wanted = chosen_columns(connection, row, asked)
    lines = []
    for entry in entries(connection, row, columns(connection, row), hits=hits):
        lines.append((entry.candidate.id, entry.candidate.text, [column.cell(entry) for column in wanted]))
        if len(lines) > MOST:
            raise UsageError(f"a worksheet holds {MOST} candidates; write a .csv or .parquet file, or take --hits")
    ranks = {id_: rank for rank, id_ in enumerate(ids_best_first(connection, row, hits))}
    lines.sort(key=lambda line: ranks[line[0]])
    options = {"strings_to_formulas": False, "strings_to_urls": False, "strings_to_numbers": False}
    with xlsxwriter.Workbook(str(path), options) as book:
        book.set_properties({"title": row.name, "comments": f"sciagent {__version__}, spec {row.spec_hash}"})
        _candidates(book, row, wanted, [(text, cells) for _, text, cells in lines])
        _explanations(book, row, wanted)
    return len(lines)


def _candidates(
    book: Any, row: CampaignRow, wanted: Sequence[SheetColumn], lines: Sequence[tuple[str, list[Any]]]
) -> None:
    sheet = book.add_worksheet("candidates")
    bold = book.add_format({"bold": True, "text_wrap": True, "valign": "top"})
    middle = book.add_format({"valign": "vcenter"})
    pictures = row.spec["subject"] == MOLECULE_KIND
    headings = [*(["structure"] if pictures else []), *(column.heading for column in wanted)]
    for place, heading in enumerate(headings):
        sheet.write_string(0, place, heading, bold)
        sheet.set_column(place, place, 26 if heading == "structure" else min(40, max(12, len(heading) * 0.6)), middle)
    for n, (text, cells) in enumerate(lines, start=1):
        if pictures and n <= PICTURES and (image := png(text)):
            sheet.set_row_pixels(n, HEIGHT + 4)
            where = {"image_data": io.BytesIO(image), "x_offset": 2, "y_offset": 2, "object_position": 1}
            sheet.insert_image(n, 0, "structure.png", where | {"description": text})
        for place, cell in enumerate(cells, start=int(pictures)):
            sheet.write(n, place, cell[:_MAX_TEXT] if isinstance(cell, str) else cell)
    sheet.freeze_panes(1, 2 if pictures else 1)
    sheet.autofilter(0, 0, max(len(lines), 1), max(len(headings) - 1, 0))


def _explanations(book: Any, row: CampaignRow, wanted: Sequence[SheetColumn]) -> None:
    sheet = book.add_worksheet("columns")
    sheet.set_column(0, 1, 60)
    facts = [("campaign", row.name), ("state", str(row.state)), ("written by", f"sciagent {__version__}"), ("", "")]
    for n, pair in enumerate([*facts, *((column.heading, column.about) for column in wanted)]):
        for place, text in enumerate(pair):
            sheet.write_string(n, place, text)


def png(text: str) -> bytes | None:
    """Returns the picture of a molecule; None if it cannot be drawn. text: SMILES."""
    from rdkit import Chem
    from rdkit.Chem.Draw import rdMolDraw2D

    from sciagent.chemistry.molecule import parse_molecule

    try:
        mol = rdMolDraw2D.PrepareMolForDrawing(Chem.RemoveHs(parse_molecule(text).mol), kekulize=True)
        drawer = rdMolDraw2D.MolDraw2DCairo(WIDTH, HEIGHT)
        options: Any = drawer.drawOptions()
        options.fixedBondLength = 22
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
    n = 0
    for page in candidate_pages(connection, row, PAGE, hits):
        n += sum(1 for _ in series_files(connection, row, artifacts, page, folder))
    return n


def series_files(
    connection: Connection,
    row: CampaignRow,
    artifacts: ArtifactStore,
    candidates: Sequence[RankedCandidate],
    folder: Path,
) -> Iterator[SeriesFile]:
    """Writes the series of these candidates and yields them; the names are made from keys, rungs and evidence."""
    answers = rung_answers(connection, row, rungs(connection, row.id), [candidate.id for candidate in candidates])
    for candidate in candidates:
        taken: set[str] = set()
        for stored in stored_series(artifacts, answers.get(candidate.id, [])):
            rung = re.sub(r"\W", "_", stored.answer.rung)
            name = f"{candidate.key[:16]}-{rung}"
            name = name if name not in taken else f"{name}-{stored.answer.key[:8]}-{len(taken)}"
            taken.add(name)
            path = folder / f"{name}.csv"
            with path.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(stored.series.rows())
            yield SeriesFile(path, candidate, stored)
