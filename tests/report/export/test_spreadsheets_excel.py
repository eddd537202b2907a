"""The Excel workbook, read back by another library: numbers are numbers, texts are texts, pictures are there."""

from __future__ import annotations

from pathlib import Path

import openpyxl

from sciagent.report.export.spreadsheets import TableSelection, png, write_excel
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support.reported import GFN2, Maker, gap


def test_a_workbook_has_numbers_pictures_and_an_explanation_of_its_columns(told: Maker, tmp_path: Path) -> None:
    with told.ledger.read() as connection:
        assert write_excel(connection, told.row, tmp_path / "a.xlsx") == 12
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    sheet = book["candidates"]
    headings = [cell.value for cell in sheet[1]]
    first = dict(zip(headings, (cell.value for cell in sheet[2]), strict=True))
    assert first["smiles"] == "c1ccccc1" and first["hit"] is True
    assert first["r2.homo_lumo_gap [eV]"] == 4.3 and first["r2.homo_lumo_gap [eV] uncertainty"] == 0.03
    assert len(sheet._images) == 12 and sheet.freeze_panes == "C2" and sheet.auto_filter.ref
    utilities = [row[headings.index("expected_utility")].value for row in sheet.iter_rows(min_row=2)]
    hits = [row[headings.index("hit")].value for row in sheet.iter_rows(min_row=2)]
    assert hits == [True] * 2 + [False] * 10 and utilities[0] > utilities[1]  # the best come first
    explained = {row[0].value: row[1].value for row in book["columns"].iter_rows()}
    assert explained["r2.homo_lumo_gap [eV]"] == "PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10"


def test_no_text_becomes_a_formula_or_a_link(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("CCO", "CCN", "CCF"))
    made.answer(0, 1, gap(2.0, GFN2))
    given = ('=HYPERLINK("http://example.org")', "@SUM(1)", "0017")
    with own_ledger.begin() as connection:
        candidates.enter_names(
            connection, made.row.id, [(id_, {"id": text}) for id_, text in zip(made.ids, given, strict=True)]
        )
    with made.ledger.read() as connection:
        write_excel(connection, made.row, tmp_path / "a.xlsx", TableSelection("name,smiles"))
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["candidates"]
    cells = [row[1] for row in sheet.iter_rows(min_row=2)]
    assert sorted(cell.value for cell in cells) == sorted(given)
    assert {cell.data_type for cell in cells} == {"s"} and not any(cell.hyperlink for cell in cells)


def test_what_is_no_molecule_has_no_picture() -> None:
    assert png("NaCl, rock salt") is None and (png("CCO") or b"").startswith(b"\x89PNG")
