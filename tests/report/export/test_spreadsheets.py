"""The columns of a table of candidates: objectives first, short by default, chosen by name."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import openpyxl
import pytest

from sciagent.domain.quantities import Censoring
from sciagent.errors import UsageError
from sciagent.report.export.spreadsheets import TableSelection, chosen_columns, write_csv, write_excel
from sciagent.report.parts.export_rows import FIXED_COLUMNS
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates
from tests.support.reported import GFN2, PBE0, Maker, gap


def table(made: Maker, asked: str | None = None, hits: bool = False) -> list[dict[str, str]]:
    text = io.StringIO()
    with made.ledger.read() as connection:
        n = write_csv(connection, made.row, text, selection=TableSelection(asked, hits))
    rows = list(csv.DictReader(io.StringIO(text.getvalue())))
    assert len(rows) == n
    return rows


def test_the_short_table_has_the_objectives_first_the_highest_rung_before_the_others(told: Maker) -> None:
    rows = table(told)
    headings = list(rows[0])
    assert headings[:5] == ["smiles", "hit", "p_hit", "expected_utility", "p_limits"]
    assert headings[5:7] == ["r2.homo_lumo_gap [eV]", "r2.homo_lumo_gap [eV] uncertainty"]
    assert [h for h in headings if h.endswith("level")] == [
        "r2.homo_lumo_gap [eV] level",
        "r1.homo_lumo_gap [eV] level",
        "imported.homo_lumo_gap [eV] level",
    ]
    assert headings[-3:] == ["rung", "reason", "inchikey"] and "r0.molecular_weight [g/mol]" not in headings
    assert len(rows) == 12 and float(rows[0]["r2.homo_lumo_gap [eV]"]) == 4.3
    assert headings[-5:-3] == ["homo_lumo_gap margin [eV]", "homo_lumo_gap method error [eV]"]
    assert float(rows[0]["homo_lumo_gap margin [eV]"]) == pytest.approx(0.3), "below 4.6 eV"
    assert {row["homo_lumo_gap method error [eV]"] for row in rows} == {""}, "not known"
    assert float(rows[0]["p_limits"]) == pytest.approx(0.9772, abs=1e-4), "4.40 ± 0.10 was measured: Φ(2)"
    assert {row["p_limits"] for row in rows[1:]} == {""}


def test_all_columns_are_all_and_each_once(told: Maker) -> None:
    with told.ledger.read() as connection:
        headings = [column.heading for column in chosen_columns(connection, told.row, "all")]
    assert len(headings) == len(set(headings)) and set(FIXED_COLUMNS) <= set(headings)
    assert {f"{name} [eV] censoring" for name in ("r1.homo_lumo_gap", "r2.homo_lumo_gap")} <= set(headings)


def test_columns_are_chosen_by_name_in_the_order_given(told: Maker) -> None:
    rows = table(told, "molecular_weight, smiles,r1.homo_lumo_gap", hits=True)
    assert next(iter(rows[0])).endswith(".molecular_weight [g/mol]") and len(rows) == 2
    assert "smiles" in rows[0] and not any(heading.startswith("r2.") for heading in rows[0])
    with (
        told.ledger.read() as connection,
        pytest.raises(UsageError, match='there is no "homo_gap"; did you mean "homo_'),
    ):
        chosen_columns(connection, told.row, "homo_gap")


def test_names_come_first_and_a_limit_is_marked_as_one(own_ledger: Ledger, tmp_path: Path) -> None:
    """A name that a spreadsheet would run as a formula is quoted."""
    made = Maker(own_ledger, tmp_path)
    made.enter(("CCO", "CCN"))
    made.answer(0, 1, gap(2.0, GFN2))
    made.answer(0, 2, gap(4.0, PBE0, censoring=Censoring.BELOW))
    with own_ledger.begin() as connection:
        candidates.enter_names(
            connection, made.row.id, [(made.ids[0], {"id": "=cmd|' /C calc'!A0"}), (made.ids[1], {"id": "-2+3"})]
        )
    rows = table(made)
    assert [row["name"] for row in rows] == ["'=cmd|' /C calc'!A0", "'-2+3"]
    assert rows[0]["r2.homo_lumo_gap [eV] censoring"] == "below" and rows[0]["r1.homo_lumo_gap [eV] censoring"] == ""


def test_each_row_of_a_file_has_a_line_with_its_own_cells_and_numbers_as_numbers(
    own_ledger: Ledger, tmp_path: Path
) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("CCO", "CCN", "CCC"))
    made.answer(0, 2, gap(4.0, PBE0))
    with own_ledger.begin() as connection:
        names = [
            (made.ids[0], {"id": "007", "price": "12.5"}),
            (made.ids[0], {"id": "A-2", "price": "-30"}),
            (made.ids[1], {"id": "A-3", "price": "on request"}),
        ]
        candidates.enter_names(connection, made.row.id, names)
        text = io.StringIO()
        n = write_csv(connection, made.row, text, selection=TableSelection("smiles", rows=True))
        write_excel(connection, made.row, tmp_path / "a.xlsx", TableSelection("smiles,hit", rows=True))
    lines = list(csv.reader(io.StringIO(text.getvalue())))
    expected = [["007", "12.5", "CCO"], ["A-2", "-30", "CCO"], ["A-3", "on request", "CCN"], ["", "", "CCC"]]
    assert (n, lines[0], lines[1:]) == (4, ["id", "price", "smiles"], expected)
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["candidates"]
    cells = {row[3:0:-1] for row in sheet.iter_rows(min_row=2, values_only=True)}
    assert ("CCO", 12.5, "007") in cells, "an identifier stays a text"
    assert ("CCO", -30, "A-2") in cells
