"""The rows that a training takes from a data set. `DatasetRows` reads them from a folder of `sciagent dataset build`.

A `RowKind` for each training selects rows, says which of them stay together in a step, and reads them:

- `SFT`: answers to imitate, for supervised fine-tuning.
- `GRPO`: tokens as they were sampled, with advantages over siblings.
- `DISTILL` and `HINDSIGHT`: tokens as they were sampled, at which teachers say what they would have done.
- `PPO`: tokens as they were sampled, with the reward of each turn; the advantages come from a value head.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.errors import UsageError
from sciagent.training.learner.learner_rows_and_rendered_conversations import (
    AnswerSpan,
    Conversations,
    EpisodeTurns,
    RowTurn,
    TrainingRow,
)

Cells = Mapping[str, Any]
"""The cells of a row by column."""


class Unit(NamedTuple):
    """Rows that are trained in one step: the rows of a group of siblings or of an episode, or a single row."""

    numbers: tuple[int, ...]
    """Numbers of the rows in the file, from 0."""


@dataclass(frozen=True)
class RowSelection:
    """Takes the rows that can be trained, and counts the others by reason."""

    conversations: Conversations
    context: int
    """Most tokens of a row."""
    left_out: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str, rows: int = 1) -> None:
        self.left_out[f"rows: {why}"] += rows

    def fits(self, tokens: int) -> bool:
        """Returns whether a row with this number of tokens fits into the model; counts it as left out if not."""
        if tokens > self.context:
            self.drop(f"more than {self.context} tokens")
            return False
        return True


class RowKind(NamedTuple):
    """The rows of a training."""

    datasets: tuple[str, ...]
    """Kinds of data sets that have such rows."""
    columns: tuple[str, ...] | None
    """Columns by which rows are selected; None for all."""
    units: Callable[[Iterable[tuple[int, Cells]], RowSelection], Iterator[Unit]]
    """Returns the units that are trained, from the numbered rows of a file."""
    row: Callable[[Cells, Conversations], TrainingRow]
    """Returns the training row of a row of the file."""


def spans_of(text: str) -> tuple[AnswerSpan, ...]:
    """Returns the answers of a row from the column `spans`."""
    spans = []
    for span in json.loads(text):
        spans.append(AnswerSpan(span["begin"], span["end"], span["temperature"], _schema_text(span["schema"])))
    return tuple(spans)


def group_key(cells: Cells) -> tuple[Any, ...]:
    """Returns a key that the rows of a group of siblings share; without siblings, the rows of an episode share it."""
    if cells["group"] is not None:
        return cells["campaign"], cells["group"], None
    return cells["campaign"], None, cells["episode"]


def zero_unused(used: Sequence[bool], values: Sequence[float | None]) -> tuple[float, ...]:
    """Returns the values where they are used, and 0 elsewhere. Raises TypeError for a used value that is missing."""
    return tuple(float(value) if is_used else 0.0 for is_used, value in zip(used, values, strict=True))  # type: ignore[arg-type]


def _schema_text(schema: Any) -> str | None:
    return None if schema is None else json.dumps(schema, ensure_ascii=False)


def _imitated_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    for number, cells in rows:
        if cells.get("how") == "hinted":
            selection.drop("hints, which only a teacher may see")
        else:
            row = _imitated_row(cells, selection.conversations)
            if selection.fits(len(row.ids)):
                yield Unit((number,))


def _imitated_row(cells: Cells, conversations: Conversations) -> TrainingRow:
    return conversations.row(cells)


SFT = RowKind(datasets=("sft", "hindsight"), columns=None, units=_imitated_units, row=_imitated_row)


NEGLIGIBLE = 1e-6  # if all advantages of a group are below this, its siblings earned the same


def sampled_row(cells: Cells) -> TrainingRow:
    """Returns a row of `dataset build rows`: tokens as they were sampled, trained where `gradient` is true."""
    used: Sequence[bool] = cells["gradient"]
    return TrainingRow(
        ids=tuple(cells["ids"]),
        mask=tuple(used),
        advantages=zero_unused(used, cells["advantages"]),
        behaviour=zero_unused(used, cells["behaviour"]),
        spans=spans_of(cells["spans"]),
        reward=cells["outcome"],
    )


def _sampled_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    """Yields groups of siblings, if at least one row of the group has something to learn."""
    for _, members in groupby(rows, key=lambda row: group_key(row[1])):
        n_rows = 0
        lengths: dict[int, int] = {}  # numbers of tokens of the rows with a decided advantage, by number of the row
        group_advantage = 0.0
        for number, cells in members:
            n_rows += 1
            largest = _largest_advantage(cells)
            if largest is not None:
                lengths[number] = len(cells["ids"])
                group_advantage = max(group_advantage, largest)
        if lengths and group_advantage <= NEGLIGIBLE:
            selection.drop("belong to siblings that earned the same", n_rows)
            continue
        n_undecided = n_rows - len(lengths)
        if n_undecided:
            selection.drop("have no decided advantage", n_undecided)
        kept = [number for number, length in lengths.items() if selection.fits(length)]
        if kept:
            yield Unit(tuple(kept))


def _largest_advantage(cells: Cells) -> float | None:
    """Returns the largest absolute advantage of a row; None if no advantage is decided."""
    pairs = zip(cells["advantages"], cells["gradient"], strict=True)
    return max((abs(advantage) for advantage, is_used in pairs if is_used), default=None)


def _sampled_row(cells: Cells, _: Conversations) -> TrainingRow:
    return sampled_row(cells)


GRPO = RowKind(
    datasets=("rows",),
    columns=("campaign", "group", "episode", "ids", "gradient", "advantages"),
    units=_sampled_units,
    row=_sampled_row,
)


def distilled_row(cells: Cells) -> TrainingRow:
    """Returns a row of `dataset build rows` for distillation: teachers see the same tokens as the model."""
    return TrainingRow(
        ids=tuple(cells["ids"]),
        mask=tuple(cells["trainable"]),
        advantages=(0.0,) * len(cells["ids"]),
        spans=spans_of(cells["spans"]),
        reward=cells["outcome"],
    )


def hinted_row(cells: Cells, conversations: Conversations) -> TrainingRow:
    """Returns a row of a turn that failed: the tokens as they were sampled. The teacher sees the hint before them."""
    prompt = cells["prompt_ids"]
    answer = cells["answer_ids"]
    used = cells["answer_mask"]
    drawn = json.loads(cells["answer_drawn"])
    schema = _schema_text(drawn["schema"])
    n = len(prompt) + len(answer)
    untrained_beginning = answer[: used.index(True)]
    return TrainingRow(
        ids=(*prompt, *answer),
        mask=(*[False] * len(prompt), *used),
        advantages=(0.0,) * n,
        spans=(AnswerSpan(len(prompt), n, drawn["temperature"], schema),),
        teacher_context=(*conversations.hinted_ids(cells), *untrained_beginning),
    )


def _distilled_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    for number, cells in rows:
        if not any(cells["trainable"]):
            selection.drop("have no token that may be trained")
        elif selection.fits(len(cells["ids"])):
            yield Unit((number,))


def _hinted_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    for number, cells in rows:
        used: Sequence[bool] | None = cells["answer_mask"]
        if cells["how"] != "hinted":
            selection.drop("goals that were achieved, for `train sft`")
        elif used is None or cells["prompt_ids"] is None:
            selection.drop("the server returned no tokens")
        elif not any(used):
            selection.drop("have no token that may be trained")
        else:
            row = hinted_row(cells, selection.conversations)
            n_from_first_trained = len(row.ids) - row.mask.index(True)
            teacher_tokens = len(row.teacher_context or ()) + n_from_first_trained
            if selection.fits(max(len(row.ids), teacher_tokens)):
                yield Unit((number,))


def _distilled_row(cells: Cells, _: Conversations) -> TrainingRow:
    return distilled_row(cells)


DISTILL = RowKind(datasets=("rows",), columns=("ids", "trainable"), units=_distilled_units, row=_distilled_row)
HINDSIGHT = RowKind(datasets=("hindsight", "skill"), columns=None, units=_hinted_units, row=hinted_row)


def valued_row(cells: Cells) -> TrainingRow:
    """Returns a row of `dataset build rows`: trained where `trainable` is true; its advantages are not known yet."""
    used: Sequence[bool] = cells["trainable"]
    turns = tuple(RowTurn(span["turn"], span["begin"], span["end"]) for span in json.loads(cells["spans"]))
    episode = EpisodeTurns(
        episode=f"{cells['campaign']} {cells['episode']}",
        rewards=tuple(cells["turn_rewards"] or ()),
        turns=turns,
        group=None if cells["group"] is None else f"{cells['campaign']} {cells['group']}",
    )
    return TrainingRow(
        ids=tuple(cells["ids"]),
        mask=tuple(used),
        advantages=(0.0,) * len(used),
        behaviour=zero_unused(used, cells["behaviour"]),
        spans=spans_of(cells["spans"]),
        reward=cells["outcome"],
        episode=episode,
    )


def _valued_units(rows: Iterable[tuple[int, Cells]], selection: RowSelection) -> Iterator[Unit]:
    """Yields groups of siblings, and episodes without siblings, if at least one turn has something to learn."""
    for _, members in groupby(rows, key=lambda row: group_key(row[1])):
        kept = []
        for number, cells in members:
            if not has_decided_turn(cells):
                selection.drop("have no decided reward")
            elif selection.fits(len(cells["ids"])):
                kept.append(number)
        if kept:
            yield Unit(tuple(kept))


def has_decided_turn(cells: Cells) -> bool:
    """Returns whether a row trains a turn whose return is decided: its own reward and all later rewards are."""
    rewards = cells["turn_rewards"] or ()
    # number of the last turn whose reward is undecided; -1 if there is none
    last_undecided = max((turn for turn, reward in enumerate(rewards) if reward is None), default=-1)
    pairs = zip(cells["turns"], cells["trainable"], strict=True)
    return any(is_trainable and last_undecided < turn < len(rewards) for turn, is_trainable in pairs)


def _valued_row(cells: Cells, _: Conversations) -> TrainingRow:
    return valued_row(cells)


PPO = RowKind(
    datasets=("rows",),
    columns=("campaign", "group", "episode", "ids", "turns", "trainable", "turn_rewards"),
    units=_valued_units,
    row=_valued_row,
)


MAX_ROW_GROUPS = 16  # row groups of Parquet in memory
FILE = "train.parquet"
KINDS: Mapping[str, RowKind] = {"sft": SFT, "grpo": GRPO, "ppo": PPO, "distill": DISTILL, "hindsight": HINDSIGHT}
"""The rows that a training takes, by its name."""


class DatasetRows:
    """The training rows of a folder."""

    def __init__(self, folder: Path, training: str, conversations: Conversations, context: int) -> None:
        """training: a name in `KINDS`. context: rows with more tokens are left out. Raises UsageError for a folder that
        is no data set, or one of another kind."""
        import pyarrow.parquet as pq

        self._kind = KINDS[training]
        path = folder / FILE
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
        self._row_groups: OrderedDict[int, list[Cells]] = OrderedDict()
        """The row groups in memory by number, the latest used last."""
        self._ends: list[int] = []
        """For each row group, the number of rows up to its end."""
        end = 0
        for group in range(self._file.num_row_groups):
            end += self._file.metadata.row_group(group).num_rows
            self._ends.append(end)
        self._selection = RowSelection(conversations, context)
        self.left_out = self._selection.left_out
        self.units = self._select_units()

    def rows(self, units: Iterable[Unit]) -> list[TrainingRow]:
        """Returns the rows of some units, in order. Raises UsageError for a row that cannot be read."""
        return [self._row(number) for unit in units for number in unit.numbers]

    def _select_units(self) -> list[Unit]:
        """Returns the units that can be trained, and counts the rows that are left out."""
        reached = -1  # number of the row that was read last, for the message of an error

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
        group = bisect_right(self._ends, number)  # the first row group that ends after the row
        if group not in self._row_groups:
            self._row_groups[group] = self._file.read_row_group(group).to_pylist()
            if len(self._row_groups) > MAX_ROW_GROUPS:
                self._row_groups.popitem(last=False)
        self._row_groups.move_to_end(group)
        first_number = self._ends[group - 1] if group else 0
        return self._row_groups[group][number - first_number]


def _unreadable(number: int, error: Exception) -> UsageError:
    return UsageError(f"row {number} of {FILE} cannot be trained on: {error}")
