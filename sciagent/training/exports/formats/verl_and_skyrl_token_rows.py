"""Rows of token ids for policy gradients by verl and SkyRL, and the openings as prompts for their own rollouts.

SkyRL's rows have the form of the output of its generators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sciagent.training.exports.read_dataset_and_write_trainer_rows import (
    DatasetFolder,
    SplitTable,
    prompt_type,
    prompts,
    token_table,
    write_tables,
)
from sciagent.training.task_splits_and_scaffold_limit import Split

VERL_LOADER = "verl_rows.py"
VERL_COLUMNS = {
    "group": "uid",
    "prompt_ids": "prompts",
    "response_ids": "responses",
    "mask": "response_mask",
    "behaviour": "rollout_log_probs",
    "advantages": "advantages",
    "rewards": "token_level_scores",
    "temperature": "temperature",
}
"""Columns by the fields of a sequence."""
VERL_USAGE = """
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


def write_verl(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes token rows, prompts and the loader; returns the number of rows by file."""
    rows = token_table(source, left_out, VERL_COLUMNS)
    openings = SplitTable("prompts.{split}.parquet", _verl_prompt_schema(), lambda split: _verl_prompts(source, split))
    return write_tables(source, folder, rows, openings, loader=VERL_LOADER)


def _verl_prompts(source: DatasetFolder, split: Split) -> Iterator[Mapping[str, Any]]:
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


def _verl_prompt_schema() -> Any:
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


SKYRL_LOADER = "skyrl_rows.py"
SKYRL_COLUMNS = {
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
SKYRL_USAGE = """
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


def write_skyrl(source: DatasetFolder, folder: Path, left_out: Counter[str]) -> Mapping[str, int]:
    """Writes token rows, prompts and the loader; returns the number of rows by file."""
    rows = token_table(source, left_out, SKYRL_COLUMNS)
    openings = SplitTable(
        "prompts.{split}.parquet", _skyrl_prompt_schema(), lambda split: _skyrl_prompts(source, split)
    )
    return write_tables(source, folder, rows, openings, loader=SKYRL_LOADER)


def _skyrl_prompts(source: DatasetFolder, split: Split) -> Iterator[Mapping[str, Any]]:
    for prompt in prompts(source, split):
        yield {
            "prompt": prompt.messages,
            "data_source": f"sciagent/{prompt.campaign}",
            "task": prompt.task,
            "group": prompt.group,
        }


def _skyrl_prompt_schema() -> Any:
    import pyarrow as pa

    fields = [("prompt", prompt_type()), ("data_source", pa.string()), ("task", pa.string()), ("group", pa.int64())]
    return pa.schema(fields)
