"""Rows of token ids for verl's policy loss, and the openings as prompts for its own rollouts."""

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

LOADER = "verl_rows.py"
COLUMNS = (
    *EPISODE,
    TableColumn("row", "whole", "number of the row in its episode, from 0"),
    TableColumn("uid", "text", "equal for siblings, which verl compares"),
    TableColumn("prompts", "wholes", "(p,) token ids before the first sampled one"),
    TableColumn("responses", "wholes", "(r,) the other token ids"),
    TableColumn("response_mask", "wholes", "(r,) 1 where a policy gradient may use the token"),
    TableColumn(
        "rollout_log_probs", "numbers", "(r,) log-probability in the distribution that the token was drawn from"
    ),
    TableColumn("advantages", "numbers", "(r,) advantage of the turn, in hits or utility"),
    TableColumn("token_level_scores", "numbers", "(r,) outcome at the last token of an episode; null if undecided"),
    TableColumn("temperature", "number", "at which the tokens were drawn"),
)
USAGE = """
With verl 0.9. `train.parquet` and `test.parquet` hold recorded episodes. `verl_rows.py` makes a `DataProto` of them
with the keys of verl's trainers; `old_log_probs` are those of the model that sampled, and `advantages` those of
the rows:

```python
from verl.utils.import_utils import load_extern_object
load = load_extern_object("FOLDER/verl_rows.py", "load")
batch = load("FOLDER/train.parquet", pad_token_id=tokenizer.pad_token_id)
```

`prompts.train.parquet` and `prompts.test.parquet` are for `RLHFDataset`, from which verl samples itself
(`data.train_files=FOLDER/prompts.train.parquet`). verl has no reward function for them: state yours in
`reward.custom_reward_function.path`. `reward_model.ground_truth` is the hash of the goal.
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
            "prompts": each.prompt_ids,
            "responses": each.response_ids,
            "response_mask": each.mask,
            "rollout_log_probs": each.behaviour,
            "advantages": each.advantages,
            "token_level_scores": each.rewards,
            "temperature": each.temperature,
        }


def _prompts(source: DatasetFolder, split: Split) -> Iterator[Mapping[str, Any]]:
    for index, prompt in enumerate(prompts(source, split)):
        yield {
            "data_source": f"sciagent/{prompt.campaign}",
            "prompt": prompt.messages,
            "ability": "discovery",
            "reward_model": {"style": "rule", "ground_truth": prompt.task},
            "extra_info": {
                "split": split,
                "index": index,
                "campaign": prompt.campaign,
                "group": prompt.group,
                "task": prompt.task,
            },
        }


def _prompt_schema() -> Any:
    import pyarrow as pa

    text = pa.string()
    extra = [("split", text), ("index", pa.int64()), ("campaign", text), ("group", pa.int64()), ("task", text)]
    fields = [
        ("data_source", text),
        ("prompt", prompt_type()),
        ("ability", text),
        ("reward_model", pa.struct([("style", text), ("ground_truth", text)])),
        ("extra_info", pa.struct(extra)),
    ]
    return pa.schema(fields)
