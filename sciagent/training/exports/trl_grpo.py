"""Token rows for TRL's AsyncGRPOTrainer: one `RolloutSample` for each turn that a policy gradient may use.

A sample of TRL has one advantage, a row of ours one for each turn. So a turn becomes a sample: the tokens up to its
end, of which only its own are trained. TRL's loss is a sum over tokens, so cutting a row into turns does not change it,
and TRL computes the tokens that samples share once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from sciagent.agent.trace.linearise import CONTEXT
from sciagent.report.export.parquet import ArrowRows
from sciagent.training.columns import EPISODE, Cells, TableColumn, schema
from sciagent.training.exports.source import DatasetFolder
from sciagent.training.splits import SPLITS, Split
from sciagent.training.token_rows import GROUP

COLUMNS = (
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
GRAMMAR = "turns: sampled under a grammar, which TRL cannot make again"
UNUSED = "turns: no policy gradient may use them"
USAGE = """
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


def write(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes a sample for each turn; returns the number of samples by file."""
    files = {}
    for split in SPLITS:
        about = {"sciagent": source.made_by, "watermark": str(source.watermark), "split": split}
        rows = ArrowRows(schema(COLUMNS, about), _samples(source, split, left_out), GROUP)
        files[f"{split}.parquet"] = rows.write(folder / f"{split}.parquet")
    return files


def _samples(source: DatasetFolder, split: Split, left_out: Counter[str]) -> Iterator[Mapping[str, Any]]:
    for campaign, rows in groupby(source.rows(split), key=lambda row: row["campaign"]):
        turns = source.table(campaign, "trajectories", ("episode", "turn", "sampling"))
        sampling = {(turn["episode"], turn["turn"]): json.loads(turn["sampling"] or "{}") for turn in turns}
        for row in rows:
            for turn in sorted(set(row["turns"]) - {CONTEXT}):
                trained = [used and of == turn for used, of in zip(row["gradient"], row["turns"], strict=True)]
                settings = sampling[row["episode"], turn]
                if not any(trained):
                    left_out[UNUSED] += 1
                elif settings["grammar"]:
                    left_out[GRAMMAR] += 1
                else:
                    yield _sample(row, trained) | {"turn": turn, "temperature": settings["temperature"]}


def _sample(row: Mapping[str, Any], trained: list[bool]) -> Cells:
    """Returns the sample of a turn. trained: (t,) whether a token of the row is trained in it."""
    end = len(trained) - trained[::-1].index(True)
    drawn = zip(row["behaviour"][:end], trained[:end], strict=True)
    return {column.name: row[column.name] for column in EPISODE} | {
        "input_ids": row["ids"][:end],
        "completion_mask": [int(each) for each in trained[:end]],
        "old_log_probs": [logprob if used else 0.0 for logprob, used in drawn],
        "advantage": row["advantages"][trained.index(True)],
        "group_id": row["group"],
        "reward": row["outcome"],
        "reward_version": row["reward_version"],
    }
