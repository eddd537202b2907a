"""The work of a stage of a recipe: episodes, a training run or an audit, and the gate at its end.

`StageWorker` does the work. `roll_out` rolls out the episodes of a stage in every task. `dataset_settings`,
`rows_settings` and `live_settings` make the settings of a stage's training. `Gate` compares the stage's policy with the
one before, on the same tasks and seeds at equal verification cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.errors import SciagentError
from sciagent.inputs.environment_variables import user
from sciagent.store.campaign_state.proposer_trajectories import Purpose
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import rollout_groups
from sciagent.training.command_answers import TrainedPolicy, TrainedStep
from sciagent.training.dataset_building import build
from sciagent.training.evaluation.evaluation_command_answers import EvaluatedCampaign, EvaluationAnswer
from sciagent.training.evaluation.evaluation_spec import ArmSpec, EvaluateSpec, Interval
from sciagent.training.evaluation.run_evaluation import Evaluation, Tell
from sciagent.training.learner.run_state import ScalarWriter
from sciagent.training.learner.training_run import train
from sciagent.training.live.live_run import train_live
from sciagent.training.random_weights_and_trained_tokenizer import ModelShape, add_random_model
from sciagent.training.recipes.recipe_file import AuditStage, EpisodesStage, LiveStage, RecipeSpec, RowsStage, StageSpec
from sciagent.training.recipes.recipe_folder_and_stop import Interrupted, StageFolder, Stopping
from sciagent.training.recipes.training_charts_and_html_report import RUN
from sciagent.training.rollouts.campaign_rollouts import RolloutDrive, plan_of, policy_of
from sciagent.training.settings import (
    AnswerSettings,
    DatasetKind,
    DatasetSettings,
    LiveSettings,
    SettingsGroup,
    TaskShare,
    Training,
    TrainingSettings,
)


def built_tasks(ledger: Ledger, files: Sequence[Path]) -> list[Built]:
    """Returns the campaigns of the tasks, and makes those that are not in the ledger. Raises SpecError."""
    campaigns = []
    for file in files:
        text = file.read_text(encoding="utf-8")
        campaigns.append(create_or_open(ledger, load_spec(file), text, user()).built)
    return campaigns


def roll_out(
    stage: EpisodesStage,
    tasks: Sequence[Built],
    policy: str,
    folder: StageFolder,
    stopping: Stopping,
    say: Callable[[str], None],
) -> list[str]:
    """Rolls out the missing groups of a stage in each task; returns what it did, in sentences.

    policy: `scripted` or a model of this machine. Raises Interrupted.
    """
    purpose: Purpose = "demonstration" if stage.kind == "demonstrations" else "rollout"
    # counted when the stage begins, so that a restart rolls out only the groups that are still missing
    n_before: Mapping[str, int] = folder.stored_once(
        "groups", lambda: {built.row.name: _n_complete(built, purpose) for built in tasks}
    )
    lines = []
    for built in tasks:
        name = built.row.name
        n_wanted = n_before[name] + stage.groups
        with policy_of(built, policy) as batch_policy:
            n_missing = n_wanted - _n_complete(built, purpose)
            while n_missing > 0:
                drive = RolloutDrive(built, batch_policy, workers=None, say=partial(_say_with_name, say, name))
                plan = plan_of(
                    groups=n_missing,
                    siblings=stage.siblings,
                    turns=stage.turns,
                    policy=batch_policy.name,
                    purpose=purpose,
                    begins=stage.begins,
                )
                with stopping.during(drive.stop):
                    answer = drive.run(plan)
                if stopping.is_set:
                    raise Interrupted
                # a call that is stopped, or takes no turn, would end alike if it were repeated
                if answer.stopped is not None or not answer.turns:
                    lines.append(f"{name}: {answer.stopped or f'the campaign is {answer.state}'}")
                    break
                n_missing = n_wanted - _n_complete(built, purpose)
        n_new = _n_complete(built, purpose) - n_before[name]
        lines.append(f"{name}: {n_new} groups of {stage.siblings} by {policy}")
    return lines


def _say_with_name(say: Callable[[str], None], name: str, line: str) -> None:
    say(f"{name}: {line}")


def _n_complete(built: Built, purpose: str) -> int:
    """Returns the number of complete groups with a purpose that the campaign has."""
    with built.ledger.read() as connection:
        rows = rollout_groups.of_campaign(connection, built.row.id, "complete")
    return len([row for row in rows if row.purpose == purpose])


class GateError(SciagentError):
    """Policies cannot be compared."""


class PolicyComparison(NamedTuple):
    """Hits by verification of two policies. Each figure is the mean and both ends of its 95 % interval."""

    before: Interval
    after: Interval
    difference: Interval
    """After less before, paired by task and seed."""

    @property
    def is_worse(self) -> bool:
        """Whether the later policy is worse beyond its interval."""
        return self.difference[2] < 0

    @property
    def sentence(self) -> str:
        mean, lower, upper = self.difference
        if self.is_worse:
            verdict = "worse"
        elif lower > 0:
            verdict = "better"
        else:
            verdict = "not clearly different"
        return (
            f"{verdict}: {self.after[0]:.3g} hits by verification after {self.before[0]:.3g}; "
            f"difference {mean:+.3g} ({lower:+.3g} to {upper:+.3g})"
        )


class Gate:
    """Compares policies on the tasks of an evaluation."""

    def __init__(self, spec: EvaluateSpec, folder: Path, ledger: Ledger, workers: int, stopping: Stopping) -> None:
        """folder: where relative paths of the tasks start. workers: campaigns at the same time."""
        self._spec = spec
        self._folder = folder
        self._ledger = ledger
        self._workers = workers
        self._stopping = stopping

    def compare(self, before: str, after: str, tell: Tell) -> PolicyComparison:
        """Evaluates two models, or goes on with their evaluation. Campaigns that have ended are not run again.

        Raises Interrupted, or GateError if a campaign fails.
        """
        arms = {name: ArmSpec(model=name) for name in (before, after)}  # named by model, so that each is run once
        evaluation = Evaluation(self._spec.model_copy(update={"arms": arms}), self._folder, self._ledger, self._workers)
        with self._stopping.during(evaluation.stop):
            answer = evaluation.run(tell)
        if self._stopping.is_set:
            raise Interrupted
        return comparison(answer, before, after)


def comparison(answer: EvaluationAnswer, before: str, after: str) -> PolicyComparison:
    """Returns the comparison of two arms. Raises GateError if campaigns are missing."""
    failures = [why for arm in answer.arms.values() for why in arm.failed]
    for reasons in answer.failed.values():
        failures += reasons
    if failures:
        raise GateError(f"the policies cannot be compared: {failures[0]}; mend this, and give the same command again")
    if answer.stopped is not None:
        raise GateError(f"the policies are not compared yet: {answer.stopped}; give the same command again")
    [difference] = answer.differences
    hits_before = answer.arms[before].hits_per_verification
    hits_after = answer.arms[after].hits_per_verification
    return PolicyComparison(hits_before, hits_after, difference.hits_per_verification)


class StageTraining(NamedTuple):
    """The kind of a stage's data set, and the training on it."""

    dataset: DatasetKind
    training: Training


@dataclass(frozen=True)
class StageRun:
    """Those settings of a stage's training that the recipe does not state for the stage."""

    model: str
    """Name of the model that is trained."""
    out: Path
    """Folder of the training."""
    name: str
    """Name of the new model."""
    seed: int
    threads: int | None
    """Threads of PyTorch on a CPU; None: as many as there are cores."""


STAGE_TRAININGS = {
    "sft": StageTraining("sft", "sft"),
    "hindsight": StageTraining("hindsight", "sft"),
    "distill": StageTraining("rows", "distill"),
    "hinted": StageTraining("hindsight", "hindsight"),
}
"""Data set and training by the kind of a stage."""


def task_shares(spec: RecipeSpec, folder: Path) -> list[TaskShare]:
    """Returns the tasks of live training. folder: of the recipe."""
    return [TaskShare(file=folder / task.campaign, weight=task.weight) for task in spec.task_specs]


def stated_values(stage: SettingsGroup, model: type[SettingsGroup]) -> Mapping[str, Any]:
    """Returns the values that a stage states for the fields of a model, by name."""
    return {name: getattr(stage, name) for name in stage.model_fields_set if name in model.model_fields}


def dataset_settings(stage: RowsStage, campaigns: Sequence[str], command: str) -> DatasetSettings:
    """Returns the data set that a stage trains on. It holds out no goal, since `evaluate` names the held-out tasks."""
    kind = STAGE_TRAININGS[stage.kind].dataset
    selection = stated_values(stage, AnswerSettings)
    return DatasetSettings(kind=kind, campaigns=tuple(campaigns), test_share=0.0, command=command, **selection)


def rows_settings(stage: RowsStage, rows: Path, run: StageRun) -> TrainingSettings:
    """Returns the training of a stage on a data set. rows: its folder."""
    training = STAGE_TRAININGS[stage.kind].training
    values = {**stated_values(stage, TrainingSettings), **vars(run)}
    return TrainingSettings(**values, training=training, rows=rows)


def live_settings(stage: LiveStage, tasks: Sequence[TaskShare], rewards: Path, run: StageRun) -> LiveSettings:
    """Returns the training of a stage on the live ladder. rewards: file that describes them."""
    values = {**stated_values(stage, LiveSettings), **vars(run)}
    return LiveSettings(**values, training=stage.kind, tasks=tuple(tasks), rewards=rewards)


SCRIPTED = "scripted"


class Watching(Protocol):
    """Is told what a run does."""

    def say(self, line: str) -> None: ...

    def step(self, stage: str, step: TrainedStep, of: int) -> None:
        """stage: its name. of: number of steps of its training."""


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
    lines: list[str] = field(default_factory=list)
    """Sentences about its work."""


class StageWorker:
    """Does the work of stages. Work that was interrupted goes on where it was."""

    def __init__(
        self, spec: RecipeSpec, settings: RecipeRunSettings, ledger: Ledger, watching: Watching, stopping: Stopping
    ) -> None:
        self._spec = spec
        self._settings = settings
        self._ledger = ledger
        self._watching = watching
        self._stopping = stopping
        self._scalars = ScalarWriter(settings.out)

    def work(
        self, stage: StageSpec, name: str, folder: StageFolder, tasks: Sequence[Built], policy: str | None, first: str
    ) -> StageResult:
        """Does the work of a stage, or what remains of it. Raises Interrupted.

        policy: name of the model so far; None before there is one. first: name of the recipe's first model.
        """
        if isinstance(stage, EpisodesStage):
            answering_policy = str(policy)
            if stage.kind == "demonstrations":
                answering_policy = stage.policy or SCRIPTED
            return StageResult(lines=roll_out(stage, tasks, answering_policy, folder, self._stopping, self.say))
        if isinstance(stage, AuditStage):
            return self._audit(stage, first, str(policy))
        new_name = f"{self._settings.name}-{name}"
        if isinstance(stage, RowsStage):
            trained = self._train_on_rows(stage, name, new_name, folder, tasks, policy)
        else:
            trained = self._train_live(stage, name, new_name, folder, str(policy))
        if trained.stopped_by == "interrupt":
            raise Interrupted
        plural = "" if trained.steps == 1 else "s"
        steps = f"{trained.steps} step{plural}, ended by {trained.stopped_by}"
        result = StageResult(trained, lines=[f"{trained.policy}, from {trained.parent}: {steps}"])
        if trained.why is not None:
            result.lines.append(trained.why)
        if self._spec.evaluate is not None and policy is not None:
            result.compared = self._compare(self._spec.evaluate, policy, new_name)
            result.lines.append(result.compared.sentence)
        return result

    def say(self, line: str) -> None:
        self._watching.say(f"  {line}")

    def close(self) -> None:
        self._scalars.close()

    def _train_on_rows(
        self,
        stage: RowsStage,
        name: str,
        new_name: str,
        folder: StageFolder,
        tasks: Sequence[Built],
        policy: str | None,
    ) -> TrainedPolicy:
        """Trains on a data set, which is built first if the stage's folder has none. new_name: of the trained model."""

        def tell(step: TrainedStep, of: int) -> None:
            self._step(name, step, of)
            if self._stopping.is_set:
                raise KeyboardInterrupt  # `train` then saves the run

        rows = folder.path / "rows"
        if not rows.is_dir():
            campaigns = [task.row.name for task in tasks]
            build(self._ledger, dataset_settings(stage, campaigns, self._settings.command), rows)
        model = policy or self._new_model(rows)
        return train(rows_settings(stage, rows, self._run(model, folder, new_name)), self._ledger, tell)

    def _train_live(
        self, stage: LiveStage, name: str, new_name: str, folder: StageFolder, policy: str
    ) -> TrainedPolicy:
        base = self._settings.folder
        tasks = task_shares(self._spec, base)
        rewards = base / str(self._spec.rewards)
        settings = live_settings(stage, tasks, rewards, self._run(policy, folder, new_name))
        return train_live(settings, self._ledger, partial(self._step, name), stop=self._stopping.event)

    def _run(self, model: str, folder: StageFolder, new_name: str) -> StageRun:
        return StageRun(
            model=model, out=folder.path / RUN, name=new_name, seed=self._spec.seed, threads=self._settings.threads
        )

    def _step(self, name: str, step: TrainedStep, of: int) -> None:
        self._watching.step(name, step, of)
        self._scalars.add(step, name)

    def _new_model(self, rows: Path) -> str:
        """Makes the model with random weights, whose tokens are learned from the conversations of a data set."""
        assert not isinstance(self._spec.model, str)
        size = self._spec.model.new
        shape = ModelShape(size.hidden_size, size.layers, size.vocabulary, size.context)
        name = f"{self._settings.name}-new"
        return add_random_model(name, [rows], shape, self._spec.seed, tell=lambda line: None).name

    def _audit(self, stage: AuditStage, first: str, last: str) -> StageResult:
        """Compares the last policy with the first one, on tasks with a more expensive ladder."""
        if first == last:
            return StageResult(lines=[f"{last} is the first policy, and the only one: nothing to compare"])
        evaluate = self._spec.evaluate
        usual_seeds = evaluate.seeds if evaluate else ()
        usual_verifications = evaluate.verifications if evaluate else 0
        spec = EvaluateSpec(
            tasks=stage.tasks,
            seeds=stage.seeds or usual_seeds,
            verifications=stage.verifications or usual_verifications,
            arms={SCRIPTED: ArmSpec(policy=SCRIPTED)},  # an arm is required; the gate replaces it by the policies
        )
        compared = self._compare(spec, first, last)
        return StageResult(compared=compared, lines=[f"{last} against {first}: {compared.sentence}"])

    def _compare(self, spec: EvaluateSpec, before: str, after: str) -> PolicyComparison:
        def tell(each: EvaluatedCampaign, n: int, of: int) -> None:
            self.say(f"evaluated {n} of {of}: {each.campaign}, {each.hits} hits")

        gate = Gate(spec, self._settings.folder, self._ledger, self._settings.workers, self._stopping)
        return gate.compare(before, after, tell)
