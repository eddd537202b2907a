"""Conversations for verl's supervised fine-tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sciagent.training.columns import schema
from sciagent.training.exports.conversations import COLUMNS, conversations
from sciagent.training.exports.files import SplitTable, write_tables
from sciagent.training.exports.source import DatasetFolder

LOADER = "verl_conversations.py"
USAGE = """
Each row is a conversation whose last answer is trained; earlier answers are context. verl's own `MultiTurnSFTDataset`
would train all answers, and takes no tools as JSON, so `verl_conversations.py` holds a dataset for its trainer:

```sh
torchrun --nproc_per_node=1 -m verl.trainer.sft_trainer model.path=MODEL \\
  data.train_files=FOLDER/train.parquet \\
  data.custom_cls.path=FOLDER/verl_conversations.py data.custom_cls.name=LastAnswers
```
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes conversations and the loader; returns the number of rows by file."""
    rows = SplitTable("{split}.parquet", schema(COLUMNS, {}), lambda split: conversations(source, split, left_out))
    return write_tables(source, folder, rows, loader=LOADER)
