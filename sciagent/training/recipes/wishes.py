"""The tasks of training runs that the stages of a recipe stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sciagent.training.answers import Selection
from sciagent.training.learner.settings import (
    CriticSettings,
    LossSettings,
    StepSettings,
    TeacherShare,
    TrainingWish,
    filled,
)
from sciagent.training.live.wish import LiveWish, TaskShare
from sciagent.training.recipes.spec import RecipeSpec
from sciagent.training.recipes.stages import AnswersStage, DistillStage, LiveStage, RowsStage, TaughtStage
from sciagent.training.wish import DatasetWish, Kind


class StageSet(NamedTuple):
    """The data set of a stage, and its training."""

    dataset: Kind
    training: str


SETS = {
    "sft": StageSet("sft", "sft"),
    "hindsight": StageSet("hindsight", "sft"),
    "distill": StageSet("rows", "distill"),
    "hinted": StageSet("hindsight", "hindsight"),
}
"""{kind of a stage: its data set and training}."""
SFT_RATE, LIVE_RATE = 2e-5, 1e-6  # learning rates of the commands


def task_shares(spec: RecipeSpec, folder: Path) -> list[TaskShare]:
    """Returns the tasks of live training. folder: of the recipe."""
    return [TaskShare(folder / task.campaign, task.weight) for task in spec.task_specs]


def dataset_wish(stage: RowsStage, campaigns: Sequence[str], command: str) -> DatasetWish:
    """Returns the data set that a stage trains on. All goals are for training: others are held out by `evaluate`."""
    selection = Selection()
    if isinstance(stage, AnswersStage):
        selection = Selection(stage.at_least, per_scaffold=stage.per_scaffold)
    return DatasetWish(SETS[stage.kind].dataset, campaigns, selection, test_share=0.0, command=command)


def rows_wish(
    stage: RowsStage, rows: Path, model: str, out: Path, name: str, seed: int, threads: int | None
) -> TrainingWish:
    """Returns the run of a stage on a data set."""
    loss = LossSettings(kl=stage.kl, distillation=1.0) if isinstance(stage, TaughtStage) else LossSettings()
    teachers = stage.teachers.items() if isinstance(stage, DistillStage) else ()
    return filled(
        TrainingWish,
        stage,
        training=SETS[stage.kind].training,
        rows=rows,
        model=model,
        out=out,
        name=name,
        rank=stage.lora,
        seed=seed,
        save_every=stage.save_every or 20,
        threads=threads,
        settings=StepSettings(stage.learning_rate or SFT_RATE, most_tokens=stage.most_tokens, loss=loss),
        teachers=tuple(TeacherShare(*each) for each in teachers),
    )


def live_wish(
    stage: LiveStage,
    tasks: Sequence[TaskShare],
    rewards: Path,
    model: str,
    out: Path,
    name: str,
    seed: int,
    threads: int | None,
) -> LiveWish:
    """Returns the run of a stage on the live ladder."""
    settings = StepSettings(
        stage.learning_rate or LIVE_RATE, most_tokens=stage.most_tokens, loss=LossSettings(kl=stage.kl)
    )
    return filled(
        LiveWish,
        stage,
        tasks=tuple(tasks),
        rewards=rewards,
        model=model,
        out=out,
        name=name,
        training=stage.kind,
        actors=0 if stage.ray is None else stage.ray.actors,
        ray_address=None if stage.ray is None else stage.ray.address,
        rank=stage.lora,
        seed=seed,
        save_every=stage.save_every or 1,
        threads=threads,
        settings=replace(settings, critic=CriticSettings()) if stage.kind == "ppo" else settings,
        guards=None if stage.guards is None else stage.guards.model_dump(exclude_unset=True),
    )
