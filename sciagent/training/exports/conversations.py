"""Yields the answers to imitate as conversations: the prompt, and the answer as its last message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from sciagent.training.columns import EPISODE, TableColumn
from sciagent.training.exports.formats.trl_sft import imitated
from sciagent.training.exports.source import DatasetFolder
from sciagent.training.splits import Split

COLUMNS = (
    *EPISODE,
    TableColumn("turn", "whole", "number of the turn in its episode, from 0"),
    TableColumn("messages", "messages", "the prompt, and the answer as the last message"),
    TableColumn("tools", "text", "JSON: the tools that were offered, in OpenAI's format"),
)


def conversations(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yields a row per answer. left_out: as of `imitated`."""
    same = [column.name for column in COLUMNS if column.name != "messages"]
    for row in imitated(source, split, left_out):
        yield {name: row[name] for name in same} | {"messages": [*row["prompt"], *row["completion"]]}
