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

    (n, p) prompts; (n, r) responses, response_mask, old_log_probs, rollout_log_probs, advantages, returns; (n, p + r)
    input_ids, attention_mask, position_ids; (n, r) token_level_scores and token_level_rewards, if no outcome is open.
    `uid` is equal for siblings. temperature: the rows drawn at it; None: all. Raises ValueError if there are several
    temperatures, since verl takes one for a batch, or no rows.
    """
    rows = _rows(path, temperature)

    def padded(name: str, fill: float, kind: torch.dtype, left: bool = False) -> torch.Tensor:
        return _padded([row[name] for row in rows], fill, kind, left)

    for row in rows:
        row["of_prompt"] = [1] * len(row["prompts"])
        row["of_response"] = [1] * len(row["responses"])
    prompts = padded("prompts", pad_token_id, torch.long, left=True)
    responses = padded("responses", pad_token_id, torch.long)
    attention = torch.cat([padded("of_prompt", 0, torch.long, left=True), padded("of_response", 0, torch.long)], 1)
    behaviour = padded("rollout_log_probs", 0, torch.float32)
    advantages = padded("advantages", 0, torch.float32)
    tensors = {
        "prompts": prompts,
        "responses": responses,
        "response_mask": padded("response_mask", 0, torch.long),
        "input_ids": torch.cat([prompts, responses], 1),
        "attention_mask": attention,
        "position_ids": compute_position_id_with_mask(attention),
        "rollout_log_probs": behaviour,
        "old_log_probs": behaviour.clone(),
        "advantages": advantages,
        "returns": advantages.clone(),
    }
    if all(row["token_level_scores"] is not None for row in rows):
        tensors["token_level_scores"] = padded("token_level_scores", 0, torch.float32)
        tensors["token_level_rewards"] = tensors["token_level_scores"].clone()
    names = {"uid": np.array([row["uid"] for row in rows], dtype=object)}
    about: dict[str, Any] = {"temperature": rows[0]["temperature"]}
    return DataProto.from_dict(tensors=tensors, non_tensors=names, meta_info=about)


def _padded(lists: Sequence[Sequence[float]], fill: float, kind: torch.dtype, left: bool) -> torch.Tensor:
    """Returns (n, longest) the lists, padded on the left or on the right."""
    width = max(map(len, lists))
    table = torch.full((len(lists), width), fill, dtype=kind)
    for place, each in zip(table, lists, strict=True):
        there = slice(width - len(each), width) if left else slice(len(each))
        place[there] = torch.tensor(each, dtype=kind)
    return table


def _rows(path: str, temperature: float | None) -> list[Any]:
    rows = pq.read_table(path).to_pylist()
    found = sorted({row["temperature"] for row in rows})
    if temperature is None and len(found) > 1:
        raise ValueError(f"{path} has rows of temperatures {found}; state one of them")
    rows = [row for row in rows if temperature in (None, row["temperature"])]
    if not rows:
        raise ValueError(f"{path} has no rows{'' if temperature is None else f' of temperature {temperature:g}'}")
    return rows
