"""Conversations for SkyRL's supervised fine-tuning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sciagent.training.dataset_columns import schema
from sciagent.training.exports.dataset_folder import DatasetFolder, SplitTable, write_tables
from sciagent.training.exports.formats.trl_sft import COLUMNS, conversations

USAGE = """
With SkyRL 0.3. Each row is a conversation whose last answer is trained, as is SkyRL's default
(`train_on_what=last_assistant_message`). It reads the columns `messages` and `tools`:

```sh
python -m skyrl.train.main_sft strategy=fsdp model.path=MODEL dataset_name=FOLDER dataset_split=train
```
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes conversations; returns the number of rows by file."""
    rows = SplitTable("{split}.parquet", schema(COLUMNS, {}), lambda split: conversations(source, split, left_out))
    return write_tables(source, folder, rows)
