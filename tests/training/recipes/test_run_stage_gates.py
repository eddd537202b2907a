"""The verdict on two policies, from the answer of an evaluation."""

from __future__ import annotations

import pytest

from sciagent.training.evaluation.evaluation_command_answers import ArmDifference, EvaluatedArm, EvaluationAnswer
from sciagent.training.evaluation.evaluation_spec import Interval
from sciagent.training.recipes.run_stage import GateError, PolicyComparison, comparison

RATES: dict[str, Interval] = {"old": (0.4, 0.3, 0.5), "new": (0.2, 0.1, 0.3)}


def answer(difference: Interval, **changes: object) -> EvaluationAnswer:
    arms = {
        name: EvaluatedArm(
            hits=1,
            hits_per_verification=rate,
            hits_per_core_second=None,
            scaffolds=1,
            scaffolds_per_verification=rate,
            valid=1.0,
            verifications=3,
            core_seconds=0.0,
        )
        for name, rate in RATES.items()
    }
    minus = ArmDifference(
        arm="new",
        minus="old",
        hits_per_verification=difference,
        hits_per_core_second=None,
        scaffolds_per_verification=difference,
    )
    whole = EvaluationAnswer(
        arms=arms, differences=(minus,), tasks=("a",), seeds=(1, 2, 3), verifications=3, campaigns=()
    )
    return whole.model_copy(update=changes)


@pytest.mark.parametrize(
    ("difference", "is_worse", "verdict"),
    [
        ((-0.2, -0.3, -0.1), True, "worse"),
        ((-0.2, -0.4, 0.0), False, "not clearly different"),
        ((0.2, 0.1, 0.3), False, "better"),
    ],
)
def test_worse_means_beyond_the_interval(difference: Interval, is_worse: bool, verdict: str) -> None:
    found = comparison(answer(difference), "old", "new")
    assert found == PolicyComparison(RATES["old"], RATES["new"], difference)
    assert found.is_worse is is_worse and found.sentence.startswith(f"{verdict}: 0.2 hits by verification after 0.4")


def test_what_is_not_complete_is_no_verdict() -> None:
    with pytest.raises(GateError, match="cannot be compared: no such file"):
        comparison(answer((0.0, 0.0, 0.0), failed={"new": ("no such file",)}), "old", "new")
    with pytest.raises(GateError, match="not compared yet: campaigns are left to run"):
        comparison(answer((0.0, 0.0, 0.0), stopped="campaigns are left to run"), "old", "new")
