"""What a notebook gets instead of lists: a small table in memory, and a query that streams."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from sciagent.api import html
from sciagent.errors import UsageError
from sciagent.report.export.parquet import ArrowRows

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 10  # rows that a notebook or a terminal is shown of a query


R = TypeVar("R")
"""A row of a table."""


@dataclass(frozen=True)
class Layout(Generic[R]):
    """How rows become data frames, terminal tables and HTML."""

    record: Callable[[R], Mapping[str, Any]]
    """All cells of a row, by column of the data frame."""
    brief: Callable[[R], Mapping[str, Any]]
    """The few cells that a terminal has room for."""
    html: Callable[[Sequence[R]], str]
    """The rows as a notebook shows them."""


class ResultTable(Sequence[R]):
    """A few rows in memory: a sequence of frozen rows that shows itself in a notebook."""

    def __init__(self, rows: Sequence[R], title: str, layout: Layout[R]) -> None:
        self.title = title
        self._rows = tuple(rows)
        self._layout = layout

    @overload
    def __getitem__(self, index: int) -> R: ...

    @overload
    def __getitem__(self, index: slice) -> ResultTable[R]: ...

    def __getitem__(self, index: int | slice) -> R | ResultTable[R]:
        if isinstance(index, slice):
            return ResultTable(self._rows[index], self.title, self._layout)
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame, a row each. Raises UsageError where pandas is not installed."""
        return _pandas().DataFrame.from_records([dict(self._layout.record(row)) for row in self._rows])

    def __repr__(self) -> str:
        return text_table([self._layout.brief(row) for row in self._rows], self.title)

    def _repr_html_(self) -> str:
        return self._layout.html(self._rows)


@dataclass(frozen=True)
class ResultQuery(Generic[R]):
    """Rows of the ledger that are read when they are asked for, in pages; never all of them are in memory.

    Iterating reads the ledger anew each time, so that a running campaign is seen as it is.
    """

    title: str
    """What the rows are."""
    pages: Callable[[], Iterator[Sequence[R]]]
    """The rows, a page at a time."""
    count: Callable[[], int]
    """How many there are now."""
    arrow: Callable[[], AbstractContextManager[ArrowRows]]
    """The same rows as columns, inside one read transaction."""
    layout: Layout[R]
    """What the rows look like."""

    def __iter__(self) -> Iterator[R]:
        return chain.from_iterable(self.pages())

    def __len__(self) -> int:
        return self.count()

    def blocks(self) -> Iterator[ResultTable[R]]:
        """The rows, a page at a time."""
        return (ResultTable(page, self.title, self.layout) for page in self.pages())

    def head(self, n: int = SHOWN) -> ResultTable[R]:
        """The first n rows."""
        return ResultTable(list(islice(self, n)), self.title, self.layout)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame, built block by block. Raises UsageError where pandas is not installed."""
        import pyarrow as pa

        _pandas()
        with self.arrow() as rows:
            return pa.Table.from_batches(rows.batches(), schema=rows.schema).to_pandas()

    def to_parquet(self, path: str | Path) -> Path:
        """Write a Parquet file, in row groups; units and levels are in the metadata of its columns."""
        target = Path(path)
        if not target.parent.is_dir():
            raise UsageError(f"{target}: the folder {target.parent} does not exist")
        with self.arrow() as rows:
            rows.write(target)
        return target

    def __repr__(self) -> str:
        n, head = self.count(), self.head()
        more = f"\n… {n - len(head):,} more; iterate, or use .head(n), .to_pandas(), .to_parquet(path)"
        return repr(head) + (more if n > len(head) else "")

    def _repr_html_(self) -> str:
        n, head = self.count(), self.head()
        more = f"{len(head)} of {n:,}; all of them with .to_pandas() or .to_parquet(path)"
        return head._repr_html_() + (html.note(more) if n > len(head) else "")


def text_table(records: Sequence[Mapping[str, Any]], title: str) -> str:
    """A table for a terminal, as wide as it is."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    if not records:
        return f"{title}: none yet"
    made = Table(title=title, title_justify="left", title_style="", box=SIMPLE_HEAD, pad_edge=False)
    columns = html.columns_of(records)
    for name in columns:
        made.add_column(name, overflow="fold")
    for record in records:
        made.add_row(*(Text(html.cell_text(record.get(name))) for name in columns))
    console = Console(highlight=False, force_jupyter=False)
    with console.capture() as capture:
        console.print(made)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n")


def _pandas() -> Any:
    try:
        import pandas as pd
    except ImportError:
        raise UsageError("a data frame needs pandas: pip install pandas; without it, iterate over the rows") from None
    return pd
