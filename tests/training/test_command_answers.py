"""The lines of JSON that scripts read from `sciagent train`."""

from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from sciagent.training.command_answers import RecipeAnswer, StageAnswer, StepSeconds, TrainedPolicy, TrainedStep

STEP = TrainedStep(
    step=1,
    epoch=1,
    loss=0.5,
    reward=None,
    masked=0.0,
    kl=None,
    entropy=2.0,
    grad_norm=1.0,
    rows=8,
    tokens=100,
    seconds=StepSeconds(sample=1.0, verify=0.0, update=2.0),
)


def test_a_step_has_what_scripts_read() -> None:
    line = json.loads(json.dumps(STEP.model_dump()))
    assert {"step", "loss", "reward", "masked", "kl", "seconds"} <= line.keys()
    assert line["seconds"] == {"sample": 1.0, "verify": 0.0, "update": 2.0, "wait": None}
    assert line["reward"] is None, "an unknown reward is not 0"


@pytest.mark.parametrize("answer", [TrainedPolicy, RecipeAnswer])
def test_an_answer_has_what_scripts_read(answer: type[TrainedPolicy | RecipeAnswer]) -> None:
    assert {"policy", "parent", "steps", "stopped_by", "folder"} <= answer.model_fields.keys()


def test_a_stage_is_the_same_after_it_was_written() -> None:
    stage = StageAnswer(
        stage="grpo",
        kind="grpo",
        policy="new@1",
        parent="old@2",
        steps=3,
        stopped_by="steps",
        before=(0.1, 0.0, 0.2),
        after=(0.2, 0.1, 0.3),
        difference=(0.1, 0.0, 0.2),
        seconds=1.5,
    )
    assert StageAnswer.model_validate_json(stage.model_dump_json()) == stage
    with pytest.raises(ValidationError):
        StageAnswer.model_validate({"stage": "grpo"})
