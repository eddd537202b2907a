"""Writes the files of an export: a Parquet file for each split, and the loader that goes with them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.report.export.parquet import ArrowRows
from sciagent.training.exports import loaders
from sciagent.training.exports.source import BATCH, DatasetFolder
from sciagent.training.splits import SPLITS, Split


class SplitTable(NamedTuple):
    """A table with a file for each split."""

    file: str
    """Name of the file; `{split}` stands for the split."""
    schema: Any
    """`pyarrow.Schema`"""
    rows: Callable[[Split], Iterable[Mapping[str, Any]]]
    """Returns the rows of a split."""


def write_tables(
    source: DatasetFolder, folder: Path, *tables: SplitTable, loader: str | None = None
) -> Mapping[str, int]:
    """Writes tables; returns the number of rows by file. loader: name of the module that is copied beside them."""
    if loader is not None:
        shutil.copy(Path(loaders.__path__[0]) / loader, folder / loader)
    files = {}
    for table in tables:
        for split in SPLITS:
            about = {"sciagent": source.made_by, "watermark": str(source.watermark), "split": split}
            name = table.file.format(split=split)
            rows = ArrowRows(table.schema.with_metadata(about), table.rows(split), BATCH)
            files[name] = rows.write(folder / name)
    return files
