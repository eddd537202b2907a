"""Steps and stages of training, made up."""

from __future__ import annotations

from typing import Any

from sciagent.training.command_answers import StageAnswer, StepSeconds, TrainedStep


def step(number: int, **changes: Any) -> TrainedStep:
    values: dict[str, Any] = {
        "step": number,
        "epoch": 1,
        "loss": 1.0 / number,
        "reward": None,
        "masked": 0.0,
        "kl": None,
    }
    values |= {"kl": None, "entropy": 2.0, "grad_norm": 1.0, "rows": 8, "tokens": 100}
    values["seconds"] = StepSeconds(sample=1.0, verify=2.0, update=3.0)
    return TrainedStep(**values | changes)


def stage(name: str, **changes: Any) -> StageAnswer:
    values: dict[str, Any] = {"stage": name, "kind": "sft", "policy": f"{name}@1", "parent": None, "steps": 2}
    return StageAnswer(**values | {"stopped_by": "rows", "seconds": 1.0} | changes)
