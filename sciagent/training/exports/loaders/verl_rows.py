"""Recorded episodes as a batch of verl's trainers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from verl import DataProto
from verl.utils.model import compute_position_id_with_mask


def load(path: str, pad_token_id: int, temperature: float | None = None) -> DataProto:
    """Returns the n rows of a file: prompts of p ids, padded on the left, and responses of r ids, padded on the right.

    Its tensors: (n, p) prompts; (n, r) responses, response_mask, old_log_probs, rollout_log_probs, advantages, returns;
    (n, p + r) input_ids, attention_mask, position_ids; (n, r) token_level_scores and token_level_rewards, unless the
    outcome of an episode is undecided. Episodes that are compared with each other have the same `uid`. temperature:
    only rows that were drawn at it; None: all rows. Raises ValueError for no rows, or for rows of several temperatures,
    since verl takes one for a batch.
    """
    rows = _rows(path, temperature)

    def padded(name: str, fill: float, kind: torch.dtype, left: bool = False) -> torch.Tensor:
        return _padded([row[name] for row in rows], fill, kind, left)

    for row in rows:
        row["prompt_attention"] = [1] * len(row["prompts"])
        row["response_attention"] = [1] * len(row["responses"])
    prompts = padded("prompts", pad_token_id, torch.long, left=True)
    responses = padded("responses", pad_token_id, torch.long)
    prompt_attention = padded("prompt_attention", 0, torch.long, left=True)
    response_attention = padded("response_attention", 0, torch.long)
    attention = torch.cat([prompt_attention, response_attention], 1)
    log_probs = padded("rollout_log_probs", 0, torch.float32)  # by the model that sampled
    advantages = padded("advantages", 0, torch.float32)
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "response_mask": padded("response_mask", 0, torch.long),
        "input_ids": torch.cat([prompts, responses], 1),
        "attention_mask": attention,
        "position_ids": compute_position_id_with_mask(attention),
        "rollout_log_probs": log_probs,
        "old_log_probs": log_probs.clone(),
        "advantages": advantages,
        "returns": advantages.clone(),
    }
    if all(row["token_level_scores"] is not None for row in rows):
        tensors["token_level_scores"] = padded("token_level_scores", 0, torch.float32)
        tensors["token_level_rewards"] = tensors["token_level_scores"].clone()
    uids = {"uid": np.array([row["uid"] for row in rows], dtype=object)}
    meta_info: dict[str, Any] = {"temperature": rows[0]["temperature"]}
    return DataProto.from_dict(tensors=tensors, non_tensors=uids, meta_info=meta_info)


def _padded(lists: Sequence[Sequence[float]], fill: float, kind: torch.dtype, left: bool) -> torch.Tensor:
    """Returns (n, length of the longest list) the lists, padded with `fill` on the left or on the right."""
    width = max(map(len, lists))
    table = torch.full((len(lists), width), fill, dtype=kind)
    for table_row, values in zip(table, lists, strict=True):
        start = width - len(values) if left else 0
        end = start + len(values)
        table_row[start:end] = torch.tensor(values, dtype=kind)
    return table


def _rows(path: str, temperature: float | None) -> list[Any]:
    """Returns the rows of a file, all drawn at one temperature. Raises ValueError, as `load` does."""
    rows = pq.read_table(path).to_pylist()
    temperatures = sorted({row["temperature"] for row in rows})
    if temperature is None and len(temperatures) > 1:
        raise ValueError(f"{path} has rows of temperatures {temperatures}; state one of them")
    chosen_rows = [row for row in rows if temperature is None or row["temperature"] == temperature]
    if not chosen_rows:
        which = "" if temperature is None else f" of temperature {temperature:g}"
        raise ValueError(f"{path} has no rows{which}")
    return chosen_rows
