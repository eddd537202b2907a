"""A dataset for verl's SFT trainer that trains the last answer of each conversation."""

from __future__ import annotations

import json
from typing import Any

import pyarrow.parquet as pq
import torch
from torch.utils.data import Dataset


class LastAnswers(Dataset):  # type: ignore[misc]
    """Conversations as token ids, of which only the last answer is trained.

    Select this class by `data.custom_cls.path` and `data.custom_cls.name`. The whole conversation is rendered at once,
    since some chat templates join the answers of tools, and the model sees them joined.
    """

    def __init__(
        self, parquet_files: Any, tokenizer: Any, config: Any = None, processor: Any = None, max_samples: int = -1
    ) -> None:
        """The parameters are as in verl's `MultiTurnSFTDataset`; a negative `max_samples` means all rows.

        Raises ValueError for another `pad_mode` than no_padding.
        """
        config = config or {}
        mode = config.get("pad_mode", "no_padding")
        if mode != "no_padding":
            raise ValueError(f"data.pad_mode is {mode}; LastAnswers takes no_padding, the default of verl's trainer")
        self._tokenizer = tokenizer
        self._template_arguments = dict(config.get("apply_chat_template_kwargs") or {})
        self._max_length = int(config.get("max_length", 1024))  # the default of verl
        self._truncation = config.get("truncation", "error")
        files = [parquet_files] if isinstance(parquet_files, str) else list(parquet_files)
        rows: list[Any] = []
        for file in files:
            rows.extend(pq.read_table(file, columns=["messages", "tools"]).to_pylist())
        self._rows = rows if max_samples < 0 else rows[:max_samples]

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, item: int) -> dict[str, torch.Tensor]:
        """Returns (t,) `input_ids`, `position_ids`, and `loss_mask`, which is 1 for the ids of the last answer.

        Raises ValueError for a conversation that is too long, unless it is to be cut. Raises ValueError also if the
        template renders the prompt in another way once an answer follows.
        """
        row = self._rows[item]
        messages = json.loads(row["messages"])
        tools = json.loads(row["tools"])
        ids = self._render(messages, tools, add_generation_prompt=False)
        prompt = self._render(messages[:-1], tools, add_generation_prompt=True)
        if ids[: len(prompt)] != prompt:
            raise ValueError(f"row {item}: the chat template renders the prompt in another way once an answer follows")
        mask = [0] * len(prompt) + [1] * (len(ids) - len(prompt))
        if len(ids) > self._max_length:
            if self._truncation == "error":
                raise ValueError(f"row {item} has {len(ids)} tokens; data.max_length is {self._max_length}")
            start = len(ids) - self._max_length if self._truncation == "left" else 0
            end = start + self._max_length
            ids = ids[start:end]
            mask = mask[start:end]
        return {"input_ids": torch.tensor(ids), "position_ids": torch.arange(len(ids)), "loss_mask": torch.tensor(mask)}

    def _render(self, messages: list[Any], tools: Any, *, add_generation_prompt: bool) -> list[int]:
        """Returns the token ids of messages. tools: schemas of the tools; empty if there are none."""
        arguments = {"add_generation_prompt": add_generation_prompt, **self._template_arguments}
        text = self._tokenizer.apply_chat_template(messages, tools=tools or None, tokenize=False, **arguments)
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])
