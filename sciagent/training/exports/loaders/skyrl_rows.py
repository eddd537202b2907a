"""Recorded episodes for SkyRL: as the output of a generator, and as a batch of the trainer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow.parquet as pq
from skyrl.backends.skyrl_train.training_batch import TrainingInputBatch
from skyrl.train.dataset.preprocess import convert_prompts_responses_to_batch_tensors
from skyrl.train.generators.base import GeneratorOutput, TrajectoryID

FIELDS = ("prompt_token_ids", "response_ids", "rewards", "loss_masks", "rollout_logprobs", "is_last_step")


def generator_output(path: str, temperature: float | None = None) -> GeneratorOutput:
    """Returns the rows of a file as if a generator had just made them, without episodes whose outcome is undecided.

    The trainer's uids are `[each.instance_id for each in output["trajectory_ids"]]`. temperature: as in
    `training_input`.
    """
    rows = [row for row in _rows(path, temperature) if row["rewards"] is not None]
    if not rows:
        raise ValueError(f"{path}: no episode has a decided outcome")
    output: dict[str, Any] = {name: [row[name] for row in rows] for name in FIELDS}
    trajectories = [TrajectoryID(row["uid"], row["sibling"] or 0) for row in rows]  # 0: the episode has no siblings
    output |= {"trajectory_ids": trajectories, "stop_reasons": None, "rollout_metrics": None}
    return GeneratorOutput(**output)


def training_input(path: str, tokenizer: Any, temperature: float | None = None) -> TrainingInputBatch:
    """Returns the rows of a file as a batch with advantages, padded on the left as SkyRL does.

    Its tensors for n rows: (n, s) sequences, attention_mask; (n, r) response_mask, loss_mask, rollout_logprobs,
    action_log_probs, advantages, returns. The action_log_probs are the rollout_logprobs, of the model that sampled.
    temperature: only rows that were drawn at it; None: all rows. Raises ValueError for no rows, or for rows of several
    temperatures, since SkyRL takes one for a batch.
    """
    rows = _rows(path, temperature)
    sequences, attention, response, advantages, mask, behaviour, _ = convert_prompts_responses_to_batch_tensors(
        tokenizer,
        [row["prompt_token_ids"] for row in rows],
        [row["response_ids"] for row in rows],
        [row["advantages"] for row in rows],
        [row["loss_masks"] for row in rows],
        [row["rollout_logprobs"] for row in rows],
    )
    batch = TrainingInputBatch(
        {
            "sequences": sequences,
            "attention_mask": attention,
            "response_mask": response,
            "loss_mask": mask,
            "rollout_logprobs": behaviour,
            "action_log_probs": behaviour.clone(),
            "advantages": advantages,
            "returns": advantages.clone(),
        }
    )
    uids = [row["uid"] for row in rows]
    last = [row["is_last_step"] for row in rows]
    batch.metadata = {"uids": uids, "is_last_step": last, "response_length": int(response.shape[1])}
    return batch


def _rows(path: str, temperature: float | None) -> list[Mapping[str, Any]]:
    """Returns the rows of a file, all drawn at one temperature. Raises ValueError, as `training_input` does."""
    rows = pq.read_table(path).to_pylist()
    temperatures = sorted({row["temperature"] for row in rows})
    if temperature is None and len(temperatures) > 1:
        raise ValueError(f"{path} has rows of temperatures {temperatures}; state one of them")
    chosen_rows = [row for row in rows if temperature is None or row["temperature"] == temperature]
    if not chosen_rows:
        which = "" if temperature is None else f" of temperature {temperature:g}"
        raise ValueError(f"{path} has no rows{which}")
    return chosen_rows
