"""A data set read for export: its rows, some at a time, in the forms that trainers take, and the files of an export.

An export has a Parquet file for each split, and the loader that goes with them. Trainers that sample themselves get the
openings of episodes as prompts.

Messages are objects of JSON: no key without a value, and the arguments of calls as objects. A Parquet struct gives
every message every key, with nulls; chat templates take a null for a value. Many templates also write the arguments as
JSON themselves, so that a text would be quoted twice.

Trainers that compute probabilities themselves get rows of token ids, split into a prompt and a response. They take the
probability of a token among all tokens, at the temperature at which it was drawn. They cannot make a grammar again, so
tokens that were sampled under one get no gradient here. Packages that name the same fields differently have a table of
token rows.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple

from sciagent.agent.trace import CONTEXT
from sciagent.errors import UsageError
from sciagent.report.export.parquet import ArrowRows
from sciagent.training.building import COLUMNS
from sciagent.training.columns import EPISODE, Cells, TableColumn, schema
from sciagent.training.exports import loaders
from sciagent.training.reading import EVALUATION
from sciagent.training.settings import DATASET_KINDS, DatasetKind
from sciagent.training.splits import SPLITS, Split

BATCH = 64  # rows in memory together
UNKNOWN = "unknown"  # licence of a data set whose card states none


class DatasetFolder:
    """A data set in a folder. Raises UsageError for a folder that `dataset build` did not make."""

    def __init__(self, path: Path) -> None:
        self.path = path
        found = _opened(path, "train").schema_arrow
        about = {name.decode(): value.decode() for name, value in (found.metadata or {}).items()}
        if about.get("dataset") not in DATASET_KINDS:
            raise UsageError(
                f"{path} is no data set of sciagent; `sciagent dataset build` makes {', '.join(DATASET_KINDS)}"
            )
        self.kind: DatasetKind = next(kind for kind in DATASET_KINDS if kind == about["dataset"])
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


OPENINGS = ("episode", "group", "task", "purpose", "opening")


class OpeningPrompt(NamedTuple):
    """The first messages of episodes."""

    campaign: str
    task: str
    group: int | None
    """Id of the first group that began with them; None for episodes without siblings."""
    messages: list[dict[str, Any]]
    """(m,) with `role` and `content`."""


def prompt_type() -> Any:
    """Returns the type of a column of prompts. Templates would take an empty key of a message for a value."""
    import pyarrow as pa

    return pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def prompts(source: DatasetFolder, split: Split) -> Iterator[OpeningPrompt]:
    """Yields the openings of a split of `rows`, each once, in the order of the campaigns and episodes."""
    tested = {row["task"] for row in source.rows("test", ["task"])}
    campaigns = dict.fromkeys(row["campaign"] for each in SPLITS for row in source.rows(each, ["campaign"]))
    seen = set()
    for campaign in campaigns:
        for row in source.table(campaign, "trajectories", OPENINGS):
            if row["opening"] is None or row["purpose"] == EVALUATION or (row["task"] in tested) != (split == "test"):
                continue
            if (key := (row["task"], row["opening"])) not in seen:
                seen.add(key)
                yield OpeningPrompt(campaign, row["task"], row["group"], json.loads(row["opening"]))


def write_split(source: DatasetFolder, split: Split, folder: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes the split with messages and tools as objects. rows: those of it that are written. Returns their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {"sciagent": source.made_by, "dataset": source.kind, "watermark": str(source.watermark), "split": split}
    columns = COLUMNS[source.kind]
    converted = [column.name for column in columns if _is_converted(column)]
    target = schema(
        (column._replace(kind="objects") if column.name in converted else column for column in columns), about
    )
    stored = pa.schema(
        [field.with_type(pa.list_(pa.string())) if field.name in converted else field for field in target]
    )
    n = 0
    found = iter(rows)
    with pq.ParquetWriter(folder / f"{split}.parquet", target, compression="zstd") as writer:
        while group := [_with_objects(row, converted) for row in islice(found, BATCH)]:
            writer.write_table(pa.Table.from_pylist(group, schema=stored).cast(target))
            n += len(group)
    return n


def _is_converted(column: TableColumn) -> bool:
    return column.kind == "messages" or column.name == "tools"


def _with_objects(row: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    return {**row, **{name: list(_objects(name, row[name])) or None for name in names}}


def _objects(name: str, cell: Any) -> Iterator[str]:
    """Yields the JSON text of each message or tool. Without tools the cell is null, which templates take for none."""
    objects = json.loads(cell or "[]") if name == "tools" else map(plain_message, cell)
    return (json.dumps(each, ensure_ascii=False) for each in objects)


def plain_message(message: Mapping[str, Any]) -> Cells:
    """Returns a message without empty keys. Arguments that are no JSON object stay the text that the model wrote."""
    fields: Cells = {key: value for key, value in message.items() if value is not None}
    if calls := message.get("tool_calls"):
        fields["tool_calls"] = [_call(call) for call in calls]
    return fields


def _call(call: Mapping[str, Any]) -> Cells:
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        arguments = function["arguments"]
    return {**call, "function": {"name": function["name"], "arguments": arguments}}


GRAMMAR = "turns: sampled under a grammar, which other trainers cannot make again"
MIXED = "turns: sampled at another temperature than the first turn of their row"
NO_GRADIENT = "rows: no token that a policy gradient may use"
SAMPLING = ("episode", "turn", "sampling")
Temperatures = Mapping[tuple[int, int], float | None]
"""Temperatures by episode and turn; None under a grammar."""


@dataclass(frozen=True)
class TokenSequence:
    """A row of token ids as a prompt and a response. Every number of a token has the length of the response."""

    row: Mapping[str, Any]
    """The row of the data set."""
    prompt_ids: list[int]
    """(p,) the ids before the first sampled token."""
    response_ids: list[int]
    """(r,) the other ids: what was sampled, and what tools answered in between."""
    mask: list[int]
    """(r,) 1 where a policy gradient may use the token."""
    behaviour: list[float]
    """(r,) log-probability in the distribution that the token was drawn from; 0 where it was not sampled."""
    advantages: list[float]
    """(r,) 0 where the mask is 0."""
    temperature: float
    """At which the tokens of the mask were drawn."""
    last: bool
    """Whether no later row of the episode follows."""

    @property
    def group(self) -> str:
        """The siblings of an episode have the same group, others none."""
        own = f"{self.row['campaign']}/episode {self.row['episode']}"
        return own if self.row["group"] is None else f"{self.row['campaign']}/group {self.row['group']}"

    @cached_property
    def rewards(self) -> list[float] | None:
        """(r,) the reward of the episode at the last token of its last row; None while it is undecided."""
        outcome = self.row["outcome"]
        if outcome is None:
            return None
        return [0.0] * (len(self.response_ids) - 1) + [outcome if self.last else 0.0]


def sequences(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[TokenSequence]:
    """Yields the sequences with at least one token for a policy gradient, those of an episode one after the other.

    left_out: takes the numbers of turns and rows that are left out, by reason.
    """
    rows = source.rows(split)
    for campaign, of_campaign in groupby(rows, key=lambda row: row["campaign"]):
        temperatures = {
            (row["episode"], row["turn"]): _temperature(json.loads(row["sampling"] or "{}"))
            for row in source.table(campaign, "trajectories", SAMPLING)
        }
        for _, episode in groupby(of_campaign, key=lambda row: row["episode"]):
            found = [each for row in episode if (each := _sequence(row, temperatures, left_out)) is not None]
            for place, each in enumerate(found):
                yield replace(each, last=place == len(found) - 1)


def _temperature(sampling: Mapping[str, Any]) -> float | None:
    """Returns the temperature at which a turn was sampled; None under a grammar."""
    return None if sampling.get("grammar") else float(sampling["temperature"])


def _sequence(row: Mapping[str, Any], temperatures: Temperatures, left_out: Counter[str]) -> TokenSequence | None:
    """Returns the sequence of a row as the last one of its episode; None if it has no token for a policy gradient."""
    turns, temperature = _used(row, temperatures, left_out)
    if temperature is None:
        left_out[NO_GRADIENT] += 1
        return None
    start = next(place for place, turn in enumerate(row["turns"]) if turn != CONTEXT)
    mask = [
        int(gradient and turn in turns)
        for gradient, turn in zip(row["gradient"][start:], row["turns"][start:], strict=True)
    ]
    return TokenSequence(
        row,
        row["ids"][:start],
        row["ids"][start:],
        mask,
        [0.0 if drawn is None else drawn for drawn in row["behaviour"][start:]],
        [worth if kept else 0.0 for worth, kept in zip(row["advantages"][start:], mask, strict=True)],
        temperature,
        last=True,
    )


def _used(
    row: Mapping[str, Any], temperatures: Temperatures, left_out: Counter[str]
) -> tuple[frozenset[int], float | None]:
    """Returns the turns of a row that are trained, and their temperature; None without one."""
    wanted = dict.fromkeys(turn for turn, used in zip(row["turns"], row["gradient"], strict=True) if used)
    found = {turn: temperatures[row["episode"], turn] for turn in wanted}
    plain = {turn: temperature for turn, temperature in found.items() if temperature is not None}
    left_out[GRAMMAR] += len(found) - len(plain)
    temperature = next(iter(plain.values()), None)
    used = frozenset(turn for turn, own in plain.items() if own == temperature)
    left_out[MIXED] += len(plain) - len(used)
    return used, temperature


PLACE = (*EPISODE, TableColumn("row", "whole", "number of the row in its episode, from 0"))
FIELDS = {
    "group": ("text", "equal for siblings, which are compared"),
    "prompt_ids": ("wholes", "(p,) token ids before the first sampled one"),
    "response_ids": ("wholes", "(r,) the other token ids"),
    "mask": ("wholes", "(r,) 1 where a policy gradient may use the token"),
    "behaviour": ("numbers", "(r,) log-probability in the distribution that the token was drawn from"),
    "advantages": ("numbers", "(r,) advantage of the turn, in hits or utility"),
    "rewards": ("numbers", "(r,) outcome at the last token of an episode; null if undecided"),
    "last": ("truth", "whether no later row of the episode follows"),
    "temperature": ("number", "at which the tokens were drawn"),
}
"""DatasetKind and meaning of the fields of a `TokenSequence`."""


def token_table(source: DatasetFolder, left_out: Counter[str], names: Mapping[str, str]) -> SplitTable:
    """Returns the table of token rows. names: columns by the fields of a sequence."""
    columns = (*PLACE, *(TableColumn(name, *FIELDS[field]) for field, name in names.items()))

    def rows(split: Split) -> Iterator[Mapping[str, Any]]:
        for each in sequences(source, split, left_out):
            cells = {column.name: each.row[column.name] for column in PLACE}
            yield cells | {name: getattr(each, field) for field, name in names.items()}

    return SplitTable("{split}.parquet", schema(columns, {}), rows)
