"""Time of a training step against TRL on the same rows, in one process and turn by turn: writes step_time.json.

    pip install trl==1.16.0 datasets==5.2.0
    python -m benchmarks.learning.step_time [--gpu OUT.json]

A step is the loss, its gradient, the clipping of the gradient and AdamW, on 16 rows of 130 to 310 tokens with an
observation in the middle. The model has random weights. `grpo` is `GRPOTrainer` with the DAPO loss and the importance
mask, `sft` is `SFTTrainer` on token ids. TRL gets tensors that are padded already; the time of the learner includes
making them. CPU time is compared, in pairs that change their order, so that other work on the machine counts little.
On a GPU it is elapsed time, in bfloat16, also with the shape of SmolLM2-135M and with several sizes of micro-batches.
"""

from __future__ import annotations

import copy
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"} | (
    {} if "--gpu" in sys.argv else {"CUDA_VISIBLE_DEVICES": ""}
)

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainingArguments

from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.training_step import Learner
from sciagent.training.settings import LearnerSettings

HERE = Path(__file__).parent
CONTEXT = 100
SEEN = 20
VOCABULARY = 1000
RATE = 1e-5
GPU = "--gpu" in sys.argv
DEVICE = "cuda" if GPU and torch.cuda.is_available() else "cpu"
CHECKPOINTING = "activation_checkpointing"
if CHECKPOINTING not in TrainingArguments.__dataclass_fields__:  # its name in earlier versions of transformers
    CHECKPOINTING = "gradient_checkpointing"
SETTINGS = {"use_cpu": DEVICE == "cpu", "bf16": DEVICE == "cuda", "report_to": "none", CHECKPOINTING: False}
SMOLLM2 = {"num_attention_heads": 9, "num_key_value_heads": 3, "vocab_size": 49152, "tie_word_embeddings": True}
MOST_TOKENS = (8192, 16384, 32768)
"""Sizes of micro-batches on a GPU, in tokens after padding."""
MASKS = {"mask_low": 0.0, "mask_high": 1e9}  # TRL is given no token to drop


def model_of(width: int, layers: int, **more: Any) -> Any:
    torch.manual_seed(1)
    sizes = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": VOCABULARY}
    return LlamaForCausalLM(LlamaConfig(max_position_embeddings=1024, **{**sizes, **heads, **more}))


def rows_of(n: int) -> list[TrainingRow]:
    """Rows of two answers with an observation between; half of them are sampled a little differently than trained."""
    rng = random.Random(1)
    rows = []
    for number in range(n):
        answer = 5 + 90 * number // max(n - 1, 1)
        mask = (*[False] * CONTEXT, *[True] * answer, *[False] * SEEN, *[True] * answer)
        ids = tuple(rng.randrange(3, VOCABULARY) for _ in mask)
        advantages = tuple(rng.gauss(0, 1) if used else 0.0 for used in mask)
        behaviour = tuple(-6.9 + rng.gauss(0, 0.2) if used else 0.0 for used in mask)
        rows.append(TrainingRow(ids, mask, advantages, behaviour))
    return rows


def padded(rows: Sequence[Sequence[float]], dtype: Any = torch.float32, fill: float = 0) -> Any:
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], dtype=dtype)


def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel

    words = Tokenizer(WordLevel({str(number): number for number in range(VOCABULARY)}, unk_token="0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, pad_token="1", eos_token="2", padding_side="left")


def trl_grpo(model: Any, rows: Sequence[TrainingRow], folder: str) -> Callable[[], float]:
    """Returns a step of TRL's GRPOTrainer on the rows, which returns its loss."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    args = GRPOConfig(
        folder,
        **{"loss_type": "dapo", "scale_rewards": "none", "beta": 0.0, "epsilon": 0.2, "epsilon_high": 0.28},
        **{"per_device_train_batch_size": len(rows), "num_generations": 2, "steps_per_generation": 1},
        **SETTINGS,
    )
    trainer = GRPOTrainer(
        model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=args,
        train_dataset=Dataset.from_list([{"prompt": "none"}]),
        processing_class=tokenizer(),
    )
    trainer.use_vllm = True  # so that the importance mask counts
    trainer.current_gradient_accumulation_steps = 1
    answers = [row.ids[CONTEXT:] for row in rows]
    behaviour = padded([(row.behaviour or ())[CONTEXT:] for row in rows])
    inputs = {
        "prompt_ids": torch.tensor([row.ids[:CONTEXT] for row in rows]),
        "prompt_mask": torch.ones(len(rows), CONTEXT, dtype=torch.long),
        "completion_ids": padded(answers, torch.long),
        "completion_mask": padded([[1] * len(answer) for answer in answers], torch.long),
        "tool_mask": padded([row.mask[CONTEXT:] for row in rows], torch.long),
        "advantages": padded([row.advantages[CONTEXT:] for row in rows]),
        "old_per_token_logps": behaviour,
        "importance_sampling_ratio": torch.ones_like(behaviour),
        "num_items_in_batch": torch.tensor(sum(row.trained for row in rows)),
    }
    inputs = {name: values.to(DEVICE) for name, values in inputs.items()}
    model = trainer.accelerator.prepare_model(model)
    return stepping(trainer, model, lambda: trainer._compute_loss(model, inputs))


def trl_sft(model: Any, rows: Sequence[TrainingRow], folder: str) -> Callable[[], float]:
    """Returns a step of TRL's SFTTrainer on the rows, which returns its loss."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    tokens = [
        {
            "input_ids": list(row.ids),
            "labels": [token if used else -100 for token, used in zip(row.ids, row.mask, strict=True)],
        }
        for row in rows
    ]
    args = SFTConfig(
        folder,
        **{"per_device_train_batch_size": len(rows), "max_length": None},
        **{"dataset_kwargs": {"skip_prepare_dataset": True}} | SETTINGS,
    )
    trainer = SFTTrainer(model, args=args, train_dataset=Dataset.from_list(tokens), processing_class=tokenizer())
    inputs = {
        "input_ids": padded([row["input_ids"] for row in tokens], torch.long),
        "labels": padded([row["labels"] for row in tokens], torch.long, -100),
        "attention_mask": padded([[1] * len(row.ids) for row in rows], torch.long),
    }
    inputs = {name: values.to(DEVICE) for name, values in inputs.items()}
    model = trainer.accelerator.prepare_model(model)
    return stepping(trainer, model, lambda: trainer.compute_loss(model, dict(inputs)))


def stepping(trainer: Any, model: Any, loss_of: Callable[[], Any]) -> Callable[[], float]:
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    model.train()
    assert not model.is_gradient_checkpointing, "it would compute the forward pass twice"

    def step() -> float:
        loss = loss_of()
        trainer.accelerator.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    return step


def ours(model: Any, rows: Sequence[TrainingRow], most_tokens: int) -> Callable[[], float]:
    learner = Learner(model, LearnerSettings(learning_rate=RATE, **MASKS, most_tokens=most_tokens))
    return lambda: learner.step(rows).loss


def imitated(rows: Sequence[TrainingRow]) -> list[TrainingRow]:
    return [TrainingRow(row.ids, row.mask, tuple(map(float, row.mask))) for row in rows]


def seconds_now() -> float:
    if DEVICE == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def compared(one: Callable[[], float], other: Callable[[], float], pairs: int) -> dict[str, Any]:
    """Returns the seconds of both steps and the median of their ratios, pair by pair. Both begin with equal weights."""
    losses = [one(), other()]
    found: list[list[float]] = []
    for number in range(pairs):
        seconds = [0.0, 0.0]
        for place in (0, 1) if number % 2 else (1, 0):
            begun = seconds_now()
            (one, other)[place]()
            seconds[place] = seconds_now() - begun
        found.append(seconds)
    ratios = sorted(mine / theirs for mine, theirs in found)
    quartiles = statistics.quantiles(ratios, n=4)
    return {
        "sciagent": round(statistics.median(mine for mine, _ in found), 4),
        "trl": round(statistics.median(theirs for _, theirs in found), 4),
        "ratio": round(statistics.median(ratios), 4),
        "quartiles": [round(quartiles[0], 4), round(quartiles[2], 4)],
        "pairs": pairs,
        "first_loss": losses,
    }


def measured(
    n: int, width: int, layers: int, pairs: int, most_tokens: int = MOST_TOKENS[0], **more: Any
) -> dict[str, Any]:
    """more: of the model's configuration."""
    torch.set_num_threads(1)
    rows = rows_of(n)
    model = model_of(width, layers, **more)
    found: dict[str, Any] = {"rows": n, "most_tokens": most_tokens, "tokens": sum(len(row.ids) for row in rows)}
    found["parameters"] = sum(weights.numel() for weights in model.parameters())
    with tempfile.TemporaryDirectory() as folder:
        steps = {"grpo": (rows, trl_grpo), "sft": (imitated(rows), trl_sft)}
        for name, (given, theirs) in steps.items():
            one = copy.deepcopy(model)
            other = copy.deepcopy(model)
            found[name] = compared(ours(one, given, most_tokens), theirs(other, rows, folder), pairs)
    return found


def on_gpu(out: Path) -> None:
    card = torch.cuda.get_device_name() if DEVICE == "cuda" else "none"
    found: dict[str, Any] = {"card": card}
    found["versions"] = {name: version(name) for name in ("trl", "transformers", "torch", "accelerate")}
    shape = {"intermediate_size": 1536, **SMOLLM2}
    cases: dict[str, tuple[tuple[int, int, int, int], dict[str, Any]]] = {
        "tiny": ((16, 192, 4, 20), {}),
        "small": ((64, 192, 4, 20), {}),
        "smollm2": ((64, 576, 30, 12), shape),
        "smollm2, 128 rows": ((128, 576, 30, 8), shape),
    }
    for name, (sizes, more) in cases.items():
        for most_tokens in MOST_TOKENS[:1] if name == "tiny" else MOST_TOKENS:
            found[f"{name}, {most_tokens}"] = measured(*sizes, most_tokens=most_tokens, **more)
            out.write_text(json.dumps(found, indent=2) + "\n")
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


def main() -> None:
    if GPU:
        return on_gpu(Path(sys.argv[sys.argv.index("--gpu") + 1]))
    found = measured(16, 192, 4, 8) if sys.argv[1:] != ["--small"] else measured(4, 32, 1, 4)
    found["versions"] = {name: version(name) for name in ("trl", "transformers", "torch", "accelerate")}
    text = json.dumps(found, indent=2)
    if sys.argv[1:] != ["--small"]:
        (HERE / "step_time.json").write_text(text + "\n")
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
