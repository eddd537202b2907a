"""One step of SkyRL's losses on exported data sets, run in an environment with SkyRL.

Use: python -P tests/support/skyrl_steps.py EXPORTS MODEL. EXPORTS holds the folders `sft` and `rows`. Prints a line of
JSON: by export, what SkyRL computed, and what a test compares with it. Data, batches, advantages and losses are
SkyRL's; the model is called here, since SkyRL's wrapper imports flash_attn, which needs a GPU.
"""

from __future__ import annotations

import json
import sys
import typing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import typing_extensions

typing.TypedDict = typing_extensions.TypedDict  # type: ignore[assignment]  # SkyRL 0.3.0 fails before Python 3.12

from datasets import load_dataset  # noqa: E402
from skyrl.backends.skyrl_train.utils import ppo_utils  # noqa: E402
from skyrl.backends.skyrl_train.utils.torch_utils import logprobs_from_logits  # noqa: E402
from skyrl.train.config import SkyRLTrainConfig  # noqa: E402
from skyrl.train.dataset import PromptDataset  # noqa: E402
from skyrl.train.dataset.collators import DefaultCollator  # noqa: E402
from skyrl.train.sft_trainer import tokenize_chat_example  # noqa: E402
from skyrl.train.trainer import RayPPOTrainer  # noqa: E402
from skyrl.train.utils.trainer_utils import validate_generator_output  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

Told = dict[str, Any]


def sft(exports: Path, model: str) -> Told:
    """Takes a step of supervised fine-tuning on all rows."""
    tokenizer, policy = AutoTokenizer.from_pretrained(model), _policy(model)
    rows = [tokenize_chat_example(row, tokenizer) for row in load_dataset(str(exports / "sft"), split="train")]
    batch = DefaultCollator(tokenizer, 1)(rows, len(rows))
    chosen = [
        _logprobs(policy, row["input_ids"], 1.0)[-row["num_actions"] :][i]
        for row in rows
        for i, used in enumerate(row["loss_mask"])
        if used
    ]
    found = _action_logprobs(policy, batch, 1.0)
    loss, _ = ppo_utils.PolicyLossRegistry.get("cross_entropy")(found, None, None, None, loss_mask=batch["loss_mask"])
    return {"loss": loss.item(), "expected": -float(np.mean(chosen)), "rows": rows, "moved": _step(policy, loss)}


def rows(exports: Path, model: str) -> Told:
    """Checks the rows as SkyRL checks the output of a generator, and takes two steps of its policy loss on them."""
    sys.path.insert(0, str(exports / "rows"))
    from skyrl_rows import generator_output, training_input

    path, tokenizer, policy = (
        str(exports / "rows" / "train.parquet"),
        AutoTokenizer.from_pretrained(model),
        _policy(model),
    )
    output = generator_output(path)
    uids = [each.instance_id for each in output["trajectory_ids"]]
    validate_generator_output(len(set(uids)), output, step_wise=True)
    config = _config(n=len(set(uids)), siblings=sum(output["is_last_step"]))
    trainer = RayPPOTrainer(config, None, tokenizer, None, None, None)
    trainer.dispatch = SimpleNamespace(get_lcm_dp_size=lambda: 1)  # one process
    converted = trainer.convert_to_training_input(output, uids)
    converted["values"] = None  # no critic
    theirs = trainer.compute_advantages_and_returns(converted)
    batch = training_input(path, tokenizer)
    stored, steps = pq.read_table(path).to_pylist(), []
    algorithm, temperature = config.trainer.algorithm, stored[0]["temperature"]
    for _ in range(2):  # with the weights that sampled, and with others
        expected, gaps = _ppo(policy, stored, algorithm)
        scaled = ppo_utils.apply_loss_reduction_to_advantages_minibatch(
            batch["advantages"], batch["loss_mask"], "token_mean", len(stored), int(batch["sequences"].shape[1])
        )
        loss, _ = ppo_utils.PolicyLossRegistry.get("regular")(
            _action_logprobs(policy, batch, temperature),
            batch["action_log_probs"],
            scaled,
            config=algorithm,
            loss_mask=batch["loss_mask"],
            rollout_logprobs=batch["rollout_logprobs"],
        )
        told = {"loss": loss.item(), "expected": expected, "gap": max(gaps), "tokens": len(gaps)}
        steps.append(told | {"moved": _step(policy, loss)})
    refused = []
    changed = [row if i else row | {"temperature": 1.5} for i, row in enumerate(stored)]
    for name, some in (("mixed", changed), ("undecided", [row | {"rewards": None} for row in stored])):
        pq.write_table(pa.Table.from_pylist(some, schema=pq.read_schema(path)), f"{name}.parquet")
        try:
            generator_output(f"{name}.parquet")
        except ValueError as why:
            refused.append(str(why))
    half = [row | {"rewards": None} if row["sibling"] == 0 else row for row in stored]
    pq.write_table(pa.Table.from_pylist(half, schema=pq.read_schema(path)), "half.parquet")
    masks = batch["loss_mask"].bool()
    ids = batch["sequences"][:, -masks.shape[1] :]
    return {
        "refused": refused,
        "decided": len(generator_output("half.parquet")["response_ids"]),
        "steps": steps,
        "uid": batch.metadata["uids"],
        "is_last_step": batch.metadata["is_last_step"],
        "trained": [row[mask].tolist() for row, mask in zip(ids, masks, strict=True)],
        "same": {
            name: bool(torch.equal(theirs[name], batch[name])) for name in ("sequences", "attention_mask", "loss_mask")
        },
        "estimated": [
            float(row[mask.bool()][-1]) for row, mask in zip(theirs["advantages"], theirs["response_mask"], strict=True)
        ],
    }


def prompts(exports: Path, model: str) -> Told:
    """Reads the openings by SkyRL's dataset for its own rollouts."""
    path = str(exports / "rows" / "prompts.train.parquet")
    dataset = PromptDataset(path, AutoTokenizer.from_pretrained(model), 20000, num_workers=1)
    return {"rows": dataset.collate_fn([dataset[i] for i in range(len(dataset))])}


def _config(n: int, siblings: int) -> Any:
    config = SkyRLTrainConfig()
    config.trainer.train_batch_size = config.trainer.policy_mini_batch_size = n
    config.trainer.algorithm.advantage_estimator = "rloo"
    config.trainer.algorithm.policy_loss_type = "regular"
    config.trainer.enable_ray_gpu_monitor = config.generator.inference_engine.enable_ray_prometheus_stats = False
    config.generator.n_samples_per_prompt, config.generator.step_wise_trajectories = siblings, True
    return config


def _ppo(policy: Any, stored: list[Told], algorithm: Any) -> tuple[float, list[float]]:
    """Returns the clipped loss by its formula, and the gaps between log-probabilities recorded and computed here.

    loss = - mean over tokens of min(ratio * A, clip(ratio) * A), where ratio = exp(log pi - log behaviour).
    """
    losses, gaps = [], []
    for row in stored:
        found = _logprobs(policy, row["prompt_token_ids"] + row["response_ids"], row["temperature"])
        for i, used in enumerate(row["loss_masks"]):
            if used:
                now, worth = found[len(row["prompt_token_ids"]) + i - 1], row["advantages"][i]
                gaps.append(abs(now - row["rollout_logprobs"][i]))
                ratio = np.exp(now - row["rollout_logprobs"][i])
                cut = np.clip(ratio, 1 - algorithm.eps_clip_low, 1 + algorithm.eps_clip_high)
                losses.append(-min(ratio * worth, cut * worth))
    return float(np.mean(losses)), gaps


def _policy(model: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)


def _action_logprobs(policy: Any, batch: Any, temperature: float) -> torch.Tensor:
    """Returns (n, r) log-probabilities of the responses, as SkyRL's wrapper of a model does."""
    sequences, attention = batch["sequences"], batch["attention_mask"]
    places = (attention.cumsum(-1) - 1).masked_fill(attention == 0, 1)
    logits = policy(sequences, attention_mask=attention, position_ids=places).logits / temperature
    found = logprobs_from_logits(logits, torch.roll(sequences, shifts=-1, dims=1), inplace_backward=False)
    return found[:, -batch["loss_mask"].shape[1] - 1 : -1]


def _logprobs(policy: Any, ids: list[int], temperature: float) -> list[float]:
    """Returns (t - 1,) log-probabilities of the ids after the first, of the unpadded sequence."""
    with torch.inference_mode():
        table = torch.log_softmax(policy(torch.tensor([ids])).logits[0, :-1].float() / temperature, -1)
    return [float(each) for each in table[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]]


def _step(policy: Any, loss: torch.Tensor) -> bool:
    """Takes a step of AdamW; returns whether the weights have moved."""
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    policy.zero_grad()
    loss.backward()
    torch.optim.AdamW(policy.parameters(), lr=1e-3).step()
    return any(not torch.equal(old, new) for old, new in zip(before, policy.parameters(), strict=True))


def main() -> None:
    exports, model = Path(sys.argv[1]), sys.argv[2]
    tasks = {"prompts": prompts, "sft": sft, "rows": rows}
    told = {name: task(exports, model) for name, task in tasks.items()}
    sys.stdout.write("\n" + json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
