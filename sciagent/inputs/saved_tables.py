"""Reads the tables that people save: CSV with commas, semicolons or tabs, and Excel workbooks.

`open_table` reads the header, and `SavedTable.rows` the rows. The sign between the cells is found in the header alone.
A decimal comma is read where the cells are not separated by commas, and a whole column is read in one way.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePath

from sciagent.errors import InputFileError, UsageError, did_you_mean
from sciagent.inputs.excel_workbooks import MAX_BYTES as MAX_WORKBOOK_BYTES
from sciagent.inputs.excel_workbooks import MAX_UNPACKED, RawRow, read_workbook
from sciagent.inputs.open_input import open_input

MAX_TEXT_BYTES = 1 << 30
"""Largest number of bytes of a CSV, unpacked."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
OTHER_FILES = {
    ".xlsm": "a workbook with macros",
    ".xltx": "a template of Excel",
    ".xltm": "a template of Excel with macros",
    ".xlsb": "a binary workbook of Excel",
    ".xls": "an old workbook of Excel",
    ".ods": "a spreadsheet of LibreOffice",
    ".fods": "a spreadsheet of LibreOffice",
    ".numbers": "a spreadsheet of Numbers",
}
"""{ending of a file that is refused: what it is}."""
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # first bytes of an old workbook, and of one with a password
_ZIP = b"PK\x03\x04"
_NUMERAL = re.compile(r"[0-9.,]*[0-9][0-9.,]*")
_WITH_POINT = re.compile(r"(?:[0-9]*\.?[0-9]+|[0-9]+\.?|[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]*)?)")
_SWAP = str.maketrans(".,", ",.")


@dataclass(frozen=True)
class TableRow:
    """A row of a table, by column."""

    number: int
    """Number of the row as a spreadsheet shows it, from 1."""
    line: int
    """Number of the last line of the row in a text, from 1; `number` in a workbook."""
    cells: Mapping[str, str]
    """{column: text without spaces around it}; a decimal comma is a point here."""
    faults: Mapping[str, str]
    """{column: message} for cells that cannot be read."""
    places: Mapping[str, int]
    """{column: place of the column in the table, from 0}."""
    is_in_workbook: bool
    surplus: int | None = None
    """Place of the first filled cell, from 0, that has no name in the header; None without one."""

    def place(self, column: str) -> str:
        """Returns the place of a cell as an editor names it: `3:2` (line and cell) in a text, `B3` in a workbook."""
        return self._place(self.places.get(column, 0))

    def surplus_place(self) -> str:
        """Returns the place of the first cell without a name, as `place` does."""
        return self._place(self.surplus or 0)

    def address(self, column: str) -> str:
        """Returns the place of a cell as a spreadsheet names it: `B3`, or `row 3, column "gap"` of a text."""
        if self.is_in_workbook and column in self.places:
            return self.place(column)
        return f'row {self.number}, column "{column[:40]}"' if column in self.places else f"row {self.number}"

    def _place(self, place: int) -> str:
        return f"{_letters(place)}{self.number}" if self.is_in_workbook else f"{self.line}:{place + 1}"


@dataclass
class SavedTable:
    """A table whose header was read."""

    name: str
    """Name of the file, which begins each message."""
    header: list[str]
    """Names of the columns, without those that have none."""
    separator: str
    """The sign between the cells of a text; empty for a workbook."""
    _places: Mapping[str, int] = field(repr=False)
    _raw: Iterator[RawRow] = field(repr=False)
    _is_read: bool = False

    @property
    def is_workbook(self) -> bool:
        return not self.separator

    def rows(self, numbers: Iterable[str] = ()) -> Iterator[TableRow]:
        """Yields the rows that are not empty; once only.

        numbers: columns whose cells are numbers, perhaps with a limit, an uncertainty or a unit. A cell there that can
        be read in two ways has a fault, and so has a date. Raises InputFileError for a text that is no table.
        """
        assert not self._is_read
        self._is_read = True
        in_numbers = {name: self._places[name] for name in numbers if name in self._places}
        raw = self._raw
        readings: Mapping[int, Callable[[str], tuple[str, str]]]
        readings = dict.fromkeys(in_numbers.values(), _with_commas_between)
        if self.separator != ",":
            kept = list(raw)
            readings = _readings(kept, list(in_numbers.values()))
            raw = iter(kept)
        for row in raw:
            yield self._row(row, readings)

    def _row(self, raw: RawRow, readings: Mapping[int, Callable[[str], tuple[str, str]]]) -> TableRow:
        """Returns a row with names. readings: {place of a column of numbers: what reads its cells}."""
        cells = {}
        faults = {}
        for name, place in self._places.items():
            text = raw.texts[place].strip() if place < len(raw.texts) else ""
            fault = raw.faults.get(place, "")
            if place in readings and not fault and text and place not in raw.numbers:
                text, fault = readings[place](text)
                if place in raw.dates:
                    fault = f"Excel took what was typed for a date, {text}; format the cell as text, and type it again"
            cells[name] = text
            if fault:
                faults[name] = fault
        width = 1 + max(self._places.values(), default=-1)
        surplus = [place for place in range(width, len(raw.texts)) if raw.texts[place].strip()]
        first_surplus = surplus[0] if surplus else None
        return TableRow(raw.number, raw.line, cells, faults, self._places, not self.separator, first_surplus)


def read_table(path: Path, wanted: Sequence[str]) -> SavedTable:
    """Returns the table of a file, with all wanted columns. A .gz is unpacked.

    Raises UsageError if the file cannot be read, and InputFileError if it is no table or lacks a column.
    """
    _refuse_by_name(path.name, str(path))
    is_workbook = path.suffix.lower() == ".xlsx"
    limit = MAX_WORKBOOK_BYTES if is_workbook else MAX_TEXT_BYTES
    try:
        with open_input(path) as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    if len(content) > limit:
        raise InputFileError(f"{path}: more than {limit:,} bytes; split the file")
    table = open_table(content, str(path), wanted)
    check_columns(table.name, table.header, wanted)
    return table


def open_table(content: bytes, name: str, wanted: Sequence[str] = (), max_unpacked: int = MAX_UNPACKED) -> SavedTable:
    """Returns the table that a file holds. Its content says whether it is a workbook.

    name: of the file, which begins each message. wanted: columns that the table should have; they tell which sign
    separates the cells if the header has several. max_unpacked: largest number of bytes of a workbook,
    unpacked. Raises InputFileError for another kind of file, and for a header with two columns of one name.
    """
    _refuse_by_name(PurePath(name).name, name)
    if content.startswith(_OLE):
        raise InputFileError(f"{name}: an old workbook, or one with a password; save it as Excel workbook (.xlsx)")
    if content.startswith(_ZIP):
        separator = ""
        raw = read_workbook(content, name, max_unpacked)
    else:
        text = _decoded(content, name)
        separator, text, skipped = _separator(text, wanted)
        raw = _read_text(text, separator, name, skipped)
    first = next(raw, None)
    texts = [] if first is None else [text.strip() for text in first.texts]
    if first is not None and first.faults:
        place = min(first.faults)
        raise InputFileError(f"{name}:{_letters(place)}{first.number}: {first.faults[place]}")
    places: dict[str, int] = {}
    for place, column in enumerate(texts):
        if column in places:
            raise InputFileError(f'{name}:1:{place + 1}: two columns have the same name, "{column[:40]}"')
        if column:
            places[column] = place
    return SavedTable(name, list(places), separator, places, raw)


def check_columns(path: Path | str, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises InputFileError if the header of a table lacks a wanted column."""
    lacking = [name for name in wanted if name not in header]
    if not lacking:
        return
    missing = lacking[0]
    if len(header) == 1 and ";" in header[0]:
        raise InputFileError(f"{path}:1:1: the columns are separated by semicolons; use commas")
    known = ", ".join(header) or "nothing"
    raise InputFileError(f'{path}:1:1: no column "{missing}"{did_you_mean(missing, header)}; the header has: {known}')


def csv_fault(path: Path | str, lines_read: int, error: csv.Error) -> InputFileError:
    """Returns the error of Python's CSV reader, with its line: the one after the lines read."""
    why = str(error)
    if "unexpected end of data" in why:
        why = 'the file ends within a quoted cell: a quote (") further up is not closed'
    elif "expected after" in why:
        why = 'text after a closing quote; write a quote within a quoted cell twice ("")'
    elif "field limit" in why:
        limit = f"{csv.field_size_limit():,}"
        why = f'a cell has more than {limit} characters, or a quote (") further up is not closed'
    if "new-line character" in why:
        why = "a carriage return without a line feed; save the file with line feeds, or put the cell in quotes"
    return InputFileError(f"{path}:{lines_read + 1}:1: {why}")


def _refuse_by_name(last: str, name: str) -> None:
    """Raises InputFileError for a kind of file that is not read. last: the name without folders."""
    ending = PurePath(last.lower().removesuffix(".gz")).suffix
    if ending in OTHER_FILES:
        raise InputFileError(
            f"{name}: {OTHER_FILES[ending]} is not read; save the table as Excel workbook (.xlsx) or as CSV"
        )


def _decoded(content: bytes, name: str) -> str:
    """Returns the text of a CSV: UTF-8, UTF-16 with its mark, or else Windows-1252."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16")
        except UnicodeDecodeError as error:
            raise InputFileError(f"{name}: begins as UTF-16, and is not; save it as CSV UTF-8") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        pass
    try:
        return content.decode("cp1252")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputFileError(
            f"{name}:{line}:1: neither UTF-8 nor Windows-1252 (byte 0x{content[error.start]:02x}); save it as CSV UTF-8"
        ) from error


def _separator(text: str, wanted: Sequence[str]) -> tuple[str, str, int]:
    """Returns the sign between the cells, the text from its header on, and the number of lines before that.

    A first line such as `sep=;`, which Excel understands, names it. Else it is the sign with which the header has most
    of the wanted columns, and of these the one that stands there most often.
    """
    first_line = re.match(r"[^\r\n]*", text)
    assert first_line is not None  # it matches the empty text
    stated = re.fullmatch(r'"?sep=([,;\t])"?', first_line[0].strip(" "), re.IGNORECASE)
    if stated:
        rest = text[first_line.end() :]
        return stated[1], re.sub(r"\A(?:\r\n|\r|\n)", "", rest), 1
    lines = (line for line in re.finditer(r"[^\r\n]+", text) if line[0].strip())
    header = next(lines, None)
    head = "" if header is None else re.sub(r'"[^"]*"', lambda quoted: quoted[0].translate(_HIDE), header[0])
    best = ","
    best_rank = (-1, -1)
    for sign in SEPARATORS:
        names = {cell.strip().strip('"').strip() for cell in head.split(sign)}
        rank = (len(names.intersection(wanted)), head.count(sign))
        if rank > best_rank:
            best = sign
            best_rank = rank
    return best, text, 0


_HIDE = str.maketrans(",;\t", "   ")  # what stands in quotes separates nothing


def _read_text(text: str, separator: str, name: str, skipped: int) -> Iterator[RawRow]:
    """Yields the rows of a text that are not empty. skipped: number of lines before its first one."""
    readable = text.replace("\0", "\N{SYMBOL FOR NULL}")  # csv does not take the null character
    if "\n" not in readable:  # an old Mac, and Excel's "CSV (Macintosh)", end lines with carriage returns
        readable = readable.replace("\r", "\n")
    reader = csv.reader(io.StringIO(readable, newline=""), delimiter=separator, strict=True)
    try:
        for number in itertools.count(1 + skipped):
            texts = next(reader, None)
            if texts is None:
                return
            if any(text.strip() for text in texts):
                yield RawRow(number, reader.line_num + skipped, texts)
    except csv.Error as error:
        raise csv_fault(name, reader.line_num + skipped, error) from error


def _letters(place: int) -> str:
    """Returns the letters of a column of a spreadsheet: `A` for 0, `AB` for 27."""
    letters = ""
    rest = place + 1
    while rest:
        rest, digit = divmod(rest - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters


def _as_read(numeral: str, sign: str) -> str | None:
    """Returns a numeral with a decimal point, and nothing between its thousands, as it reads with a decimal sign; None
    if it is no number then. sign: `.` or `,`."""
    plain = numeral if sign == "." else numeral.translate(_SWAP)
    return plain.replace(",", "") if _WITH_POINT.fullmatch(plain) else None


def _is_open(numeral: str) -> bool:
    """Whether a numeral is a number with either decimal sign, but not the same: `1,234` and `1.234`."""
    as_point = _as_read(numeral, ".")
    as_comma = _as_read(numeral, ",")
    return as_point is not None and as_comma is not None and as_point != as_comma


def _both(numeral: str) -> str:
    """Returns the message on a numeral that can be read in two ways."""
    as_point = _as_read(numeral, ".")
    as_comma = _as_read(numeral, ",")
    readings = sorted((str(as_point), str(as_comma)), key=lambda text: "." in text)
    whole = readings[0]
    part = readings[1]
    return f'"{numeral[:40]}" is {whole} or {part}; write {whole}, or {numeral}0'


def _with_commas_between(text: str) -> tuple[str, str]:
    """Returns a cell of a table with commas between its cells, and its fault; empty without one."""
    for numeral in _NUMERAL.findall(text):
        if "," in numeral and _is_open(numeral):
            return text, _both(numeral)
    return text, ""


def _readings(rows: Sequence[RawRow], places: Sequence[int]) -> Mapping[int, Callable[[str], tuple[str, str]]]:
    """Returns what reads the cells of each column of numbers, by the decimal sign that the column shows."""
    columns = {place: _DecimalSign() for place in places}
    for row in rows:
        for place, column in columns.items():
            if place < len(row.texts) and place not in row.numbers and place not in row.dates:
                column.note(row.texts[place])
    has_commas = any(column.sign == "," for column in columns.values())
    for column in columns.values():
        column.decide(has_commas)
    return {place: column.read for place, column in columns.items()}


@dataclass
class _DecimalSign:
    """The decimal sign of a column, by its cells that can be read in one way only."""

    sign: str = ""
    """`.` or `,`; empty as long as no cell shows it."""
    shown_by: str = ""
    """The first numeral that shows it."""
    has_open_comma: bool = False
    """Whether a numeral such as `1,234` can be read in two ways."""

    def note(self, text: str) -> None:
        """Takes a cell into account."""
        for numeral in _NUMERAL.findall(text):
            as_point = _as_read(numeral, ".")
            as_comma = _as_read(numeral, ",")
            if _is_open(numeral):
                self.has_open_comma = self.has_open_comma or "," in numeral
            elif not self.sign and as_point != as_comma:
                self.sign = "," if as_point is None else "."
                self.shown_by = numeral

    def decide(self, has_commas: bool) -> None:
        """Settles the sign of a column that shows none. has_commas: whether another column has decimal commas."""
        if not self.sign and not self.has_open_comma and not has_commas:
            self.sign = "."

    def read(self, text: str) -> tuple[str, str]:
        """Returns a cell with decimal points, and its fault; empty without one."""
        pieces = []
        end = 0
        for match in _NUMERAL.finditer(text):
            numeral = match[0]
            if not self.sign and _is_open(numeral):
                return text, _both(numeral)
            number = _as_read(numeral, self.sign or ".")
            if number is None:
                if _as_read(numeral, "," if self.sign == "." else ".") is None:
                    return text, ""  # no number in either way, which whoever reads the text says better
                other = f'"{numeral[:40]}", but "{self.shown_by[:40]}" further up or down in this column'
                return text, f"{other}; a column has one decimal sign"
            pieces += [text[end : match.start()], number]
            end = match.end()
        return "".join(pieces) + text[end:], ""
