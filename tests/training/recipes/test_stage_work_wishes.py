"""The runs that the stages of a recipe stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.training.learner.settings import CriticSettings
from sciagent.training.live.settings import TaskShare
from sciagent.training.recipes.spec import AnswersStage, DistillStage, HintedStage, LiveStage
from sciagent.training.recipes.stage_work import StageRun, dataset_wish, live_wish, rows_wish

HERE = Path()
RUN = StageRun("tiny", HERE / "run", "new", 7, 1)


def test_a_stage_on_rows_is_a_run_of_sft() -> None:
    stage = AnswersStage(kind="hindsight", epochs=3, lora=4, at_least=0.2, per_scaffold=9, learning_rate=1e-3)
    wish = rows_wish(stage, HERE / "rows", RUN)
    assert (wish.training, wish.epochs, wish.rank, wish.seed, wish.threads) == ("sft", 3, 4, 7, 1)
    assert wish.settings.learning_rate == 1e-3
    data = dataset_wish(stage, ["a", "b"], "")
    assert (data.kind, data.test_share, data.selection.at_least, data.selection.per_scaffold) == (
        "hindsight",
        0,
        0.2,
        9,
    )


def test_stages_with_teachers_are_runs_of_distillation() -> None:
    stages = [
        DistillStage(kind="distill", teachers={"large": 2.0, "small": 1.0}, kl_budget=0.5),
        HintedStage(kind="hinted", kl=0.1),
    ]
    runs = [rows_wish(stage, HERE / "rows", RUN) for stage in stages]
    assert [(run.training, dict(run.teachers)) for run in runs] == [
        ("distill", {"large": 2.0, "small": 1.0}),
        ("hindsight", {}),
    ]
    assert [(run.kl_budget, run.settings.loss.kl, run.settings.loss.distillation) for run in runs] == [
        (0.5, 0.0, 1.0),
        (None, 0.1, 1.0),
    ]
    assert [dataset_wish(stage, ["a"], "").kind for stage in stages] == ["rows", "hindsight"]


@pytest.mark.parametrize("kind", ["grpo", "ppo"])
def test_a_live_stage_is_a_run_on_the_ladder(kind: str) -> None:
    given = {"kind": kind, "from": "seeds", "steps": 5, "kl": 0.1, "guards": {"unsettled": None}}
    given |= {"lag": 2, "patience": 60.0, "entropy": 0.01}
    given |= {"critic": {"passes": 2, "learning_rate": 0.01, "warmup": 50, "clip": 0.5}} if kind == "ppo" else {}
    stage = LiveStage.model_validate(given)
    wish = live_wish(stage, [TaskShare(HERE)], HERE / "rewards", RUN)
    assert (wish.training, wish.begins, wish.steps, wish.settings.loss.kl) == (kind, "seeds", 5, 0.1)
    assert (wish.lag, wish.patience, wish.settings.loss.entropy) == (2, 60.0, 0.01)
    critic = CriticSettings(passes=2, learning_rate=0.01, warmup=50, clip=0.5) if kind == "ppo" else None
    assert wish.guards == {"unsettled": None} and wish.settings.critic == critic
    wish.check()


def test_the_groups_of_a_live_stage_are_rolled_out_by_actors() -> None:
    stage = LiveStage.model_validate({"kind": "grpo", "ray": {"actors": 2, "address": "10.0.0.1:6379"}})
    wish = live_wish(stage, [TaskShare(HERE)], HERE / "rewards", RUN)
    assert (wish.actors, wish.ray_address) == (2, "10.0.0.1:6379")
    assert "ray" not in LiveStage(kind="grpo").model_dump(), "recipes without actors stay the same"


def test_a_live_stage_samples_by_a_server_with_an_adapter() -> None:
    stage = LiveStage(kind="grpo", endpoint="http://localhost:8000/v1", lora=4)
    wish = live_wish(stage, [TaskShare(HERE)], HERE / "rewards", RUN)
    assert (wish.endpoint, wish.rank) == ("http://localhost:8000/v1", 4)
    assert "endpoint" not in LiveStage(kind="grpo").model_dump(), "recipes without a server stay the same"
