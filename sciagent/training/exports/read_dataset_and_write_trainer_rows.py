"""Reads a built data set in batches, converts its rows to the forms that trainers take, and writes the exported files.

An export has a Parquet file for each split, and the loader that goes with them. Trainers that do their own sampling
get the openings of episodes as prompts.

Messages are objects of JSON: no key without a value, and the arguments of calls as objects. A Parquet struct gives
every message every key, with nulls; chat templates treat a null as a value. Many templates also write the arguments as
JSON themselves, so that a text would be quoted twice.

Trainers that compute probabilities themselves get rows of token ids, split into a prompt and a response. They take the
probability of a token among all tokens, at the temperature at which it was drawn. They cannot reproduce a grammar, so
tokens that were sampled under one get no gradient here. `token_table` names the fields of these rows as each package
names them.
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
from typing import Any, NamedTuple, cast

from sciagent.agent.turns_to_token_rows import CONTEXT
from sciagent.errors import UsageError
from sciagent.report.export.parquet_tables import ArrowRows
from sciagent.training.dataset_building import COLUMNS
from sciagent.training.dataset_columns import EPISODE, Cells, TableColumn, schema
from sciagent.training.exports import loaders
from sciagent.training.read_turns import EVALUATION
from sciagent.training.settings import DATASET_KINDS, DatasetKind
from sciagent.training.task_splits_and_scaffold_limit import SPLITS, Split

BATCH_ROWS = 64  # rows in memory together
UNKNOWN_LICENCE = "unknown"  # licence of a data set whose card states none


class DatasetFolder:
    """A data set in a folder. Raises UsageError for a folder that `dataset build` did not make."""

    def __init__(self, path: Path) -> None:
        self.path = path
        file_schema = _opened(path, "train").schema_arrow
        about = {name.decode(): value.decode() for name, value in (file_schema.metadata or {}).items()}
        if about.get("dataset") not in DATASET_KINDS:
            raise UsageError(
                f"{path} is no data set of sciagent; `sciagent dataset build` makes {', '.join(DATASET_KINDS)}"
            )
        self.kind = cast(DatasetKind, about["dataset"])
        if file_schema.names != [column.name for column in COLUMNS[self.kind]]:
            raise UsageError(f"{path} has other columns than data sets of this version; build it again")
        self.watermark = int(about["watermark"])
        self.made_by = about["sciagent"]
        """The version of sciagent that built the data set."""
        self.rows_of = {split: int(_opened(path, split).metadata.num_rows) for split in SPLITS}
        """Number of rows by split."""

    def rows(self, split: Split, columns: Sequence[str] | None = None) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of a split. columns: names of the columns to read; None: all."""
        return _rows(_opened(self.path, split), columns)

    def table(self, campaign: str, what: str, columns: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Yields the rows of a table of a campaign, such as `trajectories`; only data sets of `rows` have tables.

        Raises UsageError if the folder has no such table.
        """
        return _rows(_opened(self.path / "tables", f"{campaign}.{what}"), columns)

    def tables(self) -> dict[str, int]:
        """Returns the number of rows of each table of a campaign, by file; only data sets of `rows` have tables."""
        numbers = {}
        for name in sorted(path.stem for path in self.path.glob("tables/*.parquet")):
            numbers[f"tables/{name}.parquet"] = int(_opened(self.path / "tables", name).metadata.num_rows)
        return numbers

    @property
    def card(self) -> str:
        """The card of the data set, without its first lines in YAML; empty without a card."""
        _, body = self._card
        return body

    @property
    def licence(self) -> str:
        """The licence that the card states; `unknown` if it states none."""
        head, _ = self._card
        for line in head.splitlines():
            if line.startswith("license:"):
                return line.removeprefix("license:").strip()
        return UNKNOWN_LICENCE

    @property
    def _card(self) -> tuple[str, str]:
        """The lines of the card in YAML, and the text after them; both empty without a card."""
        path = self.path / "README.md"
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        if not text.startswith("---\n"):
            return "", text
        head, _, body = text.removeprefix("---\n").partition("\n---\n")
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
    for batch in opened.iter_batches(BATCH_ROWS, columns=None if columns is None else list(columns)):
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
    """Writes tables; returns the number of rows by file. loader: file name of a module to copy beside the tables."""
    if loader is not None:
        shutil.copy(Path(loaders.__path__[0]) / loader, folder / loader)
    files = {}
    for table in tables:
        for split in SPLITS:
            about = {"sciagent": source.made_by, "watermark": str(source.watermark), "split": split}
            name = table.file.format(split=split)
            rows = ArrowRows(table.schema.with_metadata(about), table.rows(split), BATCH_ROWS)
            files[name] = rows.write(folder / name)
    return files


OPENING_COLUMNS = ("episode", "group", "task", "purpose", "opening")


class OpeningPrompt(NamedTuple):
    """The first messages of episodes."""

    campaign: str
    task: str
    group: int | None
    """Id of the first group that began with these messages; None for episodes without siblings."""
    messages: list[dict[str, Any]]
    """(m,) with `role` and `content`."""


def prompt_type() -> Any:
    """Returns the type of a column of prompts. Its messages have no key that may be null, since chat templates treat a
    null as a value."""
    import pyarrow as pa

    return pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))


def prompts(source: DatasetFolder, split: Split) -> Iterator[OpeningPrompt]:
    """Yields the openings of a split of `rows`, each once, in the order of the campaigns and episodes."""
    test_tasks = {row["task"] for row in source.rows("test", ["task"])}
    yielded = set()
    for campaign in _campaigns(source):
        for row in source.table(campaign, "trajectories", OPENING_COLUMNS):
            row_split = "test" if row["task"] in test_tasks else "train"
            if row["opening"] is None or row["purpose"] == EVALUATION or row_split != split:
                continue
            key = (row["task"], row["opening"])
            if key not in yielded:
                yielded.add(key)
                yield OpeningPrompt(campaign, row["task"], row["group"], json.loads(row["opening"]))


def _campaigns(source: DatasetFolder) -> list[str]:
    """Returns the names of the campaigns of a data set, in the order of their first rows."""
    names: dict[str, None] = {}
    for split in SPLITS:
        for row in source.rows(split, ["campaign"]):
            names[row["campaign"]] = None
    return list(names)


def write_split(source: DatasetFolder, split: Split, folder: Path, rows: Iterable[Mapping[str, Any]]) -> int:
    """Writes rows of a split, with messages and tools as objects; returns their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    about = {"sciagent": source.made_by, "dataset": source.kind, "watermark": str(source.watermark), "split": split}
    columns = []
    converted = []  # names of the columns with messages or tools
    for column in COLUMNS[source.kind]:
        if column.kind == "messages" or column.name == "tools":
            converted.append(column.name)
            columns.append(column._replace(kind="objects"))
        else:
            columns.append(column)
    target = schema(columns, about)
    # rows hold messages and tools as lists of JSON texts, which pyarrow casts to lists of pa.json_
    text_fields = []
    for field in target:
        text_fields.append(field.with_type(pa.list_(pa.string())) if field.name in converted else field)
    with_texts = pa.schema(text_fields)
    n_rows = 0
    remaining_rows = iter(rows)
    with pq.ParquetWriter(folder / f"{split}.parquet", target, compression="zstd") as writer:
        while True:
            batch = [_with_objects(row, converted) for row in islice(remaining_rows, BATCH_ROWS)]
            if not batch:
                break
            writer.write_table(pa.Table.from_pylist(batch, schema=with_texts).cast(target))
            n_rows += len(batch)
    return n_rows


def _with_objects(row: Mapping[str, Any], names: Iterable[str]) -> Mapping[str, Any]:
    """Returns a row whose named cells are lists of JSON texts; a cell without objects is None."""
    converted = {name: list(_objects(name, row[name])) or None for name in names}
    return {**row, **converted}


def _objects(name: str, cell: Any) -> Iterator[str]:
    """Yields the JSON text of each message or tool; nothing for a cell without tools."""
    objects = json.loads(cell or "[]") if name == "tools" else map(plain_message, cell)
    return (json.dumps(each, ensure_ascii=False) for each in objects)


def plain_message(message: Mapping[str, Any]) -> Cells:
    """Returns a message without empty keys. Arguments that are no JSON object stay the text that the model wrote."""
    fields: Cells = {key: value for key, value in message.items() if value is not None}
    calls = message.get("tool_calls")
    if calls:
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
SAMPLING_COLUMNS = ("episode", "turn", "sampling")
Temperatures = Mapping[tuple[int, int], float | None]
"""Temperatures by episode and turn; None under a grammar."""


@dataclass(frozen=True)
class TokenSequence:
    """A row of token ids as a prompt and a response. Lists with one number per token have the response's length."""

    row: Mapping[str, Any]
    """The row of the data set."""
    prompt_ids: list[int]
    """(p,) the ids before the first sampled token."""
    response_ids: list[int]
    """(r,) the other ids: sampled tokens, and the answers of tools between them."""
    mask: list[int]
    """(r,) 1 where a policy gradient may use the token."""
    behaviour: list[float]
    """(r,) log-probability in the distribution that the token was drawn from; 0 where it was not sampled."""
    advantages: list[float]
    """(r,) 0 where the mask is 0."""
    temperature: float
    """The temperature at which the tokens of the mask were drawn."""
    last: bool
    """Whether no later row of the episode follows."""

    @property
    def group(self) -> str:
        """A name that the sequences of siblings share. An episode without siblings has a name of its own."""
        if self.row["group"] is None:
            return f"{self.row['campaign']}/episode {self.row['episode']}"
        return f"{self.row['campaign']}/group {self.row['group']}"

    @cached_property
    def rewards(self) -> list[float] | None:
        """(r,) the reward of the episode at the last token of its last row; None while it is undecided."""
        outcome = self.row["outcome"]
        if outcome is None:
            return None
        last_reward = outcome if self.last else 0.0
        return [0.0] * (len(self.response_ids) - 1) + [last_reward]


def sequences(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[TokenSequence]:
    """Yields the sequences with at least one token for a policy gradient. Those of an episode follow each other.

    left_out: gets the numbers of turns and rows that are left out, by reason.
    """
    rows = source.rows(split)
    for campaign, of_campaign in groupby(rows, key=lambda row: row["campaign"]):
        temperatures = {
            (row["episode"], row["turn"]): _temperature(json.loads(row["sampling"] or "{}"))
            for row in source.table(campaign, "trajectories", SAMPLING_COLUMNS)
        }
        for _, rows_of_episode in groupby(of_campaign, key=lambda row: row["episode"]):
            kept = []
            for row in rows_of_episode:
                sequence = _sequence(row, temperatures, left_out)
                if sequence is not None:
                    kept.append(sequence)
            for place, each in enumerate(kept):
                is_last = place == len(kept) - 1
                yield replace(each, last=is_last)


def _temperature(sampling: Mapping[str, Any]) -> float | None:
    """Returns the temperature at which a turn was sampled; None under a grammar."""
    return None if sampling.get("grammar") else float(sampling["temperature"])


def _sequence(row: Mapping[str, Any], temperatures: Temperatures, left_out: Counter[str]) -> TokenSequence | None:
    """Returns the sequence of a row as the last one of its episode; None if it has no token for a policy gradient."""
    trained_turns, temperature = _trained_turns(row, temperatures, left_out)
    if temperature is None:
        left_out[NO_GRADIENT] += 1
        return None
    # row["turns"]: number of the turn that sampled each token; CONTEXT for tokens that were not sampled
    sampled_places = [place for place, turn in enumerate(row["turns"]) if turn != CONTEXT]
    start = sampled_places[0]
    mask = [
        int(has_gradient and turn in trained_turns)
        for has_gradient, turn in zip(row["gradient"][start:], row["turns"][start:], strict=True)
    ]
    advantages = row["advantages"][start:]
    return TokenSequence(
        row,
        prompt_ids=row["ids"][:start],
        response_ids=row["ids"][start:],
        mask=mask,
        behaviour=[0.0 if logprob is None else logprob for logprob in row["behaviour"][start:]],
        advantages=[advantage if is_used else 0.0 for advantage, is_used in zip(advantages, mask, strict=True)],
        temperature=temperature,
        last=True,
    )


def _trained_turns(
    row: Mapping[str, Any], temperatures: Temperatures, left_out: Counter[str]
) -> tuple[frozenset[int], float | None]:
    """Returns the turns of a row that are trained, and the temperature that they share; None if there are none."""
    turns_with_gradient: list[int] = []  # each once, in order
    for turn, has_gradient in zip(row["turns"], row["gradient"], strict=True):
        if has_gradient and turn not in turns_with_gradient:
            turns_with_gradient.append(turn)
    temperature_of: dict[int, float] = {}  # by turn, without the turns that a grammar constrained
    n_under_grammar = 0
    for turn in turns_with_gradient:
        temperature = temperatures[row["episode"], turn]
        if temperature is None:
            n_under_grammar += 1
        else:
            temperature_of[turn] = temperature
    left_out[GRAMMAR] += n_under_grammar
    if not temperature_of:
        # adds the key, since an error about an empty export names every reason with its number
        left_out[MIXED] += 0
        return frozenset(), None
    turns = list(temperature_of)
    first_temperature = temperature_of[turns[0]]
    trained_turns = frozenset(turn for turn, own in temperature_of.items() if own == first_temperature)
    left_out[MIXED] += len(temperature_of) - len(trained_turns)
    return trained_turns, first_temperature


ROW_COLUMNS = (*EPISODE, TableColumn("row", "whole", "number of the row in its episode, from 0"))
SEQUENCE_FIELDS = {
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
"""Kind and meaning of the columns for the fields of a `TokenSequence`."""


def token_table(source: DatasetFolder, left_out: Counter[str], names: Mapping[str, str]) -> SplitTable:
    """Returns the table of token rows. names: the names of the columns, by the fields of a sequence."""
    columns = list(ROW_COLUMNS)
    for field, name in names.items():
        kind, about = SEQUENCE_FIELDS[field]
        columns.append(TableColumn(name, kind, about))

    def rows(split: Split) -> Iterator[Mapping[str, Any]]:
        for each in sequences(source, split, left_out):
            cells = {column.name: each.row[column.name] for column in ROW_COLUMNS}
            yield cells | {name: getattr(each, field) for field, name in names.items()}

    return SplitTable("{split}.parquet", schema(columns, {}), rows)
