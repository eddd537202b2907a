"""Any data set for Hugging Face's `datasets`, with the tables of the campaigns as further configurations."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from sciagent.training.exports.read_dataset_and_write_trainer_rows import DatasetFolder, write_split
from sciagent.training.task_splits_and_scaffold_limit import SPLITS

USAGE = """
With `datasets` from 4.7 on, which reads messages and tools as objects. Data sets of `rows` have the configurations
`trajectories`, `evidence` and `rewards` beside the rows.

```python
from datasets import load_dataset

data = load_dataset("FOLDER")
```
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes all rows and the tables; returns the number of rows by file."""
    files = {f"{split}.parquet": write_split(source, split, folder, source.rows(split)) for split in SPLITS}
    for name, n in source.tables().items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(source.path / name, folder / name)
        files[name] = n
    return files
