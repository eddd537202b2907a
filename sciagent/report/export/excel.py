"""A campaign as an Excel workbook: numbers as numbers, texts never as formulas, and pictures of the best molecules."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.candidates import MOLECULE_KIND
from sciagent.errors import SciagentError, UsageError
from sciagent.report.export.sheet import SheetColumn, chosen_columns
from sciagent.report.parts.table import columns, entries
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views.candidates import ids_best_first

PICTURES = 500  # rows with a picture, the best first
MOST = 1_000_000  # rows of a worksheet
WIDTH, HEIGHT = 180, 130  # pixels of a picture
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
