"""The loss and the gradient that TRL's GRPOTrainer makes of training rows, run in an environment with TRL.

Use: python -m tests.support.trl_loss MODEL OUT. OUT gets the loss, its gradient, the policy and the reference.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from tests.training.learner.made_rows import CONTEXT, logprobs, sampled_rows

KL, LOW, HIGH = 0.04, 0.5, 5.0


def padded(rows: list[list[float]], left: bool = False, of: torch.dtype = torch.float32) -> torch.Tensor:
    longest = max(map(len, rows))
    filled = [[0.0] * (longest - len(row)) + row if left else row + [0.0] * (longest - len(row)) for row in rows]
    return torch.tensor(filled, dtype=of)


def main(folder: str, out: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder)
    reference = copy.deepcopy(model)
    rows = sampled_rows(model, 6, drift=0.4)
    with torch.no_grad():  # the reference is another model than the policy, and so is what drew the tokens
        for number, weights in enumerate(model.parameters()):
            noise = torch.Generator().manual_seed(number)
            weights.add_(0.01 * torch.randn(weights.shape, generator=noise))
    args = GRPOConfig(
        out + ".trl",
        loss_type="dapo",
        scale_rewards="none",
        beta=KL,
        epsilon=0.2,
        epsilon_high=0.28,
        per_device_train_batch_size=len(rows),
        num_generations=2,
        steps_per_generation=1,
        use_cpu=True,
        bf16=False,
        report_to="none",
    )
    trainer = GRPOTrainer(
        model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "none"}]),
        processing_class=AutoTokenizer.from_pretrained(folder, padding_side="left"),
    )
    trainer.use_vllm = True  # so that the importance mask counts
    trainer.current_gradient_accumulation_steps = 1
    answers = [list(map(float, row.mask[CONTEXT:])) for row in rows]
    whole: list[list[float]] = [[1.0] * len(answer) for answer in answers]
    behaviour = padded([list(row.behaviour or ())[CONTEXT:] for row in rows])
    now = padded([list(logprobs(model, row.ids))[CONTEXT:] for row in rows])
    ratio = (now - behaviour).exp()
    kept = ((ratio >= LOW) & (ratio <= HIGH)).float()
    inputs: dict[str, Any] = {
        "prompt_ids": padded([[float(i) for i in row.ids[:CONTEXT]] for row in rows], True, torch.long),
        "prompt_mask": torch.ones(len(rows), CONTEXT, dtype=torch.long),
        "completion_ids": padded([[float(i) for i in row.ids[CONTEXT:]] for row in rows], of=torch.long),
        "completion_mask": padded(whole, of=torch.long),
        "tool_mask": padded(answers, of=torch.long),
        "advantages": padded([list(row.advantages[CONTEXT:]) for row in rows]),
        "old_per_token_logps": behaviour,
        "ref_per_token_logps": padded([list(logprobs(reference, row.ids))[CONTEXT:] for row in rows]),
        "num_items_in_batch": torch.tensor(sum(row.trained for row in rows)),
    }
    model.train()
    found = {"importance mask": compared(trainer, model, inputs | {"importance_sampling_ratio": kept}, 0.0)}
    # TRL adds the divergence for dropped tokens too
    inputs |= {"importance_sampling_ratio": torch.ones_like(kept), "tool_mask": inputs["tool_mask"] * kept}
    found["divergence"] = compared(trainer, model, inputs, KL)
    torch.save({"found": found, "policy": model.state_dict(), "reference": reference.state_dict()}, out)


def compared(trainer: Any, model: Any, inputs: dict[str, Any], beta: float) -> dict[str, Any]:
    """The loss and its gradient by the name of the weights."""
    model.zero_grad()
    trainer.beta = beta
    loss = trainer._compute_loss(model, inputs)
    loss.backward()
    return {"loss": loss.detach(), "slopes": {name: weights.grad.clone() for name, weights in model.named_parameters()}}


if __name__ == "__main__":
    main(*sys.argv[1:])
