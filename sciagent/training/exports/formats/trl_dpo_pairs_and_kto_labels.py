"""Answers of which one is known to be better than another: pairs for TRL's DPOTrainer (`prompt`, `chosen`, `rejected`,
`tools`), and labelled answers for its KTOTrainer (`prompt`, `completion`, `label`, `tools`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sciagent.training.exports.read_dataset_and_write_trainer_rows import DatasetFolder, write_split
from sciagent.training.task_splits_and_scaffold_limit import SPLITS

DPO_USAGE = """
With TRL 1.16; the chat template of the model has to know tools.

```python
from datasets import load_dataset
from trl import DPOConfig, DPOTrainer

data = load_dataset("FOLDER")
args = DPOConfig("trained", max_length=None)
trainer = DPOTrainer("MODEL", args=args, train_dataset=data["train"])
trainer.train()
```
"""
KTO_USAGE = """
With TRL 1.16. State `desirable_weight` and `undesirable_weight` if one label is
much more frequent than the other. The chat template of the model has to know tools.

```python
from datasets import load_dataset
from trl import KTOConfig, KTOTrainer

data = load_dataset("FOLDER")
args = KTOConfig("trained", max_length=None)
trainer = KTOTrainer("MODEL", args=args, train_dataset=data["train"])
trainer.train()
```
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes all rows; returns their number by file."""
    return {f"{split}.parquet": write_split(source, split, folder, source.rows(split)) for split in SPLITS}
