"""One step of each trainer of TRL on exported data sets, by the code of their cards, in an environment with TRL.

Use: python -m tests.support.trl_steps EXPORTS MODEL. EXPORTS holds folders named after their formats. Prints a line of
JSON: by format, the loss that the trainer logged, whether its weights moved, and what else a test compares.
"""

from __future__ import annotations

import json
import queue
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import load_dataset
from torch.nn.functional import scaled_dot_product_attention
from transformers import AutoModelForCausalLM
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer, async_grpo_trainer, packing
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from tests.support.trl_settings import ONE_STEP

Told = dict[str, Any]


def card_code(export: Path, model: str) -> Told:
    """Returns the variables that the code in the card of an export makes, with the settings of this test."""
    [code] = re.findall(r"```python\n(.*?)```", (export / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    variables: Told = {"more": ONE_STEP | {"per_device_train_batch_size": 64}}  # all rows of these small data sets
    code = code.replace("MODEL", model).replace("max_length=None", "max_length=None, **more")
    exec(code.removesuffix("trainer.train()\n"), variables)
    return variables


def sft(export: Path, model: str) -> Told:
    trainer = card_code(export, model)["trainer"]
    rows = [{name: row[name] for name in ("input_ids", "labels")} for row in trainer.train_dataset]
    reference = AutoModelForCausalLM.from_pretrained(model)
    picked = [
        _logprobs(reference, row["input_ids"])[place - 1]
        for row in rows
        for place, label in enumerate(row["labels"])
        if label != -100
    ]
    return _step(trainer) | {"rows": rows, "expected": -float(np.mean(picked))}


def pairs_or_labels(export: Path, model: str) -> Told:
    return _step(card_code(export, model)["trainer"])


def grpo(export: Path, model: str) -> Told:
    """Runs AsyncGRPOTrainer as it is, but for what needs a GPU: the attention kernel, and the name of the device."""
    packing._flash_attn = lambda: _TorchAttention
    async_grpo_trainer.get_peak_flops_per_device = lambda accelerator, dtype: None
    samples, data = card_code(export, model)["samples"], load_dataset(str(export), split="train")
    args = AsyncGRPOConfig(
        "grpo",
        **ONE_STEP,
        per_device_train_batch_size=len(samples),
        token_budget=0,
        epsilon=1.0,
        epsilon_high=1e9,
        temperature=data[0]["temperature"],
    )
    worker, transfer = _Recorded(samples), _NoTransfer()
    return _step(
        AsyncGRPOTrainer(model, args=args, train_dataset=data, rollout_worker=worker, weight_transfer=transfer)
    )


class _Recorded:
    """A rollout worker of TRL whose rollouts are there already."""

    def __init__(self, samples: Sequence[RolloutSample]) -> None:
        self.rollout_buffer: queue.Queue[RolloutSample] = queue.Queue()
        self.metrics_queue: queue.Queue[Mapping[str, float]] = queue.Queue()
        for sample in [*samples, *samples]:  # the trainer reads a batch ahead
            self.rollout_buffer.put(sample)

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def update_model_version(self, model_version: int) -> None: ...
    def check_health(self, stale_after_s: float) -> None:
        raise RuntimeError("all recorded samples are used up")


class _NoTransfer:
    """No server gets the weights."""

    def init_weight_transfer(self) -> None: ...
    def pause(self) -> None: ...
    def send_weights(self, iterator: Any) -> None: ...
    def resume(self) -> None: ...
    def destroy(self) -> None: ...


class _TorchAttention:
    """The varlen attention of the kernel by its signature: causal, aligned to the end of the keys."""

    @staticmethod
    def flash_attn_varlen_func(
        q: Any, k: Any, v: Any, starts_q: Any, starts_k: Any, max_q: int, max_k: int, *, softmax_scale: Any, **_: Any
    ) -> Any:
        parts = []
        for i in range(len(starts_q) - 1):
            of_q, of_k = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i + 1])
            one, keys, values = (x.transpose(0, 1)[None] for x in (q[of_q], k[of_k], v[of_k]))
            n, m = one.shape[2], keys.shape[2]
            seen = torch.ones(n, m, dtype=torch.bool).tril(m - n)
            done = scaled_dot_product_attention(one, keys, values, attn_mask=seen, scale=softmax_scale, enable_gqa=True)
            parts.append(done[0].transpose(0, 1))
        return torch.cat(parts)


def _logprobs(model: Any, ids: Sequence[int]) -> Any:
    """Returns (t-1,) log-probabilities of the ids after the first."""
    with torch.inference_mode():
        table = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0, :-1].float(), dim=-1)
    return table[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].numpy()


def _step(trainer: Any) -> Told:
    before = [weight.detach().clone() for weight in trainer.model.parameters()]
    trainer.train()
    moved = any(not torch.equal(old, new) for old, new in zip(before, trainer.model.parameters(), strict=True))
    [loss] = [line["loss"] for line in trainer.state.log_history if "loss" in line]
    return {"loss": loss, "moved": moved}


def grpo_expected(rows: Any, model: str) -> float:
    """Returns the loss from whole rows with an advantage for each token, instead of TRL's samples."""
    reference, terms = AutoModelForCausalLM.from_pretrained(model), []
    for row in rows:
        now = _logprobs(reference, row["ids"])
        for place, used in enumerate(row["gradient"]):
            if used:
                ratio = np.exp(now[place - 1] - row["behaviour"][place])
                terms.append(-ratio * row["advantages"][place])
    return float(np.mean(terms))


def main(exports: Path, model: str) -> None:
    told: dict[str, Told] = {}
    steps = {"trl-sft": sft, "trl-dpo": pairs_or_labels, "trl-kto": pairs_or_labels, "trl-grpo": grpo}
    for name, step in steps.items():
        told[name] = step(exports / name, model)
    told["trl-grpo"]["expected"] = grpo_expected(load_dataset(str(exports / "huggingface"), split="train"), model)
    told["huggingface"] = {
        what: len(load_dataset(str(exports / "huggingface"), what, split="train"))
        for what in ("trajectories", "evidence", "rewards")
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
