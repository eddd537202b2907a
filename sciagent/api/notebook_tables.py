"""Results for notebooks: `ResultTable`, a small table in memory, and `ResultQuery`, which streams rows from the ledger.

The functions below the classes put the units of measured values into headings, or write such values as plain cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rich.table import Table
from sqlalchemy.engine import Connection

from sciagent.api import notebook_html
from sciagent.api.terminal_tables_and_signals import Records, records_table, text_of
from sciagent.domain.answers.candidate_and_value_answers import ShownValue
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd

    from sciagent.report.export.parquet_tables import ArrowRows

N_SHOWN_ROWS = 10  # rows of a query that a notebook or a terminal shows
R = TypeVar("R")
"""A row of a table."""
Cells = Callable[[R], Mapping[str, Any]]
"""A function from a row to its cells by column."""


class ResultTable(tuple[R, ...]):
    """A tuple of frozen rows in memory, with a display in notebooks and terminals."""

    title: str
    """Title of the table."""
    brief: Cells[R]
    """Returns the displayed cells of a row."""
    record: Cells[R]
    """Returns all cells of a row, for a data frame."""

    def __new__(cls, rows: Iterable[R], title: str, brief: Cells[R] = vars, record: Cells[R] = vars) -> Self:
        table = super().__new__(cls, rows)
        table.title = title
        table.brief = brief
        table.record = record
        return table

    def to_pandas(self) -> pd.DataFrame:
        """Returns a data frame. Raises UsageError if pandas is not installed."""
        return _pandas().DataFrame.from_records([dict(self.record(row)) for row in self])

    def table(self) -> Table:
        """Returns the rows as a table for a terminal."""
        return records_table(self._shown(), self.title)

    def _shown(self) -> Records:
        return with_units_in_headings([self.brief(row) for row in self])

    def __repr__(self) -> str:
        return text_of(self.table()) if self else f"{self.title}: none yet"

    def _repr_html_(self) -> str:
        return notebook_html.table(self._shown(), self.title)


@dataclass(frozen=True)
class ResultQuery(Generic[R]):
    """A query of the ledger that reads rows in pages on demand; never all rows are in memory.

    Each iteration reads the ledger again, so that it shows the current state of a running campaign.
    """

    title: str
    """Title of the rows."""
    store: Ledger
    """The ledger that holds the rows."""
    page: Callable[[Connection, Any], tuple[Sequence[R], Any]]
    """Takes a cursor (None for the first page). Returns (rows, next cursor); no rows after the last page."""
    count: Callable[[Connection], int]
    """Returns the current number of rows."""
    arrow: Callable[[Connection], ArrowRows]
    """Returns the rows as Arrow columns."""
    brief: Cells[R]
    """Returns the displayed cells of a row."""
    record: Cells[R] = vars
    """Returns all cells of a row, for the data frame of a table."""

    def __iter__(self) -> Iterator[R]:
        """Yields the rows; each page is read in its own transaction, so that an abandoned iteration holds no lock."""
        cursor = None
        while True:
            with self.store.read() as connection:
                rows, cursor = self.page(connection, cursor)
            if not rows:
                return
            yield from rows

    def __len__(self) -> int:
        with self.store.read() as connection:
            return self.count(connection)

    def head(self, n: int = N_SHOWN_ROWS) -> ResultTable[R]:
        """Returns the first n rows."""
        return ResultTable(list(islice(self, n)), self.title, self.brief, self.record)

    def to_pandas(self) -> pd.DataFrame:
        """Returns a data frame, built block by block. Raises UsageError if pandas is not installed."""
        import pyarrow as pa

        _pandas()
        with self.store.read() as connection:
            rows = self.arrow(connection)
            return pa.Table.from_batches(rows.batches(), schema=rows.schema).to_pandas()

    def to_parquet(self, path: str | Path) -> Path:
        """Writes a Parquet file in row groups; units and levels are in the metadata of its columns."""
        target = Path(path)
        if not target.parent.is_dir():
            raise UsageError(f"{target}: the folder {target.parent} does not exist")
        with self.store.read() as connection:
            self.arrow(connection).write(target)
        return target

    def __repr__(self) -> str:
        head = self.head()
        n_more = len(self) - len(head)
        if n_more <= 0:
            return repr(head)
        return f"{head!r}\n… {n_more:,} more; iterate, or use .head(n), .to_pandas(), .to_parquet(path)"

    def _repr_html_(self) -> str:
        n_rows = len(self)
        head = self.head()
        shown = head._repr_html_()
        if n_rows > len(head):
            more = f"{len(head)} of {n_rows:,}; all of them with .to_pandas() or .to_parquet(path)"
            shown += notebook_html.box(notebook_html.paragraph(more, soft=True))
        return shown


def _pandas() -> Any:
    """Returns the module pandas. Raises UsageError if it is not installed."""
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("a data frame needs pandas: pip install pandas; without it, iterate over the rows") from None
    return pd


def heading(name: str, unit: str) -> str:
    """Returns a heading such as `dipole [D]`; for the unit 1, the name alone."""
    return name if unit == "1" else f"{name} [{unit}]"


def with_units_in_headings(records: Records) -> Records:
    """Returns the records with units in the headings of columns whose values all have the same unit."""
    shared_units: dict[str, str] = {}
    for name in _names(records):
        unit = _shared_unit(records, name)
        if unit:
            shared_units[name] = unit
    with_units = []
    for record in records:
        cells: dict[str, Any] = {}
        for name, cell in record.items():
            if isinstance(cell, ShownValue) and name in shared_units:
                cell = _without_unit(cell)
            cells[heading(name, shared_units.get(name, "1"))] = cell
        with_units.append(cells)
    return with_units


def plain_cells(name: str, value: ShownValue) -> Mapping[str, str]:
    """Returns two cells of a value for a spreadsheet: the number, with the digits that its uncertainty supports, and
    the uncertainty."""
    number, _, uncertainty = str(_without_unit(value)).partition(" ± ")
    return {heading(name, value.unit): number, heading(f"{name} uncertainty", value.unit): uncertainty}


def plain_records(records: Records) -> Records:
    """Returns the records with two cells for each measured value, as `plain_cells` gives them."""
    plain = []
    for record in records:
        cells: dict[str, Any] = {}
        for name, cell in record.items():
            if isinstance(cell, ShownValue):
                cells.update(plain_cells(name, cell))
            else:
                cells[name] = cell
        plain.append(cells)
    return plain


def _names(records: Records) -> Sequence[str]:
    """Returns the columns of the records, in order of first appearance."""
    return list(dict.fromkeys(chain.from_iterable(records)))


def _shared_unit(records: Records, name: str) -> str | None:
    """Returns the unit of a column of measured values; None if its values have several units, or none is measured."""
    cells = [record[name] for record in records if record.get(name) is not None]
    units = {cell.unit if isinstance(cell, ShownValue) else None for cell in cells}
    return units.pop() if len(units) == 1 else None


def _without_unit(value: ShownValue) -> ShownValue:
    return value.model_copy(update={"unit": "1"})
