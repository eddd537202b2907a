"""The runs that the stages of a recipe stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.training.recipes.recipe_file import AnswersStage, DistillStage, HintedStage, LiveStage
from sciagent.training.recipes.run_stage import StageRun, dataset_settings, live_settings, rows_settings
from sciagent.training.settings import CriticSettings, GuardSettings, RaySettings, TaskShare

HERE = Path()
RUN = StageRun("tiny", HERE / "run", "new", 7, 1)
TASKS = [TaskShare(file=HERE)]


def test_a_stage_on_rows_is_a_run_of_sft() -> None:
    stage = AnswersStage(kind="hindsight", epochs=3, lora=4, at_least=0.2, per_scaffold=9, learning_rate=1e-3)
    run = rows_settings(stage, HERE / "rows", RUN)
    assert (run.training, run.epochs, run.lora, run.seed, run.threads) == ("sft", 3, 4, 7, 1)
    assert (run.learner.learning_rate, run.new_name, run.checkpoint_steps) == (1e-3, "new", 20)
    data = dataset_settings(stage, ["a", "b"], "")
    assert (data.kind, data.test_share, data.at_least, data.per_scaffold) == ("hindsight", 0, 0.2, 9)


def test_stages_with_teachers_are_runs_of_distillation() -> None:
    stages = [
        DistillStage(kind="distill", teachers={"large": 2.0, "small": 1.0}, kl_budget=0.5),
        HintedStage(kind="hinted", kl=0.1),
    ]
    runs = [rows_settings(stage, HERE / "rows", RUN) for stage in stages]
    assert [run.training for run in runs] == ["distill", "hindsight"]
    assert [run.teachers for run in runs] == [{"large": 2.0, "small": 1.0}, {}]
    assert [(run.kl_budget, run.learner.kl, run.learner.distillation) for run in runs] == [
        (0.5, 0.0, 1.0),
        (None, 0.1, 1.0),
    ]
    assert [dataset_settings(stage, ["a"], "").kind for stage in stages] == ["rows", "hindsight"]


@pytest.mark.parametrize("kind", ["grpo", "ppo"])
def test_a_live_stage_is_a_run_on_the_ladder(kind: str) -> None:
    values = {"kind": kind, "from": "seeds", "steps": 5, "kl": 0.1, "guards": {"unsettled": None}, "patience": 60.0}
    values |= {"critic": {"passes": 2, "clip": 0.5}} if kind == "ppo" else {"lag": 2, "credit": "outcome"}
    stage = LiveStage.model_validate(values)
    run = live_settings(stage, TASKS, HERE / "rewards", RUN)
    assert (run.training, run.begins, run.steps, run.learner.kl, run.patience) == (kind, "seeds", 5, 0.1, 60.0)
    assert run.guard_limits == GuardSettings(unsettled=None) and run.checkpoint_steps == 1
    assert run.learner.critic == (CriticSettings(passes=2, clip=0.5) if kind == "ppo" else None)
    assert (run.lag, run.credit) == ((1, None) if kind == "ppo" else (2, "outcome"))


def test_a_live_stage_is_rolled_out_by_actors_or_samples_by_a_server() -> None:
    ray = {"actors": 2, "address": "10.0.0.1:6379"}
    stage = LiveStage.model_validate({"kind": "grpo", "ray": ray, "endpoint": "http://localhost:8000/v1", "lora": 4})
    run = live_settings(stage, TASKS, HERE / "rewards", RUN)
    assert run.ray == RaySettings(**ray) and run.actors == 2
    assert (run.endpoint, run.lora) == ("http://localhost:8000/v1", 4)
    assert {"ray", "endpoint"}.isdisjoint(LiveStage(kind="grpo").model_dump()), "recipes without them stay the same"
