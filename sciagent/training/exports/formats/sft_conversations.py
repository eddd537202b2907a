"""Conversations for supervised fine-tuning by TRL, verl and SkyRL.

TRL takes `prompt`, `completion` and `tools`. The others take the prompt with the answer as its last message.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.dataset_columns import EPISODE, TableColumn, schema
from sciagent.training.exports.read_dataset_and_write_trainer_rows import (
    DatasetFolder,
    SplitTable,
    plain_message,
    write_split,
    write_tables,
)
from sciagent.training.task_splits_and_scaffold_limit import SPLITS, Split

HINTED = "rows: a failed answer with a hint"
TRL_USAGE = """
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


def write_trl(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
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


VERL_COLUMNS = tuple(
    column._replace(kind="text", about=f"JSON: {column.about}") if column.name == "messages" else column
    for column in COLUMNS
)
"""The columns of conversations, with the messages as one JSON text."""
VERL_LOADER = "verl_conversations.py"
VERL_USAGE = """
With verl 0.9. Each row is a conversation whose last answer is trained; earlier answers are context. verl's own
`MultiTurnSFTDataset` would train all answers, also those that failed, so `verl_conversations.py` has a dataset for its
trainer:

```sh
torchrun --nproc_per_node=1 -m verl.trainer.sft_trainer model.path=MODEL \\
  data.train_files=FOLDER/train.parquet data.max_length=8192 \\
  data.custom_cls.path=FOLDER/verl_conversations.py data.custom_cls.name=LastAnswers
```
"""


def write_verl(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes conversations and the loader; returns the number of rows by file."""
    rows = SplitTable("{split}.parquet", schema(VERL_COLUMNS, {}), lambda split: _verl_rows(source, split, left_out))
    return write_tables(source, folder, rows, loader=VERL_LOADER)


def _verl_rows(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    for row in conversations(source, split, left_out):
        messages = [plain_message(message) for message in row["messages"]]
        yield {**row, "messages": json.dumps(messages, ensure_ascii=False)}


SKYRL_USAGE = """
With SkyRL 0.3. Each row is a conversation whose last answer is trained, as is SkyRL's default
(`train_on_what=last_assistant_message`). It reads the columns `messages` and `tools`:

```sh
python -m skyrl.train.main_sft strategy=fsdp model.path=MODEL dataset_name=FOLDER dataset_split=train
```
"""


def write_skyrl(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes conversations; returns the number of rows by file."""
    rows = SplitTable("{split}.parquet", schema(COLUMNS, {}), lambda split: conversations(source, split, left_out))
    return write_tables(source, folder, rows)
