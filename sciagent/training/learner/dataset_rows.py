"""Reads training rows from the folders that `sciagent dataset build` writes, a row group of Parquet at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from sciagent.errors import UsageError
from sciagent.training.learner.conversations import Conversations
from sciagent.training.learner.kinds.imitated import SFT
from sciagent.training.learner.kinds import Cells, RowKind, RowSelection, Unit
from sciagent.training.learner.kinds.sampled import GRPO
from sciagent.training.learner.kinds.taught import DISTILL, HINDSIGHT
from sciagent.training.learner.kinds.valued import PPO
from sciagent.training.learner.rows import TrainingRow

HELD = 16  # row groups of Parquet in memory
FILE = "train.parquet"
KINDS: Mapping[str, RowKind] = {"sft": SFT, "grpo": GRPO, "ppo": PPO, "distill": DISTILL, "hindsight": HINDSIGHT}
"""The rows that a training takes, by its name."""


class DatasetRows:
    """The training rows of a folder."""

    def __init__(self, folder: Path, training: str, conversations: Conversations, context: int) -> None:
        """training: a name in `KINDS`. context: rows with more tokens are left out. Raises UsageError for a folder that
        is no data set, of another kind, or of an earlier version."""
        import pyarrow.parquet as pq

        self._kind, path = KINDS[training], folder / FILE
        wanted = self._kind.datasets
        if not path.is_file():
            raise UsageError(f"{folder} has no {FILE}; make it: sciagent dataset build {wanted[0]} --out {folder}")
        self._file = pq.ParquetFile(path)
        table = self._file.schema_arrow
        kind = (table.metadata or {}).get(b"dataset", b"").decode()
        if kind not in wanted:
            raise UsageError(
                f"{folder} is a data set of {kind or 'unknown kind'}; `train {training}` takes "
                f"{' or '.join(wanted)}: sciagent dataset build {wanted[0]}"
            )
        if missing := [name for name in self._kind.needed if name not in table.names]:
            raise UsageError(
                f"{folder} was built by an earlier version, without the columns {', '.join(missing)} that "
                f"`train {training}` needs; build it again: sciagent dataset build {kind}"
            )
        self._held: OrderedDict[int, list[Cells]] = OrderedDict()
        self._ends: list[int] = []
        for group in range(self._file.num_row_groups):
            self._ends.append((self._ends[-1] if self._ends else 0) + self._file.metadata.row_group(group).num_rows)
        self._selection = RowSelection(conversations, context)
        self.left_out = self._selection.left_out
        self.units = self._found()

    def rows(self, units: Iterable[Unit]) -> list[TrainingRow]:
        """Returns the rows of some units, in order. Raises UsageError for a row that cannot be read."""
        return [self._row(number) for unit in units for number in unit.numbers]

    def _found(self) -> list[Unit]:
        """Returns what can be trained, and counts what is left out."""
        reached = -1

        def numbered() -> Iterator[tuple[int, Cells]]:
            nonlocal reached
            columns = None if self._kind.columns is None else list(self._kind.columns)
            for batch in self._file.iter_batches(batch_size=256, columns=columns):
                for cells in batch.to_pylist():
                    reached += 1
                    yield reached, cells

        try:
            return list(self._kind.units(numbered(), self._selection))
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable(reached, error) from error

    def _row(self, number: int) -> TrainingRow:
        try:
            return self._kind.row(self._cells(number), self._selection.conversations)
        except (ValueError, KeyError, TypeError) as error:
            raise _unreadable(number, error) from error

    def _cells(self, number: int) -> Cells:
        """Returns the cells of a row; its row group stays in memory for a while."""
        group = next(place for place, end in enumerate(self._ends) if number < end)
        if group not in self._held:
            self._held[group] = self._file.read_row_group(group).to_pylist()
            if len(self._held) > HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(group)
        return self._held[group][number - (self._ends[group - 1] if group else 0)]


def _unreadable(number: int, error: Exception) -> UsageError:
    return UsageError(f"row {number} of {FILE} cannot be trained on: {error}")
