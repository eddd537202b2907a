"""Reads a folder that `sciagent dataset build` made, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from sciagent.errors import UsageError
from sciagent.training.building import COLUMNS
from sciagent.training.datasets import KINDS, Kind
from sciagent.training.splits import SPLITS, Split

BATCH = 64  # rows in memory together
UNKNOWN = "unknown"  # licence of a data set whose card states none


class DatasetFolder:
    """A data set in a folder. Raises UsageError for a folder that `dataset build` did not make."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = _opened(path, "train").schema_arrow
        about = {name.decode(): value.decode() for name, value in (found.metadata or {}).items()}
        if about.get("dataset") not in get_args(Kind):
            raise UsageError(f"{path} is no data set of sciagent; `sciagent dataset build` makes {', '.join(KINDS)}")
        self.kind: Kind = next(kind for kind in KINDS if kind == about["dataset"])
        if found.names != [column.name for column in COLUMNS[self.kind]]:
            raise UsageError(f"{path} has other columns than data sets of this version; build it again")
        self.watermark = int(about["watermark"])
        self.made_by = about["sciagent"]
        """The version of sciagent that built the data set."""
        self.rows_of = {split: int(_opened(path, split).metadata.num_rows) for split in SPLITS}
        """Number of rows by split."""

    def rows(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of a split. columns: those that are read; None: all."""
        return _rows(_opened(self.path, split), columns)

    def table(self, campaign: str, what: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of a table of a campaign, such as `trajectories`; only data sets of `rows` have tables.

        Raises UsageError if the folder has no such table.
        """
        return _rows(_opened(self.path / "tables", f"{campaign}.{what}"), columns)

    def tables(self) -> dict[str, int]:
        """Returns the number of rows of each table of a campaign, by file; only data sets of `rows` have tables."""
        names = sorted(path.stem for path in self.path.glob("tables/*.parquet"))
        return {f"tables/{name}.parquet": int(_opened(self.path / "tables", name).metadata.num_rows) for name in names}

    @property
    def card(self) -> str:
        """The card of the data set, without its first lines in YAML; empty without a card."""
        return self._card[1]

    @property
    def licence(self) -> str:
        """The licence that the card states."""
        stated = [line.partition(":")[2].strip() for line in self._card[0].splitlines() if line.startswith("license:")]
        return stated[0] if stated else UNKNOWN

    @property
    def _card(self) -> tuple[str, str]:
        path = self.path / "README.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        head, _, body = text.removeprefix("---\n").partition("\n---\n") if text.startswith("---\n") else ("", "", text)
        return head, body


def _opened(folder: Path, name: str) -> Any:
    """Returns the opened `pyarrow.parquet.ParquetFile`. Raises UsageError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{name}.parquet"
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; `sciagent dataset build` makes such folders") from None
    except (pa.ArrowInvalid, OSError) as why:
        raise UsageError(f"{path} cannot be read: {why}") from None


def _rows(opened: Any, columns: Sequence[str] | None) -> Iterator[Mapping[str, Any]]:
    for batch in opened.iter_batches(BATCH, columns=None if columns is None else list(columns)):
        yield from batch.to_pylist()
