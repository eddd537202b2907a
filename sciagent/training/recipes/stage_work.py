"""The work of a stage: episodes, a training run, or an audit; and the comparison of its policy with the one before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Protocol

from sciagent.campaign.core.build import Built
from sciagent.domain.answers.evaluation import EvaluatedCampaign
from sciagent.store.database.ledger import Ledger
from sciagent.training.building import build
from sciagent.training.evaluation.spec import ArmSpec, EvaluateSpec
from sciagent.training.learner.running import train
from sciagent.training.live.running import train_live
from sciagent.training.progress import TrainedPolicy, TrainedStep
from sciagent.training.random_models import ModelShape, add_random_model
from sciagent.training.recipes import wishes
from sciagent.training.recipes.episodes import roll_out
from sciagent.training.recipes.gates import Gate, PolicyComparison
from sciagent.training.recipes.report import RUN
from sciagent.training.recipes.scalars import ScalarWriter
from sciagent.training.recipes.spec import RecipeSpec
from sciagent.training.recipes.stage_folders import StageFolder
from sciagent.training.recipes.stages import AuditStage, EpisodesStage, LiveStage, RowsStage, StageSpec
from sciagent.training.recipes.stopping import Interrupted, Stopping

SCRIPTED = "scripted"


class Watching(Protocol):
    """Is told what a run does."""

    def say(self, line: str) -> None: ...

    def step(self, stage: str, step: TrainedStep, of: int) -> None: ...


@dataclass(frozen=True)
class RecipeRunSettings:
    """The settings of a recipe's run that do not depend on its content."""

    folder: Path
    """Folder of the recipe, where its relative paths start."""
    out: Path
    """Folder of the run."""
    name: str
    """Beginning of the names of the models."""
    threads: int | None = None
    """Threads of PyTorch on a CPU; None: as many as there are cores."""
    workers: int = 1
    """Campaigns of an evaluation at the same time."""
    command: str = ""
    """The command line, for the cards of data sets."""


@dataclass
class StageResult:
    """The result of a stage."""

    trained: TrainedPolicy | None = None
    compared: PolicyComparison | None = None
    told: list[str] = field(default_factory=list)
    """Sentences about its work."""


class StageWorker:
    """Does the work of stages. All of it goes on where it was ended."""

    def __init__(
        self, spec: RecipeSpec, settings: RecipeRunSettings, ledger: Ledger, watching: Watching, stopping: Stopping
    ) -> None:
        self._spec, self._settings, self._ledger, self._watching = spec, settings, ledger, watching
        self._stopping, self._scalars = stopping, ScalarWriter(settings.out)

    def work(
        self, stage: StageSpec, name: str, folder: StageFolder, tasks: Sequence[Built], policy: str | None, first: str
    ) -> StageResult:
        """Does the work of a stage, or what is left of it. Raises Interrupted.

        policy: name of the model so far; None before there is one. first: name of the first one.
        """
        if isinstance(stage, EpisodesStage):
            by = stage.policy or SCRIPTED if stage.kind == "demonstrations" else str(policy)
            return StageResult(told=roll_out(stage, tasks, by, folder, self._stopping, self.say))
        if isinstance(stage, AuditStage):
            return self._audit(stage, first, str(policy))
        new = f"{self._settings.name}-{name}"
        trained = (
            self._taught(stage, name, new, folder, tasks, policy)
            if isinstance(stage, RowsStage)
            else self._trained_live(stage, name, new, folder, str(policy))
        )
        if trained.stopped_by == "interrupt":
            raise Interrupted
        steps = f"{trained.steps} step{'' if trained.steps == 1 else 's'}, ended by {trained.stopped_by}"
        result = StageResult(trained, told=[f"{trained.policy}, from {trained.parent}: {steps}"])
        if trained.why is not None:
            result.told.append(trained.why)
        if self._spec.evaluate is not None and policy is not None:
            result.compared = self._compare(self._spec.evaluate, policy, new)
            result.told.append(result.compared.sentence)
        return result

    def say(self, line: str) -> None:
        self._watching.say(f"  {line}")

    def close(self) -> None:
        self._scalars.close()

    def _taught(
        self, stage: RowsStage, name: str, new: str, folder: StageFolder, tasks: Sequence[Built], policy: str | None
    ) -> TrainedPolicy:
        def tell(step: TrainedStep, of: int) -> None:
            self._step(name, step, of)
            if self._stopping.is_set:
                raise KeyboardInterrupt

        rows = folder.path / "rows"
        if not rows.is_dir():
            build(self._ledger, wishes.dataset_wish(stage, [t.row.name for t in tasks], self._settings.command), rows)
        model = policy or self._new_model(rows)
        return train(wishes.rows_wish(stage, rows, self._run(model, folder, new)), self._ledger, tell)

    def _trained_live(self, stage: LiveStage, name: str, new: str, folder: StageFolder, policy: str) -> TrainedPolicy:
        base = self._settings.folder
        tasks, rewards = wishes.task_shares(self._spec, base), base / str(self._spec.rewards)
        wish = wishes.live_wish(stage, tasks, rewards, self._run(policy, folder, new))
        return train_live(wish, self._ledger, partial(self._step, name), stop=self._stopping.event)

    def _run(self, model: str, folder: StageFolder, new: str) -> wishes.StageRun:
        return wishes.StageRun(model, folder.path / RUN, new, self._spec.seed, self._settings.threads)

    def _step(self, name: str, step: TrainedStep, of: int) -> None:
        self._watching.step(name, step, of)
        self._scalars.add(step, name)

    def _new_model(self, rows: Path) -> str:
        """Makes the model with random weights, whose tokens are learned from the conversations of a data set."""
        assert not isinstance(self._spec.model, str)
        size = self._spec.model.new
        shape = ModelShape(size.hidden_size, size.layers, size.vocabulary, size.context)
        name = f"{self._settings.name}-new"
        return add_random_model(name, [rows], shape, self._spec.seed, lambda line: None).name

    def _audit(self, stage: AuditStage, first: str, last: str) -> StageResult:
        """Compares the last policy with the first one, on tasks with a dearer ladder."""
        if first == last:
            return StageResult(told=[f"{last} is the first policy, and the only one: nothing to compare"])
        usual = self._spec.evaluate
        spec = EvaluateSpec(
            tasks=stage.tasks,
            seeds=stage.seeds or (usual.seeds if usual else ()),
            verifications=stage.verifications or (usual.verifications if usual else 0),
            arms={SCRIPTED: ArmSpec(policy=SCRIPTED)},  # the gate puts in the policies
        )
        compared = self._compare(spec, first, last)
        return StageResult(compared=compared, told=[f"{last} against {first}: {compared.sentence}"])

    def _compare(self, spec: EvaluateSpec, before: str, after: str) -> PolicyComparison:
        def tell(each: EvaluatedCampaign, n: int, of: int) -> None:
            self.say(f"evaluated {n} of {of}: {each.campaign}, {each.hits} hits")

        gate = Gate(spec, self._settings.folder, self._ledger, self._settings.workers, self._stopping)
        return gate.compare(before, after, tell)
