"""Tables that people save: their encodings, separators, line ends and decimal signs."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sciagent.errors import InputFileError
from sciagent.inputs.saved_tables import SavedTable, TableRow, open_table, read_table
from tests.inputs.test_excel_workbooks import workbook

GERMAN = "id;value;note\r\n1;4,2;\u00b5 \u2013 3,5 mg\r\n2;0,05;\r\n"
VALUES = [{"id": "1", "value": "4.2", "note": "\u00b5 \u2013 3,5 mg"}, {"id": "2", "value": "0.05", "note": ""}]


def table(text: str | bytes, name: str = "t.csv", wanted: tuple[str, ...] = ()) -> SavedTable:
    return open_table(text if isinstance(text, bytes) else text.encode(), name, wanted)


def rows(text: str | bytes, numbers: tuple[str, ...] = ("value",)) -> list[TableRow]:
    return list(table(text).rows(numbers))


def read(column: str, separator: str = ";") -> list[tuple[str, str]]:
    """(text, first words of the fault) of the cells of a column, which are separated by blanks here."""
    cells = [f'"{cell}"' for cell in column.split()]
    lines = [f"id{separator}value", *(f"1{separator}{cell}" for cell in cells)]
    return [(row.cells["value"], row.faults.get("value", "").partition(";")[0]) for row in rows("\n".join(lines))]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_each_encoding_of_excel_gives_the_same_rows(encoding: str) -> None:
    assert [row.cells for row in rows(GERMAN.encode(encoding))] == VALUES
    big_endian = b"\xfe\xff" + GERMAN.encode("utf-16-be")
    assert [row.cells for row in rows(big_endian)] == VALUES


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
@pytest.mark.parametrize("separator", [";", "\t"])
def test_line_ends_and_separators_give_the_same_rows(end: str, separator: str) -> None:
    text = GERMAN.replace("\r\n", end).replace(";", separator)
    assert [row.cells for row in rows(text)] == VALUES
    assert [row.cells for row in rows(f"sep={separator}{end}{text}")] == VALUES


def test_the_header_alone_tells_the_separator() -> None:
    [row] = rows("smiles,value\nC;C;C;C,4.2\n")
    assert row.cells == {"smiles": "C;C;C;C", "value": "4.2"}
    assert table('"a;b",value\n').header == ["a;b", "value"]
    mixed = "smiles,logS (mol/L; 25 C; pH 7),note\n"
    assert table(mixed, wanted=("smiles",)).header == ["smiles", "logS (mol/L; 25 C; pH 7)", "note"]
    assert table("value\n1\n").header == ["value"]


def test_a_column_is_read_with_one_decimal_sign() -> None:
    assert read("1.234,5 1,234 7") == [("1234.5", ""), ("1.234", ""), ("7", "")]
    assert read("1,234.5 1,234 7") == [("1234.5", ""), ("1234", ""), ("7", "")]
    assert read("0,123 1.234") == [("0.123", ""), ("1234", "")]
    assert read("<0,05mM 12,3\u00b10,1mg/L 1,5e-3") == [("<0.05mM", ""), ("12.3\u00b10.1mg/L", ""), ("1.5e-3", "")]
    assert read("1.234 5.678", "\t") == [("1.234", ""), ("5.678", "")], "no comma in sight"
    first, second = read("4,2 4.3")
    assert first == ("4.2", "") and second[1] == '"4.3", but "4,2" further up or down in this column'


def test_a_number_that_could_be_two_is_refused_with_both() -> None:
    assert read("1,234 7") == [("1,234", '"1,234" is 1234 or 1.234'), ("7", "")]
    assert read("1,234", ",") == [("1,234", '"1,234" is 1234 or 1.234')]
    other = rows("value;other\n1.234;4,2\n", ("value", "other"))[0]
    assert other.faults == {"value": '"1.234" is 1234 or 1.234; write 1234, or 1.2340'}


def test_a_decimal_comma_between_commas_is_left_to_the_reader_of_numbers() -> None:
    assert read("4,2 n.d. 1,2,3", ",") == [("4,2", ""), ("n.d.", ""), ("1,2,3", "")]


def test_numbers_of_a_workbook_need_no_reading() -> None:
    table_rows = list(table(workbook(["id", "value"], [1, 1.234], [2, "4,2"]), "t.xlsx").rows(["value"]))
    assert [row.cells["value"] for row in table_rows] == ["1.234", "4.2"]
    assert [row.address("value") for row in table_rows] == ["B2", "B3"] and table_rows[0].place("id") == "A2"


def test_each_cell_keeps_its_address() -> None:
    text = 'id,value\n\n1,"a\nb"\n2,3,x\n'
    first, second = rows(text)
    assert first.address("value") == 'row 3, column "value"' and first.place("value") == "4:2"
    assert (second.number, second.surplus, second.surplus_place()) == (4, 2, "5:3")
    assert table(workbook(["id"], [1, None, "x"]), "t.xlsx").rows().__next__().surplus_place() == "C2"


def test_empty_columns_at_the_end_are_none() -> None:
    [row] = rows("id;value;;\n1;4,2;;\n;;;\n")
    assert row.cells == {"id": "1", "value": "4.2"} and row.surplus is None


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (b"x", "t.xlsm", "a workbook with macros is not read; save the table as Excel workbook"),
        (b"x", "t.XLS", "an old workbook of Excel is not read"),
        (b"x", "t.ods", "a spreadsheet of LibreOffice is not read"),
        (b"x", "t.numbers", "a spreadsheet of Numbers is not read"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "t.xlsx", "an old workbook, or one with a password"),
        (b"PK\x03\x04", "t.csv", "a damaged one"),
        (b"\xff\xfea", "t.csv", "begins as UTF-16, and is not"),
        (b"a,b\nx,\x81\n", "t.csv", "t.csv:2:1: neither UTF-8 nor Windows-1252"),
        (b"a,b,a\n", "t.csv", 't.csv:1:3: two columns have the same name, "a"'),
        (b'a,b\n1,"2\n', "t.csv", "t.csv:3:1: the file ends within a quoted cell"),
        (b"a,b\n1," + b"2" * 200_000, "t.csv", "a cell has more than 131,072 characters"),
    ],
)
def test_what_is_no_table_is_refused(content: bytes, name: str, says: str) -> None:
    with pytest.raises(InputFileError, match=says):
        list(open_table(content, name).rows())


def test_a_file_is_read_and_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(GERMAN.encode("cp1252")))
    assert [row.cells for row in read_table(path, ("id", "value")).rows(["value"])] == VALUES
    with pytest.raises(InputFileError, match=r'no column "valu"; did you mean "value"'):
        read_table(path, ("valu",))


@settings(max_examples=60)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_give_rows_or_a_sentence(content: bytes) -> None:
    try:
        opened = open_table(content, "t.csv")
        for row in opened.rows(opened.header):
            assert set(row.cells) == set(opened.header)
    except InputFileError as error:
        assert str(error).startswith("t.csv")
