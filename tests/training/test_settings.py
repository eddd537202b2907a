"""The settings of training: what is refused, with which words, and what a run makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from sciagent.errors import UsageError
from sciagent.training import settings
from sciagent.training.settings import (
    CheckedSettings,
    DatasetSettings,
    GuardSettings,
    LearnerConstants,
    LiveSettings,
    TaskShare,
    TrainingSettings,
    read_guards,
    read_tasks,
    read_teachers,
)

LIVE = LiveSettings(tasks=[TaskShare(file=Path("a.yaml"))], model="tiny", out=Path("run"), rewards=Path("rewards.yaml"))
ROWS = TrainingSettings(training="grpo", rows=Path("rows"), model="tiny", out=Path("runs/first"))
DATA = DatasetSettings(kind="sft", campaigns=["gaps"])


def models() -> list[type[BaseModel]]:
    classes = [each for each in vars(settings).values() if isinstance(each, type)]
    found = [each for each in classes if issubclass(each, settings.SettingsGroup)]
    assert len(found) > 10
    return found


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_setting_is_described(model: type[BaseModel]) -> None:
    assert model.__doc__
    for name, field in model.model_fields.items():
        assert field.description and field.description.endswith("."), name


@pytest.mark.parametrize(
    ("base", "changed", "message"),
    [
        (LIVE, {"tasks": []}, "tasks: "),
        (LIVE, {"steps": 0}, "steps: Input should be greater than or equal to 1, not 0"),
        (LIVE, {"siblings": 1}, "siblings: .* 2"),
        (LIVE, {"ahead": 2}, "ahead: .* 1"),
        (LIVE, {"ahead": 1, "lag": 0}, "ahead: 1 is more than the 0 steps that lag allows; raise lag"),
        (LIVE, {"begins": "tomorrow"}, 'begins: "tomorrow" is none of now, seeds'),
        (LIVE, {"endpoint": "http://127.0.0.1:8000/v1"}, "endpoint: it samples from adapters; add lora: RANK"),
        (LIVE, {"ray": {"address": "10.0.0.1:6379"}}, "ray.actors: required, and missing"),
        (LIVE, {"epochs": 2}, "epochs: there is no such setting"),
        (LIVE, {"training": "ppo", "credit": "rtg"}, "credit: has no effect for ppo; it counts for grpo"),
        (LIVE, {"training": "ppo", "lag": 2}, "lag: has no effect for ppo; it counts for grpo"),
        (LIVE, {"critic": {"passes": 2}}, "critic: has no effect for grpo; it counts for ppo"),
        (ROWS, {"critic": {"passes": 2}}, "critic: has no effect for grpo; it counts for ppo"),
        (ROWS, {"teachers": {"large": 1.0}}, "teachers: has no effect for grpo; it counts for distill"),
        (ROWS, {"training": "distill"}, "teachers: distillation needs a teacher"),
        (ROWS, {"kl": -1.0}, "kl: .* 0"),
        (DATA, {"campaigns": []}, "campaigns: "),
        (DATA, {"test_campaigns": ["dyes"]}, '"dyes" is not among the campaigns; they are gaps'),
        (DATA, {"p_better": 0.8}, "p_better: has no effect for sft; it counts for preference"),
        (DATA, {"rewards": [1]}, "rewards: has no effect for sft; it counts for rows"),
        (DATA, {"kind": "rows", "per_scaffold": 1}, "per_scaffold: has no effect for rows"),
    ],
)
def test_what_is_wrong_or_has_no_effect_is_refused(
    base: CheckedSettings, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        base.with_changes(**changed)


def test_what_is_left_out_has_the_usual_value_of_the_training() -> None:
    assert [ROWS.learner.learning_rate, LIVE.learner.learning_rate] == [1e-6, 1e-6]
    assert ROWS.with_changes(training="sft").learner.learning_rate == 2e-5
    assert ROWS.with_changes(learning_rate=0.5).learner.learning_rate == 0.5
    assert ROWS.with_changes(training="distill", teachers={"large": 1.0}).learner.distillation == 1.0
    assert ROWS.learner.critic is None and ROWS.with_changes(training="ppo").learner.critic is not None
    assert ROWS.with_changes(constants=LearnerConstants(mask_low=0.0)).learner.mask_low == 0.0
    assert (ROWS.new_name, ROWS.with_changes(name="other").new_name) == ("first", "other")
    assert (LIVE.with_changes(groups=3).most_groups, LIVE.with_changes(groups=3, further=1).most_groups) == (6, 4)


def test_the_budget_of_the_run_is_the_limit_of_the_guard() -> None:
    limited = LIVE.with_changes(kl_budget=0.3, guards={"unsettled": None})
    assert limited.guard_limits == GuardSettings(kl_budget=0.3, unsettled=None)
    assert LIVE.guard_limits == GuardSettings()


def test_options_state_guards_tasks_and_teachers_as_text() -> None:
    found = read_guards(["control_gap=0.25", "unsettled=off"])
    assert found == GuardSettings(control_gap=0.25, unsettled=None)
    assert set(read_guards(["off", "kl_budget=2"]).model_dump(exclude={"level"}).values()) == {None, 2.0}
    assert read_tasks(["b.yaml=2"]) == [TaskShare(file=Path("b.yaml"), weight=2.0)]
    assert read_teachers(["large", "small=0.25"]) == {"large": 1.0, "small": 0.25}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        *((read_teachers, text, "NAME=WEIGHT") for text in ("=1", "large=0", "large=much", "large=nan")),
        *((read_tasks, text, "FILE=WEIGHT") for text in ("small.yaml", "small.yaml=0", "small.yaml=much", "=1")),
        (read_guards, "controlgap=1", 'did you mean "control_gap"'),
        (read_guards, "control_gap", "write NAME=LIMIT"),
        (read_guards, "control_gap=much", "control_gap: .* a finite number"),
        (read_guards, "level=0.9", "level: .* less than 0.5"),
    ],
)
def test_a_text_that_is_wrong_is_told(read: Any, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read([text])
