"""The tasks of training runs that the stages of a recipe stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sciagent.training.answers import Selection
from sciagent.training.datasets import DatasetWish, Kind
from sciagent.training.learner.settings import (
    POLICY_RATE,
    SUPERVISED_RATE,
    CriticSettings,
    LossSettings,
    StepSettings,
    TeacherShare,
    TrainingWish,
    filled,
)
from sciagent.training.live.settings import LiveWish, TaskShare
from sciagent.training.recipes.spec import RecipeSpec
from sciagent.training.recipes.stages import AnswersStage, DistillStage, LiveStage, RowsStage


class StageSet(NamedTuple):
    """The data set of a stage, and its training."""

    dataset: Kind
    training: str


@dataclass(frozen=True)
class StageRun:
    """The part of a stage's training that the recipe does not state for the stage."""

    model: str
    """Name of the model that is trained."""
    out: Path
    """Folder of the training."""
    name: str
    """Name of the new model."""
    seed: int
    threads: int | None
    """Threads of PyTorch on a CPU; None: as many as there are cores."""


SETS = {
    "sft": StageSet("sft", "sft"),
    "hindsight": StageSet("hindsight", "sft"),
    "distill": StageSet("rows", "distill"),
    "hinted": StageSet("hindsight", "hindsight"),
}
"""{kind of a stage: its data set and training}."""


def task_shares(spec: RecipeSpec, folder: Path) -> list[TaskShare]:
    """Returns the tasks of live training. folder: of the recipe."""
    return [TaskShare(folder / task.campaign, task.weight) for task in spec.task_specs]


def dataset_wish(stage: RowsStage, campaigns: Sequence[str], command: str) -> DatasetWish:
    """Returns the data set that a stage trains on. All goals are for training: others are held out by `evaluate`."""
    selection = Selection()
    if isinstance(stage, AnswersStage):
        selection = Selection(stage.at_least, per_scaffold=stage.per_scaffold)
    return DatasetWish(SETS[stage.kind].dataset, campaigns, selection, test_share=0.0, command=command)


def rows_wish(stage: RowsStage, rows: Path, run: StageRun) -> TrainingWish:
    """Returns the training of a stage on a data set. rows: its folder."""
    loss = LossSettings() if isinstance(stage, AnswersStage) else filled(LossSettings, stage, distillation=1.0)
    teachers = stage.teachers.items() if isinstance(stage, DistillStage) else ()
    return filled(
        TrainingWish,
        stage,
        run,
        training=SETS[stage.kind].training,
        rows=rows,
        rank=stage.lora,
        save_every=stage.save_every or 20,
        settings=StepSettings(stage.learning_rate or SUPERVISED_RATE, most_tokens=stage.most_tokens, loss=loss),
        teachers=tuple(TeacherShare(*each) for each in teachers),
    )


def live_wish(stage: LiveStage, tasks: Sequence[TaskShare], rewards: Path, run: StageRun) -> LiveWish:
    """Returns the training of a stage on the live ladder. rewards: file that describes them."""
    rate, critic = stage.learning_rate or POLICY_RATE, None
    if stage.kind == "ppo":
        critic = CriticSettings() if stage.critic is None else filled(CriticSettings, stage.critic)
    loss = filled(LossSettings, stage)
    return filled(
        LiveWish,
        stage,
        run,
        tasks=tuple(tasks),
        rewards=rewards,
        training=stage.kind,
        actors=0 if stage.ray is None else stage.ray.actors,
        ray_address=None if stage.ray is None else stage.ray.address,
        rank=stage.lora,
        save_every=stage.save_every or 1,
        settings=StepSettings(rate, most_tokens=stage.most_tokens, loss=loss, critic=critic),
        guards=None if stage.guards is None else stage.guards.model_dump(exclude_unset=True),
    )
