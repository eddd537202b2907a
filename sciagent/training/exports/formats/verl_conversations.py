"""Conversations for verl's supervised fine-tuning."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.dataset_columns import schema
from sciagent.training.exports.dataset_folder import DatasetFolder, SplitTable, plain_message, write_tables
from sciagent.training.exports.formats.trl_sft import COLUMNS, conversations
from sciagent.training.task_splits_and_scaffold_limit import Split

COLUMNS_WITH_JSON = tuple(
    column._replace(kind="text", about=f"JSON: {column.about}") if column.name == "messages" else column
    for column in COLUMNS
)
"""The columns of conversations, with the messages as one JSON text."""
LOADER = "verl_conversations.py"
USAGE = """
With verl 0.9. Each row is a conversation whose last answer is trained; earlier answers are context. verl's own
`MultiTurnSFTDataset` would train all answers, also those that failed, so `verl_conversations.py` has a dataset for its
trainer:

```sh
torchrun --nproc_per_node=1 -m verl.trainer.sft_trainer model.path=MODEL \\
  data.train_files=FOLDER/train.parquet data.max_length=8192 \\
  data.custom_cls.path=FOLDER/verl_conversations.py data.custom_cls.name=LastAnswers
```
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes conversations and the loader; returns the number of rows by file."""
    rows = SplitTable("{split}.parquet", schema(COLUMNS_WITH_JSON, {}), lambda split: _rows(source, split, left_out))
    return write_tables(source, folder, rows, loader=LOADER)


def _rows(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    for row in conversations(source, split, left_out):
        messages = [plain_message(message) for message in row["messages"]]
        yield {**row, "messages": json.dumps(messages, ensure_ascii=False)}
