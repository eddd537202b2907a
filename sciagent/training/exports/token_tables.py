"""The table of token rows for packages that name the same fields differently."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sciagent.training.columns import EPISODE, TableColumn, schema
from sciagent.training.exports.files import SplitTable
from sciagent.training.exports.sequences import sequences
from sciagent.training.exports.source import DatasetFolder
from sciagent.training.splits import Split

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
"""Kind and meaning of the fields of a `TokenSequence`."""


def token_table(source: DatasetFolder, left_out: Counter[str], names: Mapping[str, str]) -> SplitTable:
    """Returns the table of token rows. names: columns by the fields of a sequence."""
    columns = (*PLACE, *(TableColumn(name, *FIELDS[field]) for field, name in names.items()))

    def rows(split: Split) -> Iterator[Mapping[str, Any]]:
        for each in sequences(source, split, left_out):
            cells = {column.name: each.row[column.name] for column in PLACE}
            yield cells | {name: getattr(each, field) for field, name in names.items()}

    return SplitTable("{split}.parquet", schema(columns, {}), rows)
