"""The JSON of `sciagent evaluate`, on which scripts rely."""

from __future__ import annotations

import json

from sciagent.domain.answers.candidate_and_value_answers import json_schema, plain
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedArm, EvaluationAnswer


def test_the_json_has_the_promised_shape_and_an_unknown_figure_is_null() -> None:
    arm = EvaluatedArm(
        hits=3,
        hits_per_verification=(0.25, 0.1, 0.4),
        hits_per_core_second=None,
        scaffolds=2,
        scaffolds_per_verification=(0.2, 0.1, 0.3),
        valid=None,
        verifications=12,
        core_seconds=0.0,
    )
    answer = EvaluationAnswer(
        arms={"trained": arm}, differences=(), tasks=("a",), seeds=(1,), verifications=12, campaigns=()
    )
    read = json.loads(json.dumps(plain(answer)))
    shown = read["arms"]["trained"]
    assert shown["hits_per_verification"] == [0.25, 0.1, 0.4] and shown["hits_per_core_second"] is None
    assert {"hits", "scaffolds", "valid"} <= set(shown) and (read["tasks"], read["seeds"]) == (["a"], [1])
    assert EvaluationAnswer.model_validate(read) == answer


def test_the_figures_are_explained() -> None:
    described = json_schema(EvaluationAnswer)["$defs"]["EvaluatedArm"]["properties"]
    assert "granted" in described["hits_per_verification"]["description"]
