"""Measures the training step and the sampler on a GPU: speed, memory, and agreement with each other and with a CPU.

    python -m benchmarks.learning.gpu_steps --model smollm2 --model hindsight --out gpu_steps.json

The models are those of `sciagent models`. Rows have the shape of episodes of 8 turns: 1,000 tokens of context,
then answers of 40 tokens with observations of 60 between them; their ids are random. Each part writes the file anew.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, Sampled, Sampling
from sciagent.agent.policies import batch_decoding
from sciagent.agent.policies.local_model import InMemoryPolicy, LocalPolicy
from sciagent.training.learner import micro_batches_and_loss
from sciagent.training.learner import training_step as steps
from sciagent.training.learner.learner_rows_and_rendered_conversations import TrainingRow
from sciagent.training.learner.load_and_publish import load
from sciagent.training.learner.micro_batches_and_loss import divided, micro_batch
from sciagent.training.learner.training_step import Learner
from sciagent.training.live.sampling_engines import LearnersPolicy, identity_of_model
from sciagent.training.settings import LearnerConstants, LearnerSettings

ANSWER = 40
SEEN = 60
MOST_TOKENS = 16384
MASKS = {"mask_low": 0.0, "mask_high": 1e9}  # the ids are random: nothing is to be dropped for that
PRECISIONS = {"bf16": "bf16", "fp32": "no"}


@contextmanager
def accelerated(precision: str, *, cpu: bool = False) -> Iterator[None]:
    """Makes learners compute in a precision for the time of the context."""
    AcceleratorState._reset_state(reset_partial_state=True)
    own = steps.Accelerator
    named = {"mixed_precision": PRECISIONS[precision], "cpu": cpu}
    steps.Accelerator = lambda **_: Accelerator(**named)
    try:
        yield
    finally:
        steps.Accelerator = own
        AcceleratorState._reset_state(reset_partial_state=True)


@contextmanager
def graphs(is_on: bool) -> Iterator[None]:
    """Lets samplers use CUDA graphs, or not, for the time of the context."""
    usual = batch_decoding.can_graph
    batch_decoding.can_graph = usual if is_on else lambda cache, device: False
    try:
        yield
    finally:
        batch_decoding.can_graph = usual


def episodes(n: int, vocabulary: int, context: int, turns: int, *, imitated: bool = False) -> list[TrainingRow]:
    rng = random.Random(1)
    rows = []
    for _ in range(n):
        mask = (*[False] * context, *([True] * ANSWER + [False] * SEEN) * turns)
        ids = tuple(rng.randrange(3, vocabulary) for _ in mask)
        advantages = tuple((1.0 if imitated else rng.gauss(0, 1)) if used else 0.0 for used in mask)
        behaviour = None if imitated else tuple(-10.0 if used else 0.0 for used in mask)
        rows.append(TrainingRow(ids, mask, advantages, behaviour))
    return rows


def rows_of(loaded: Any, n: int, *, imitated: bool = False) -> list[TrainingRow]:
    """Returns rows that fit into the model."""
    context, turns = (1000, 8) if loaded.context >= 1800 else (100, 2)
    return episodes(n, loaded.model.config.vocab_size, context, turns, imitated=imitated)


def fresh_memory() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gb() -> float:
    return round(torch.cuda.max_memory_allocated() / 1e9, 2) if torch.cuda.is_available() else 0.0


def waited() -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


def step_speed(name: str, rank: int, training: str, precision: str, n: int, times: int) -> dict[str, Any]:
    with accelerated(precision):
        loaded = load(name, rank)
        rows = rows_of(loaded, n, imitated=training == "sft")
        learner = Learner(loaded.model, LearnerSettings(learning_rate=1e-05, most_tokens=MOST_TOKENS, **MASKS))
        fresh_memory()
        seconds = []
        for _ in range(times + 1):
            begun = waited()
            learner.step(rows)
            seconds.append(waited() - begun)
    took = statistics.median(seconds[1:])
    tokens = sum(len(row.ids) for row in rows)
    return {
        "model": name,
        "training": training,
        "lora": rank,
        "precision": precision,
        "tokens": tokens,
        "trained": sum(row.trained for row in rows),
        "seconds": round(took, 4),
        "range": [round(min(seconds[1:]), 4), round(max(seconds[1:]), 4)],
        "tokens_per_second": round(tokens / took),
        "peak_gb": peak_gb(),
    }


def questions(policy: InMemoryPolicy, n: int, wanted: int, most: int) -> list[EpisodeQuestion]:
    """Returns n questions whose prompts have about `wanted` tokens, and begin alike."""
    found = []
    for number in range(n):
        rng = random.Random(number)
        lines = list[str]()
        while True:
            lines += [f"#{len(lines) + 1} c1ccc{rng.randrange(9)}nccc1: gap {rng.uniform(1, 4):.3f} eV"] * 4
            talk = [Message("system", "You search for molecules."), Message("user", "\n".join(lines))]
            if len(policy.prompt_ids(talk)) >= wanted:
                break
        found.append(EpisodeQuestion(tuple(talk), (), Sampling(max_tokens=most, seed=number)))
    return found


def answered(found: Sequence[Any]) -> list[Sampled]:
    assert all(isinstance(each, Sampled) for each in found), found
    return list(found)


def sampler_speed(
    asked: Sequence[EpisodeQuestion], answers: Callable[[Sequence[EpisodeQuestion]], list[Any]]
) -> tuple[list[Sampled], dict[str, Any]]:
    answers(asked[:2])
    begun = waited()
    found = answered(answers(asked))
    took = waited() - begun
    drawn = sum(each.output_tokens for each in found)
    prompt = sum(each.prompt_tokens for each in found)
    numbers = {"rows": len(asked), "prompt": prompt, "drawn": drawn, "seconds": round(took, 3)}
    return found, numbers | {"drawn_per_second": round(drawn / took), "calls_per_second": round(len(asked) / took, 1)}


def disagreement(learner: Learner, found: Sequence[Sampled]) -> dict[str, Any]:
    """Returns how far the trainer's log-probabilities of sampled tokens are from those at which they were drawn."""
    rows = []
    for each in found:
        assert each.tokens is not None and each.tokens.behaviour is not None
        before = each.tokens.prompt_ids
        after = each.tokens.output_ids
        mask = (*[False] * len(before), *[True] * len(after))
        behaviour = (*[0.0] * len(before), *each.tokens.behaviour)
        rows.append(TrainingRow((*before, *after), mask, tuple(map(float, mask)), behaviour))
    gaps = []
    for part in divided(rows, MOST_TOKENS):
        batch = micro_batch(part, None, learner.device)
        with torch.no_grad():
            logits, _ = learner._forward(batch)
            table = micro_batches_and_loss.distribution(logits, batch.temperature, None)
        gaps.append(table.gather(-1, batch.target[:, None])[:, 0] - batch.behaviour)
    gap = torch.cat(gaps).double()
    usual = LearnerConstants()
    masked = (gap.exp() < usual.mask_low) | (gap.exp() > usual.mask_high)
    return {
        "tokens": len(gap),
        "mean": float(f"{gap.abs().mean():.3g}"),
        "p99": float(f"{gap.abs().quantile(0.99):.3g}"),
        "largest": float(f"{gap.abs().max():.3g}"),
        "masked": int(masked.sum()),
        "clipped": int(((gap.exp() < usual.clip_low) | (gap.exp() > usual.clip_high)).sum()),
    }


def sampling(name: str, n: int, most: int) -> Iterator[dict[str, Any]]:
    """Yields speed and disagreement: the learner samples in either precision, with and without an adapter, and a model
    with weights in bfloat16, as campaigns ask it, for trainers of either precision."""
    for precision, rank in (("bf16", 0), ("bf16", 16), ("fp32", 0)):
        with accelerated(precision):
            loaded = load(name, rank)
            learner = Learner(loaded.model, LearnerSettings(learning_rate=1e-05, most_tokens=MOST_TOKENS))
            fresh_memory()
            policy = InMemoryPolicy(learner.policy, loaded.tokenizer, identity_of_model(loaded.card))
            asked = questions(policy, n, min(1000, loaded.context // 2), most)
            for is_graphed in (True, False):
                with graphs(is_graphed):
                    found, speed = sampler_speed(asked, LearnersPolicy(learner, policy).answers)
                about = {"model": name, "sampler": f"{precision}, in the learner", "lora": rank, "graph": is_graphed}
                yield about | speed | {"peak_gb": peak_gb(), "trainer": precision} | disagreement(learner, found)
    local = LocalPolicy(name)
    for is_graphed in (True, False):
        with graphs(is_graphed):
            found, speed = sampler_speed(asked, local.sample_many)
        for precision in PRECISIONS:
            with accelerated(precision):
                learner = Learner(load(name).model, LearnerSettings(learning_rate=1e-05))
                about = {"model": name, "sampler": "weights in bf16", "lora": 0, "graph": is_graphed}
                yield about | speed | {"trainer": precision} | disagreement(learner, found)
    local.close()


def against_cpu(name: str, n: int) -> Iterator[dict[str, Any]]:
    """Yields loss and gradient on the GPU beside those of the CPU, on the same rows."""
    known: list[Any] = []
    for precision, cpu in (("fp32", True), ("fp32", False), ("bf16", False)):
        with accelerated(precision, cpu=cpu):
            loaded = load(name)
            rows = episodes(n, loaded.model.config.vocab_size, 100, 2)
            learner = Learner(loaded.model, LearnerSettings(learning_rate=1e-05, **MASKS))
            metrics = learner.gradient(rows)
            gradient = torch.cat([each.grad.flatten().cpu().double() for each in loaded.model.parameters()])
            known.append((metrics.loss, gradient))
        if not cpu:
            (loss, mine) = known[-1]
            (theirs, wanted) = known[0]
            yield {
                "model": name,
                "precision": precision,
                "tokens": sum(len(row.ids) for row in rows),
                "loss": loss,
                "loss_cpu": theirs,
                "loss_relative": float(f"{abs(loss - theirs) / abs(theirs):.3g}"),
                "gradient_relative": float(f"{(mine - wanted).norm() / wanted.norm():.3g}"),
                "gradient_cosine": float(torch.nn.functional.cosine_similarity(mine, wanted, dim=0)),
            }


def parts_of(names: Sequence[str], small: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yields what is measured, by name; the dearest at the end."""
    n, asked, most, times = (2, 4, 5, 2) if small else (64, 128, 40, 5)
    for name in names:
        yield f"{name} against a CPU", partial(lambda name: list(against_cpu(name, 2 if small else 4)), name)
        yield f"{name} sampling", partial(lambda name: list(sampling(name, asked, most)), name)
        for precision in PRECISIONS:
            for training, rank in (("grpo", 0), ("sft", 0), ("grpo", 16)):
                yield (
                    f"{name} {training} {rank} {precision}",
                    partial(lambda *given: [step_speed(*given, n, times)], name, rank, training, precision),
                )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=600.0, help="no part begins later than this")
    parser.add_argument("--only", default="", help="what the names of the parts to measure have in common")
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    begun = time.monotonic()
    card = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    about = {
        "card": card,
        "versions": {name: version(name) for name in ("torch", "transformers", "accelerate", "peft")},
    }
    found: dict[str, Any] = {}
    for name, measured in parts_of(given.model, given.small):
        if given.only not in name:
            continue
        if time.monotonic() - begun > given.seconds:
            break
        try:
            found[name] = measured()
        except RuntimeError as error:  # such as too little memory: the other parts are measured all the same
            found[name] = [{"error": str(error)[:300]}]
        given.out.write_text(json.dumps(about | {"parts": found}, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(f"{time.monotonic() - begun:.0f} s {name} {json.dumps(found[name])}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
