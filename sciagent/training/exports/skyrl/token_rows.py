"""Rows of token ids in the form of the output of SkyRL's generators, and the openings as prompts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.columns import EPISODE, TableColumn, schema
from sciagent.training.exports.files import SplitTable, write_tables
from sciagent.training.exports.prompts import prompt_type, prompts
from sciagent.training.exports.sequences import sequences
from sciagent.training.exports.source import DatasetFolder
from sciagent.training.splits import Split

LOADER = "skyrl_rows.py"
COLUMNS = (
    *EPISODE,
    TableColumn("row", "whole", "number of the row in its episode, from 0"),
    TableColumn("uid", "text", "equal for siblings, which SkyRL compares"),
    TableColumn("prompt_token_ids", "wholes", "(p,) token ids before the first sampled one"),
    TableColumn("response_ids", "wholes", "(r,) the other token ids"),
    TableColumn("loss_masks", "wholes", "(r,) 1 where a policy gradient may use the token"),
    TableColumn(
        "rollout_logprobs", "numbers", "(r,) log-probability in the distribution that the token was drawn from"
    ),
    TableColumn("rewards", "numbers", "(r,) outcome at the last token of an episode; null if undecided"),
    TableColumn("advantages", "numbers", "(r,) advantage of the turn, in hits or utility"),
    TableColumn("is_last_step", "truth", "whether no later row of the episode follows"),
    TableColumn("temperature", "number", "at which the tokens were drawn"),
)
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
    rows = SplitTable("{split}.parquet", schema(COLUMNS, {}), lambda split: _rows(source, split, left_out))
    openings = SplitTable("prompts.{split}.parquet", _prompt_schema(), lambda split: _prompts(source, split))
    return write_tables(source, folder, rows, openings, loader=LOADER)


def _rows(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    for each in sequences(source, split, left_out):
        yield {column.name: each.row[column.name] for column in EPISODE} | {
            "row": each.row["row"],
            "uid": each.group,
            "prompt_token_ids": each.prompt_ids,
            "response_ids": each.response_ids,
            "loss_masks": each.mask,
            "rollout_logprobs": each.behaviour,
            "rewards": each.rewards,
            "advantages": each.advantages,
            "is_last_step": each.last,
            "temperature": each.temperature,
        }


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
