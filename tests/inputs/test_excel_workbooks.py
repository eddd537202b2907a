"""Workbooks: the texts of their cells, and what is refused."""

from __future__ import annotations

import datetime as dt
import io
import tracemalloc
import zipfile
from collections.abc import Iterator, Sequence

import openpyxl
import pytest
import xlsxwriter

from sciagent.errors import InputFileError
from sciagent.inputs import excel_workbooks
from sciagent.inputs.excel_workbooks import RawRow, read_workbook

SHEET = "xl/worksheets/sheet1.xml"


def workbook(*rows: Sequence[object]) -> bytes:
    """A workbook as openpyxl writes it."""
    book = openpyxl.Workbook()
    for cells in rows:
        book.active.append(cells)
    return saved(book)


def saved(book: openpyxl.Workbook) -> bytes:
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def with_part(content: bytes, name: str, part: bytes) -> bytes:
    """The workbook with one of its parts replaced or added."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for each in old.namelist():
            if each != name:
                new.writestr(each, old.read(each))
        new.writestr(name, part)
    return out.getvalue()


def sheet_of(rows: Iterator[str]) -> bytes:
    namespace = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    return f'<worksheet xmlns="{namespace}"><sheetData>{"".join(rows)}</sheetData></worksheet>'.encode()


def read(content: bytes) -> list[RawRow]:
    return list(read_workbook(content, "t.xlsx"))


def test_numbers_have_all_their_digits_and_percentages_their_sign() -> None:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.append(["a", 1 / 3, 17.0, 1e-9, 0.125, 0.125, True, None])
    sheet["B1"].number_format = "0.0"
    sheet["E1"].number_format = "0 %"
    sheet["F1"].number_format = '0.0" %"'  # a sign in quotes is a text beside the number, which is not multiplied
    [row] = read(saved(book))
    assert row.texts == ["a", "0.3333333333333333", "17", "1e-09", "12.5%", "0.125", "TRUE"]
    assert row.numbers == {1, 2, 3, 4, 5} and not row.faults


def test_dates_are_dates() -> None:
    [row] = read(workbook([dt.date(2026, 4, 3), dt.datetime(2026, 4, 3, 9, 30), dt.time(9, 30)]))
    assert row.texts == ["2026-04-03", "2026-04-03 09:30:00", "09:30:00"] and row.dates == {0, 1, 2}


def test_a_formula_counts_with_its_saved_value() -> None:
    out = io.BytesIO()
    with xlsxwriter.Workbook(out) as book:
        sheet = book.add_worksheet()
        sheet.write_formula("A1", "=2+2", value=4)
        sheet.write_formula("B1", "=1/0", value="#DIV/0!")
        sheet.write_formula("C1", '=WEBSERVICE("http://example.org")', value="text")
    [row] = read(out.getvalue())
    assert row.texts == ["4", "#DIV/0!", "text"]
    assert list(row.faults) == [1] and "#DIV/0!: the formula has no value" in row.faults[1]


def test_a_formula_without_a_saved_value_is_a_fault_of_its_cell() -> None:
    rows = read(workbook(["a"], [1, "=1+1"]))
    assert rows[1].texts == ["1", ""] and "the formula has no saved value" in rows[1].faults[1]


def test_empty_rows_keep_the_numbers_of_the_others() -> None:
    book = openpyxl.Workbook()
    book.active["B2"] = "x"
    book.active["A7"] = "y"
    assert [(row.number, row.texts) for row in read(saved(book))] == [(2, ["", "x"]), (7, ["y"])]


def test_a_hidden_sheet_is_passed_over() -> None:
    book = openpyxl.Workbook()
    book.active["A1"] = "hidden"
    book.create_sheet("shown")["A1"] = "shown"
    book.active.sheet_state = "hidden"
    assert [row.texts for row in read(saved(book))] == [["shown"]]


def test_a_size_that_is_stated_too_small_hides_no_row() -> None:
    content = workbook(["a", "b"], [1, 2])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        part = archive.read(SHEET).replace(b'ref="A1:B2"', b'ref="A1:A1"')
    assert [row.texts for row in read(with_part(content, SHEET, part))] == [["a", "b"], ["1", "2"]]


def test_a_zip_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = with_part(workbook(["a"]), SHEET, b" " * 201_000_000)
    assert len(bomb) < 300_000
    with pytest.raises(InputFileError, match="unpacks to more than 200,000,000 bytes"):
        read(bomb)


def test_a_million_rows_are_refused() -> None:
    rows = (f'<row r="{n}"><c r="A{n}"><v>1</v></c></row>' for n in range(1, 1_000_001))
    with pytest.raises(InputFileError, match="more than 200,000 rows with the empty ones"):
        read(with_part(workbook(["a"]), SHEET, sheet_of(rows)))


def test_rows_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel_workbooks, "MAX_ROWS", 2)
    assert len(read(workbook(["a"], [1], [None], [2]))) == 3
    with pytest.raises(InputFileError, match="more than 2 rows; split the file"):
        read(workbook(["a"], [1], [2], [3]))


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ('<row r="999999999999"><c r="A1"><v>1</v></c></row>', "beyond row 1,048,576"),
        ('<row r="1"><c r="ZZZ1"><v>1</v></c></row>', "beyond column 200"),
        ('<row r="x"><c r="A1"><v>1</v></c></row>', "damaged"),
        ('<row r="1"><c r="A1" t="s"><v>77</v></c></row>', "damaged"),
        ('<row r="1"><c r="A1"><v>1</v>', "damaged"),
        (f'<row r="1"><c r="{"A" * 5000}1"><v>1</v></c></row>', "damaged"),
    ],
)
def test_a_forged_worksheet_is_refused(row: str, says: str) -> None:
    with pytest.raises(InputFileError, match=says):
        read(with_part(workbook(["a"]), SHEET, sheet_of(iter([row]))))


def test_macros_entities_and_other_archives_are_refused() -> None:
    content = workbook(["a"])
    with pytest.raises(InputFileError, match="has macros; save it as"):
        read(with_part(content, "xl/vbaProject.bin", b"x"))
    entity = b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]><worksheet/>'
    with pytest.raises(InputFileError, match="not as Excel writes it"):
        read(with_part(content, SHEET, entity))
    with pytest.raises(InputFileError, match="not as Excel writes it"):
        read(with_part(content, SHEET, entity.decode().encode("utf-16")))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
    with pytest.raises(InputFileError, match="no Excel workbook, whatever its name says"):
        read(out.getvalue())
    with pytest.raises(InputFileError, match="or a damaged one"):
        read(content[: len(content) // 2])


@pytest.mark.parametrize(
    ("part", "xml", "says"),
    [
        (SHEET, b"<worksheet><sheetData>" + b"<a>" * 3_000_000, "has elements in 100 others"),
        (SHEET, b"<worksheet><sheetData><row>" + b"<c/>" * 3_000_000, "a row with more than 200,000 elements"),
        (SHEET, b"<worksheet><sheetData>" + b"<a/>" * 3_000_000, "more than 100,000 elements"),
        (SHEET, b"<worksheet><sheetData><row><c><v>" + b"1" * 17_000_000, "more than 16,000,000 bytes without a row"),
        ("xl/styles.xml", b"<styleSheet>" + b"<row/>" * 3_000_000, "more than 100,000 elements"),
        ("xl/sharedStrings.xml", b"<sst>" + b"<si/>" * 3_000_000, "more than 200,000 elements"),
        ("xl/styles.xml", b"<styleSheet>" + b"<a b='' c='' d='' e='' f=''/>" * 20_000, "more than 100,000 elements"),
        (SHEET, b"<worksheet " + b"".join(b"a%d='' " % i for i in range(200_000)), "a tag or a comment of more than"),
        (SHEET, b"<worksheet><!--" + b"a" * 3_000_000, "a tag or a comment of more than"),
        ("xl/drawings/drawing1.xml", b"<x:a>" * 3_000_000, "has elements in 100 others"),
    ],
    ids=["nested", "cells", "no rows", "text", "styles", "strings", "attributes", "tag", "comment", "drawing"],
)
def test_a_small_file_that_would_take_much_memory_is_refused_within_a_little(
    monkeypatch: pytest.MonkeyPatch, part: str, xml: bytes, says: str
) -> None:
    monkeypatch.setattr(excel_workbooks, "MAX_ELEMENTS", 100_000)  # a tenth, since memory is measured slowly
    monkeypatch.setattr(excel_workbooks, "MAX_STRINGS", 200_000)
    content = with_part(workbook(["a"], [1]), part, xml)
    assert len(content) < 700_000
    tracemalloc.start()
    with pytest.raises(InputFileError, match=says):
        read(content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30_000_000


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("[Content_Types].xml", b"/xl/workbook.xml", b"/xl/worksheets/sheet1.xml"),
        ("[Content_Types].xml", b"/xl/workbook.xml", b"/xl/texts.bin"),
        ("xl/_rels/workbook.xml.rels", b"/relationships/worksheet", b"/relationships/chartsheet"),
        ("xl/_rels/workbook.xml.rels", b"sheet1.xml", b"sheet1.bin"),
    ],
)
def test_no_part_is_read_under_the_limits_of_another(part: str, old: bytes, new: bytes) -> None:
    content = workbook(["a"], [1])
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        xml = archive.read(part)
    assert old in xml
    with pytest.raises(InputFileError, match="has a sheet under a name that Excel does not give"):
        read(with_part(content, part, xml.replace(old, new)))


def test_a_link_to_a_page_about_worksheets_is_no_sheet() -> None:
    book = openpyxl.Workbook()
    book.active.append(["a"])
    book.active["A1"].hyperlink = "https://example.org/worksheets/1"
    assert [row.texts for row in read(saved(book))] == [["a"]]


def test_a_cell_longer_than_excel_allows_is_a_fault() -> None:
    row = f'<row r="1"><c r="A1" t="inlineStr"><is><t>{"x" * 40_000}</t></is></c></row>'
    [read_row] = read(with_part(workbook(["a"]), SHEET, sheet_of(iter([row]))))
    assert read_row.faults == {0: "the cell has 40,000 characters; 32,767 are the most"} and read_row.texts == [""]
