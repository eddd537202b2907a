"""Conversations for TRL's SFTTrainer: `prompt`, `completion` and `tools`.

Other formats take the same answers from `conversations`: the prompt, with the answer as its last message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.dataset_columns import EPISODE, TableColumn
from sciagent.training.exports.dataset_folder import DatasetFolder, write_split
from sciagent.training.task_splits_and_scaffold_limit import SPLITS, Split

HINTED = "rows: a failed answer with a hint"
USAGE = """
With TRL 1.16, which trains the completion only; `max_length=None`, since it would cut long prompts and with them the
answer. The chat template of the model has to know tools.

```python
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

data = load_dataset("FOLDER")
args = SFTConfig("trained", max_length=None)
trainer = SFTTrainer("MODEL", args, train_dataset=data["train"])
trainer.train()
```
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes verified and relabelled answers; returns the number of rows by file."""
    return {
        f"{split}.parquet": write_split(source, split, folder, imitated(source, split, left_out)) for split in SPLITS
    }


def imitated(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yields the rows without a hint: an answer with a hint has failed, and is only for a teacher that sees the hint.

    left_out: gets the number of rows with a hint.
    """
    for row in source.rows(split):
        if row.get("how") == "hinted":
            left_out[HINTED] += 1
        else:
            yield row


COLUMNS = (
    *EPISODE,
    TableColumn("turn", "whole", "number of the turn in its episode, from 0"),
    TableColumn("messages", "messages", "the prompt, and the answer as the last message"),
    TableColumn("tools", "text", "JSON: the tools that were offered, in OpenAI's format"),
)


def conversations(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yields a row per answer. left_out: as in `imitated`."""
    copied = [column.name for column in COLUMNS if column.name != "messages"]
    for row in imitated(source, split, left_out):
        yield {name: row[name] for name in copied} | {"messages": [*row["prompt"], *row["completion"]]}
