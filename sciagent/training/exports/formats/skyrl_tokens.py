"""Rows of token ids in the form of the output of SkyRL's generators, and the openings as prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.exports.dataset_folder import (
    DatasetFolder,
    SplitTable,
    prompt_type,
    prompts,
    token_table,
    write_tables,
)
from sciagent.training.task_splits_and_scaffold_limit import Split

LOADER = "skyrl_rows.py"
NAMES = {
    "group": "uid",
    "prompt_ids": "prompt_token_ids",
    "response_ids": "response_ids",
    "mask": "loss_masks",
    "behaviour": "rollout_logprobs",
    "rewards": "rewards",
    "advantages": "advantages",
    "last": "is_last_step",
    "temperature": "temperature",
}
"""Columns by the fields of a sequence."""
USAGE = """
With SkyRL 0.3. `train.parquet` and `test.parquet` hold recorded episodes. `skyrl_rows.py` reads them into what SkyRL
works on:

```python
import sys
sys.path.insert(0, "FOLDER")
from skyrl_rows import generator_output, training_input
output = generator_output("FOLDER/train.parquet")             # for SkyRL's own estimators of the advantage
batch = training_input("FOLDER/train.parquet", tokenizer)     # a TrainingInputBatch with the advantages of the rows
```

An episode may have several rows: set `generator.step_wise_trajectories=true`. `generator_output` leaves out episodes
whose outcome is undecided. `prompts.train.parquet` and `prompts.test.parquet` are for `PromptDataset`; state the
environment in `environment.env_class`.
"""


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes token rows, prompts and the loader; returns the number of rows by file."""
    rows = token_table(source, left_out, NAMES)
    openings = SplitTable("prompts.{split}.parquet", _prompt_schema(), lambda split: _prompts(source, split))
    return write_tables(source, folder, rows, openings, loader=LOADER)


def _prompts(source: DatasetFolder, split: Split) -> Iterator[Mapping[str, Any]]:
    for prompt in prompts(source, split):
        yield {
            "prompt": prompt.messages,
            "data_source": f"sciagent/{prompt.campaign}",
            "task": prompt.task,
            "group": prompt.group,
        }


def _prompt_schema() -> Any:
    import pyarrow as pa

    fields = [("prompt", prompt_type()), ("data_source", pa.string()), ("task", pa.string()), ("group", pa.int64())]
    return pa.schema(fields)
