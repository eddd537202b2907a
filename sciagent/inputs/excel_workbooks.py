"""Reads the cells of an Excel workbook (.xlsx) as texts, within limits.

Nothing of the workbook is evaluated: a formula counts with the value that Excel saved beside it. Macros and links to
other files are refused or left alone.
"""

from __future__ import annotations

import datetime as dt
import io
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from xml.parsers import expat

from sciagent.errors import InputFileError

MAX_BYTES = 25_000_000
"""Largest number of bytes of a workbook."""
MAX_UNPACKED = 200_000_000
"""Largest number of bytes of all parts of a workbook together, unpacked. Excel holds 100,000 rows in a tenth of it."""
MAX_OTHER_PART = 50_000_000
"""Largest number of unpacked bytes of a part that is read whole, such as the texts of the cells."""
MAX_PARTS = 2_000
MAX_DEPTH = 100
"""Largest number of elements of XML around another. A worksheet has fewer than 20, and a drawing few more."""
MAX_ELEMENTS = 1_000_000
"""Largest number of elements and attributes of a part, without the rows of a worksheet."""
MAX_STRINGS = 2_500_000
"""Largest number of elements and attributes of the texts of the cells, two for a text without a format."""
MAX_ROW_ELEMENTS = 200_000
"""Largest number of elements and attributes of a row. Excel has 16,384 columns, and writes five for most cells."""
MAX_TAG_BYTES = 1_000_000
"""Largest number of bytes of a tag or a comment."""
MAX_ROW_BYTES = 16_000_000
"""Largest number of bytes of a worksheet without a row that ends, about two rows of the longest texts."""
WORKSHEETS = "xl/worksheets/"
STRINGS = "xl/sharedStrings.xml"
READ_WHOLE = (".main+xml", ".sharedStrings+xml")
"""Ends of the content types of parts that are kept whole, under whatever names."""
MAX_ROWS = 100_000
MAX_COLUMNS = 200
MAX_CELL = 32_767
"""Largest number of characters of a cell, which is Excel's own limit."""
MAX_STORED_ROWS = 200_000
"""Largest number of rows that a worksheet stores, with the empty ones that have a format."""
LAST_ROW = 1_048_576
"""Number of rows of a worksheet of Excel."""
PIECE = 1 << 20  # bytes of a part that are unpacked at a time
TAG_PIECE = 1 << 16  # bytes of a part that are parsed at a time
_ENTITIES = re.compile(rb"<!(?:DOCTYPE|ENTITY)", re.IGNORECASE)


@dataclass(frozen=True)
class RawRow:
    """A row of a file before its columns are known."""

    number: int
    """Number of the row in a spreadsheet, from 1."""
    line: int
    """Number of the line in a text, from 1; `number` in a workbook."""
    texts: Sequence[str]
    faults: dict[int, str] = field(default_factory=dict)
    """{place of a cell in the row, from 0: message} for cells without a usable value."""
    dates: frozenset[int] = frozenset()
    """Places of the cells with a date or a time."""
    numbers: frozenset[int] = frozenset()
    """Places of the cells with a number; its decimal sign is a point, whatever Excel shows."""


def read_workbook(content: bytes, name: str, max_unpacked: int = MAX_UNPACKED) -> Iterator[RawRow]:
    """Yields the rows of the first visible worksheet that are not empty.

    A number has all of its digits, whatever its format shows; a percentage is written as `12.5%`. A date is written as
    2026-04-03. name: of the file, which begins each message. max_unpacked: largest number of bytes of all parts
    together, unpacked; the time to read a workbook grows with it. Raises InputFileError for what is no such workbook,
    for one with macros, and beyond the limits.
    """
    import openpyxl

    if len(content) > MAX_BYTES:
        raise InputFileError(f"{name}: more than {MAX_BYTES:,} bytes; save the table as CSV, or split it")
    has_formulas = _check_parts(content, name, max_unpacked)
    try:
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True, keep_links=False)
        values = _first_sheet(book, name)
        formulas = None
        if has_formulas:
            # the first copy has the values of formulas, and this one the formulas
            other = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=False, keep_links=False)
            formulas = _first_sheet(other, name)
        yield from _rows(values, formulas, name)
    except InputFileError:
        raise
    except Exception as error:  # openpyxl lets through whatever its parts raise at a damaged file
        raise InputFileError(f"{name}: the workbook is damaged ({type(error).__name__}); save it again") from error


def _check_parts(content: bytes, name: str, max_unpacked: int) -> bool:
    """Returns whether the workbook has formulas. Raises InputFileError if its parts are not those of a workbook."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            parts = archive.infolist()
            if len(parts) > MAX_PARTS:
                raise InputFileError(f"{name}: the workbook has {len(parts):,} parts; {MAX_PARTS:,} are the most")
            # zipfile never unpacks more bytes of a part than it states here
            if sum(part.file_size for part in parts) > max_unpacked:
                raise InputFileError(f"{name}: the workbook unpacks to more than {max_unpacked:,} bytes; split it")
            if not any(part.filename == "xl/workbook.xml" for part in parts):
                raise InputFileError(
                    f"{name}: no Excel workbook, whatever its name says; save the table as .xlsx or CSV"
                )
            return [_check_part(archive, part, name) for part in parts].count(True) > 0
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, OSError, EOFError, ValueError) as error:
        raise InputFileError(f"{name}: no Excel workbook, or a damaged one; save the table as .xlsx or CSV") from error


def _check_part(archive: zipfile.ZipFile, part: zipfile.ZipInfo, name: str) -> bool:
    """Returns whether a part is a worksheet with formulas. Raises InputFileError for macros and entities of XML, and
    for a part that would take too much memory."""
    if part.filename.lower().endswith("vbaproject.bin"):
        raise InputFileError(f"{name}: the workbook has macros; save it as Excel workbook (.xlsx)")
    if not part.filename.endswith((".xml", ".rels")):
        return False
    is_worksheet = part.filename.startswith(WORKSHEETS)
    if not is_worksheet and part.file_size > MAX_OTHER_PART:
        raise InputFileError(f"{name}: {part.filename} unpacks to more than {MAX_OTHER_PART:,} bytes; split the table")
    elements = _Elements(name, part.filename, is_worksheet)
    end = b""
    with archive.open(part) as file:
        while piece := file.read(PIECE):
            joined = end + piece
            # with null bytes the text may be UTF-16, in which an entity would not be found
            if _ENTITIES.search(joined) or b"\0" in joined:
                raise InputFileError(f"{name}: {part.filename} is not as Excel writes it; save the table again")
            elements.feed(piece)
            end = joined[-16:]
    return elements.has_formulas


class _Elements:
    """The elements of a part, which are counted as the part is unpacked; the part itself is not kept.

    openpyxl keeps the elements of a row until the row ends, and those of all other parts until the part ends. Each
    takes some 100 bytes, and a few are packed into a byte of the file.
    """

    def __init__(self, name: str, part: str, is_worksheet: bool) -> None:
        self.has_formulas = False
        self._file = name
        self._part = part
        self._is_worksheet = is_worksheet
        self._most = MAX_STRINGS if part == STRINGS else MAX_ELEMENTS
        self._depth = 0
        self._stored_rows = 0
        self._elements_kept = 0
        """Number of elements outside of rows."""
        self._elements_of_row = 0
        self._depth_of_row = 0
        """Depth of the row that is open; 0 without one."""
        self._bytes_since_row = 0
        self._bytes_read = 0
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end

    def feed(self, piece: bytes) -> None:
        """Reads the next bytes of the part. Raises InputFileError beyond a limit, and for damaged XML."""
        self._bytes_since_row += len(piece)
        for start in range(0, len(piece), TAG_PIECE):
            few = piece[start : start + TAG_PIECE]
            self._bytes_read += len(few)
            try:
                self._parser.Parse(few)
            except expat.ExpatError as error:
                fault = f"{self._file}: {self._part} is damaged ({error}); save the table again"
                raise InputFileError(fault) from error
            # the last index is where a tag begins that has not ended yet
            if self._bytes_read - self._parser.CurrentByteIndex > MAX_TAG_BYTES:
                raise self._refusal(f"a tag or a comment of more than {MAX_TAG_BYTES:,} bytes; save the table again")
        if self._is_worksheet and self._bytes_since_row > MAX_ROW_BYTES:
            raise self._refusal(f"more than {MAX_ROW_BYTES:,} bytes without a row that ends; split the table")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._refusal(f"elements in {MAX_DEPTH} others, as no Excel workbook has; save the table again")
        tag = tag.rpartition(":")[2]
        if self._depth_of_row:
            self._elements_of_row += 1 + len(attributes)
            if self._elements_of_row > MAX_ROW_ELEMENTS:
                raise self._refusal(
                    f"a row with more than {MAX_ROW_ELEMENTS:,} elements and attributes; leave columns out"
                )
            self.has_formulas = self.has_formulas or tag == "f"
            return
        if self._is_worksheet and tag == "row":
            self._depth_of_row = self._depth
            self._elements_of_row = 0
            self._stored_rows += 1
            if self._stored_rows > MAX_STORED_ROWS:
                most = f"{MAX_STORED_ROWS:,} rows with the empty ones that have a format"
                raise InputFileError(f"{self._file}: more than {most}; delete empty rows, or save it as CSV")
            return
        self._elements_kept += 1 + len(attributes)
        if self._elements_kept > self._most:
            raise self._refusal(f"more than {self._most:,} elements and attributes; save the table as CSV, or split it")
        if "PartName" in attributes or "Target" in attributes:
            self._check_reference(attributes)

    def _check_reference(self, attributes: dict[str, str]) -> None:
        """Checks what the package says of a part, under whose name its elements were counted. Raises InputFileError for
        a worksheet that would be read as another part, which is kept whole, and for a sheet that is not named XML."""
        content_type = attributes.get("ContentType", "")
        relation = attributes.get("Type", "")
        target = attributes.get("Target", "")
        if attributes.get("TargetMode") == "External":
            return
        is_whole = content_type.endswith(READ_WHOLE)
        is_sheet = relation.endswith("/worksheet") and "chartsheet" not in relation
        refused = (
            is_whole and attributes.get("PartName", "").startswith(f"/{WORKSHEETS}"),
            is_whole and not attributes.get("PartName", "").endswith(".xml"),
            "worksheets/" in target and not is_sheet,
            "sheet" in relation and not target.endswith(".xml"),
        )
        if any(refused):
            raise self._refusal("a sheet under a name that Excel does not give; save the table again")

    def _end(self, tag: str) -> None:
        if self._depth == self._depth_of_row:
            self._depth_of_row = 0
            self._bytes_since_row = 0
        self._depth -= 1

    def _refusal(self, what: str) -> InputFileError:
        return InputFileError(f"{self._file}: {self._part} has {what}")


def _first_sheet(book: Any, name: str) -> Any:
    """Returns the first visible worksheet of a workbook."""
    for sheet in book.worksheets:
        if sheet.sheet_state == "visible":
            sheet.reset_dimensions()  # a size that is stated too small would hide rows
            return sheet
    raise InputFileError(f"{name}: the workbook has no visible worksheet")


def _rows(values: Any, formulas: Any | None, name: str) -> Iterator[RawRow]:
    """Yields the rows that are not empty. formulas: the same worksheet with its formulas; None without any."""
    with_formulas = None if formulas is None else formulas.iter_rows()
    filled = 0
    for number, cells in enumerate(values.iter_rows(), start=1):
        if number > LAST_ROW:
            raise InputFileError(f"{name}: a row lies beyond row {LAST_ROW:,}, where a worksheet ends")
        formula_cells = () if with_formulas is None else next(with_formulas, ())
        row = _row(number, cells, formula_cells)
        if not row.texts:
            continue
        if len(row.texts) > MAX_COLUMNS:
            raise InputFileError(f"{name}: row {number} has a cell beyond column {MAX_COLUMNS}; leave columns out")
        filled += 1
        if filled > MAX_ROWS + 1:  # with the header
            raise InputFileError(f"{name}: more than {MAX_ROWS:,} rows; split the file, or save it as CSV")
        yield row


def _row(number: int, cells: Sequence[Any], formula_cells: Sequence[Any]) -> RawRow:
    """Returns a row; without texts if all of its cells are empty."""
    texts: list[str] = []
    faults = {}
    dates = []
    numbers = []
    last = 0
    for place, cell in enumerate(cells):
        value = cell.value
        texts.append("")
        if value is None:
            if place < len(formula_cells) and formula_cells[place].value is not None:
                faults[place] = "the formula has no saved value; open the file in Excel, save it, and take it again"
                last = place + 1
            continue
        texts[place] = _text(value, cell)
        last = place + 1
        if cell.data_type == "e":
            faults[place] = f"{texts[place][:20]}: the formula has no value; mend it, or empty the cell"
        elif len(texts[place]) > MAX_CELL:
            faults[place] = f"the cell has {len(texts[place]):,} characters; {MAX_CELL:,} are the most"
            texts[place] = ""
        elif isinstance(value, (dt.date, dt.time, dt.timedelta)):
            dates.append(place)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            numbers.append(place)
    return RawRow(number, number, texts[:last], faults, frozenset(dates), frozenset(numbers))


def _text(value: object, cell: Any) -> str:
    """Returns the text of a cell with a value."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float)):
        if "%" in re.sub(r'"[^"]*"|\\.', "", cell.number_format or ""):  # not in a quoted text of the format
            return f"{(Decimal(repr(value)) * 100).normalize():f}%"
        is_whole = isinstance(value, int) or (value.is_integer() and abs(value) < 1e15)
        return str(int(value)) if is_whole else repr(value)
    if isinstance(value, dt.datetime):
        return value.date().isoformat() if value.time() == dt.time() else value.isoformat(sep=" ")
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    return str(value).strip()
