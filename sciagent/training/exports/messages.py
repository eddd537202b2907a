"""Messages as objects of JSON: no key without a value, and the arguments of calls as objects.

A Parquet struct gives every message every key, with nulls; chat templates take a null for a value. Many templates also
write the arguments as JSON themselves, so that a text would be quoted twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from sciagent.training.building import COLUMNS
from sciagent.training.columns import Cells, TableColumn, schema
from sciagent.training.exports.source import BATCH, DatasetFolder
from sciagent.training.splits import Split


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
    n, found = 0, iter(rows)
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
