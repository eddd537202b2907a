"""For TRL's trainers: pairs of answers of which one is known to be better for its DPOTrainer (`prompt`, `chosen`,
`rejected`, `tools`), labelled answers for its KTOTrainer (`prompt`, `completion`, `label`, `tools`), and token rows for
its asynchronous GRPO trainer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.dataset_columns import EPISODE, TableColumn, schema
from sciagent.training.exports.read_dataset_and_write_trainer_rows import (
    DatasetFolder,
    SplitTable,
    sequences,
    write_split,
    write_tables,
)
from sciagent.training.task_splits_and_scaffold_limit import SPLITS, Split

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


def write_pairs_or_labels(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes all rows; returns their number by file."""
    return {f"{split}.parquet": write_split(source, split, folder, source.rows(split)) for split in SPLITS}


GRPO_COLUMNS = (
    *EPISODE,
    TableColumn("turn", "whole", "number of the turn in its episode, from 0"),
    TableColumn("input_ids", "wholes", "(t,) token ids up to the end of the turn"),
    TableColumn("completion_mask", "wholes", "(t,) 1 where the token is trained, else 0"),
    TableColumn("old_log_probs", "numbers", "(t,) log-probability with which the token was drawn; 0 where untrained"),
    TableColumn("advantage", "number", "of the turn, in hits or utility"),
    TableColumn("group_id", "whole", "id of the group of siblings"),
    TableColumn("reward", "number", "of the whole episode, in hits or utility; null if undecided"),
    TableColumn("temperature", "number", "at which the turn was sampled"),
    TableColumn("reward_version", "whole", "version of the rewards"),
)
GRPO_USAGE = """
Each row is a `RolloutSample` of the experimental AsyncGRPOTrainer of TRL 1.16: a turn with its own advantage. State the
column `temperature` in `AsyncGRPOConfig`; it has one for all samples.

```python
import numpy as np
from datasets import load_dataset
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

samples = [
    RolloutSample(
        prompt=[], completion=[], metrics={}, model_version=0,
        input_ids=np.array(row["input_ids"]), completion_mask=np.array(row["completion_mask"]),
        old_log_probs=np.array(row["old_log_probs"], np.float32),
        advantage=row["advantage"], group_id=row["group_id"],
    )
    for row in load_dataset("FOLDER", split="train")
]
```
"""


def write_token_rows(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes one `RolloutSample` for each turn that a policy gradient may use; returns the number of rows by file.

    A sample of TRL has one advantage, but a row of the data set has one advantage for each turn. So each turn becomes a
    sample. The sample holds all tokens up to the end of the turn, and only the tokens of the turn itself are trained.
    TRL's loss is a sum over tokens, so cutting a row into turns does not change the loss. TRL computes tokens that
    several samples share only once.
    """
    table = SplitTable("{split}.parquet", schema(GRPO_COLUMNS, {}), lambda split: _samples(source, split, left_out))
    return write_tables(source, folder, table)


def _samples(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    """Yields a sample for each turn that has trained tokens."""
    for sequence in sequences(source, split, left_out):
        n_prompt = len(sequence.prompt_ids)
        turn_of_token = sequence.row["turns"][n_prompt:]
        trained_places: dict[int, list[int]] = {}  # by turn: places of its trained tokens in the response, ascending
        for place, (turn, is_used) in enumerate(zip(turn_of_token, sequence.mask, strict=True)):
            if is_used:
                trained_places.setdefault(turn, []).append(place)
        for turn, places in sorted(trained_places.items()):
            end = places[-1] + 1
            mask = [0] * end
            log_probs = [0.0] * end
            for place in places:
                mask[place] = 1
                log_probs[place] = sequence.behaviour[place]
            yield {column.name: sequence.row[column.name] for column in EPISODE} | {
                "turn": turn,
                "input_ids": sequence.prompt_ids + sequence.response_ids[:end],
                "completion_mask": [0] * n_prompt + mask,
                "old_log_probs": [0.0] * n_prompt + log_probs,
                "advantage": sequence.advantages[places[0]],  # all trained tokens of a turn have the same
                "group_id": sequence.row["group"],
                "reward": sequence.row["outcome"],
                "temperature": sequence.temperature,
                "reward_version": sequence.row["reward_version"],
            }
