"""What a notebook gets instead of lists: a small table in memory, and a query that streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from rich.table import Table
from sqlalchemy.engine import Connection

from sciagent.api import html
from sciagent.api.terminal import records_table, text_of
from sciagent.errors import UsageError
from sciagent.report.export.parquet import ArrowRows
from sciagent.store.database.ledger import Ledger

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10  # rows that a notebook or a terminal is shown of a query
R = TypeVar("R")
"""A row of a table."""
Cells = Callable[[R], Mapping[str, Any]]
"""Cells of a row, by column."""


class ResultTable(tuple[R, ...]):
    """A few rows in memory: a tuple of frozen rows that shows itself in a notebook and in a terminal."""

    title: str
    """What the rows are."""
    brief: Cells[R]
    """The few cells of a row that are shown."""
    record: Cells[R]
    """All cells of a row, for a data frame."""

    def __new__(cls, rows: Iterable[R], title: str, brief: Cells[R] = vars, record: Cells[R] = vars) -> Self:
        made = super().__new__(cls, rows)
        made.title, made.brief, made.record = title, brief, record
        return made

    def to_pandas(self) -> pd.DataFrame:
        """A data frame, a row each. Raises UsageError where pandas is not installed."""
        return _pandas().DataFrame.from_records([dict(self.record(row)) for row in self])

    def table(self) -> Table:
        """The rows as a terminal shows them."""
        return records_table([self.brief(row) for row in self], self.title)

    def __repr__(self) -> str:
        return text_of(self.table()) if self else f"{self.title}: none yet"

    def _repr_html_(self) -> str:
        return html.table([self.brief(row) for row in self], self.title)


@dataclass(frozen=True)
class ResultQuery(Generic[R]):
    """Rows of the ledger that are read when they are asked for, in pages; never all of them are in memory.

    Iterating reads the ledger anew each time, so that a running campaign is seen as it is.
    """

    title: str
    """What the rows are."""
    store: Ledger
    """Where they are."""
    page: Callable[[Connection, Any], tuple[Sequence[R], Any]]
    """The page after a cursor, None before the first page, and its own cursor; no rows after the last page."""
    count: Callable[[Connection], int]
    """How many rows there are now."""
    arrow: Callable[[Connection], ArrowRows]
    """The same rows as columns."""
    brief: Cells[R]
    """The few cells of a row that are shown."""
    record: Cells[R] = vars
    """All cells of a row, for a data frame of a block."""

    def __iter__(self) -> Iterator[R]:
        return chain.from_iterable(self._pages())

    def __len__(self) -> int:
        with self.store.read() as connection:
            return self.count(connection)

    def _pages(self) -> Iterator[Sequence[R]]:
        """A read transaction each, so that a reader who stops half way holds nothing."""
        cursor = None
        while True:
            with self.store.read() as connection:
                rows, cursor = self.page(connection, cursor)
            if not rows:
                return
            yield rows

    def head(self, n: int = SHOWN) -> ResultTable[R]:
        """The first n rows."""
        return ResultTable(list(islice(self, n)), self.title, self.brief, self.record)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame, built block by block. Raises UsageError where pandas is not installed."""
        import pyarrow as pa

        _pandas()
        with self.store.read() as connection:
            rows = self.arrow(connection)
            return pa.Table.from_batches(rows.batches(), schema=rows.schema).to_pandas()

    def to_parquet(self, path: str | Path) -> Path:
        """Write a Parquet file, in row groups; units and levels are in the metadata of its columns."""
        target = Path(path)
        if not target.parent.is_dir():
            raise UsageError(f"{target}: the folder {target.parent} does not exist")
        with self.store.read() as connection:
            self.arrow(connection).write(target)
        return target

    def __repr__(self) -> str:
        n, head = len(self), self.head()
        more = f"\n… {n - len(head):,} more; iterate, or use .head(n), .to_pandas(), .to_parquet(path)"
        return repr(head) + (more if n > len(head) else "")

    def _repr_html_(self) -> str:
        n, head = len(self), self.head()
        more = f"{len(head)} of {n:,}; all of them with .to_pandas() or .to_parquet(path)"
        return head._repr_html_() + (html.box(html.paragraph(more, soft=True)) if n > len(head) else "")


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("a data frame needs pandas: pip install pandas; without it, iterate over the rows") from None
    return pd
