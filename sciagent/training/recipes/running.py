"""A run of a recipe: stage by stage, each gated by an evaluation. A run that was ended goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sciagent.agent import models
from sciagent.domain.answers.evaluation import EvaluatedCampaign
from sciagent.domain.answers.training import RecipeAnswer, StageAnswer, TrainedPolicy, TrainedStep
from sciagent.store.database.ledger import Ledger
from sciagent.training.building import build
from sciagent.training.evaluation.spec import EvaluateSpec
from sciagent.training.learner.running import train
from sciagent.training.live.running import train_live
from sciagent.training.live.wish import TaskShare
from sciagent.training.random_models import ModelShape, add_random_model
from sciagent.training.recipes import wishes
from sciagent.training.recipes.episodes import built_tasks, roll_out
from sciagent.training.recipes.gates import Comparison, Gate
from sciagent.training.recipes.report import write_report
from sciagent.training.recipes.spec import RecipeSpec, stage_number
from sciagent.training.recipes.stage_folders import StageFolder, opened
from sciagent.training.recipes.stages import AuditStage, EpisodesStage, LiveStage, RowsStage
from sciagent.training.recipes.stopping import Interrupted, Stopping

GUARDS = ("control_gap", "exploitation", "unsettled")
"""Guards whose alarm means that the policy is not to be used."""


class Watching(Protocol):
    """Is told what a run does."""

    def say(self, line: str) -> None: ...

    def step(self, stage: str, step: TrainedStep, of: int) -> None: ...


@dataclass
class _Stage:
    """What a stage has done so far."""

    policy: str | None = None
    """Name of the new model."""
    trained: TrainedPolicy | None = None
    compared: Comparison | None = None
    told: list[str] = field(default_factory=list)


class RecipeRun:
    """One run of a recipe. `stop` may be called from any thread; the same run goes on later."""

    def __init__(
        self,
        spec: RecipeSpec,
        folder: Path,
        out: Path,
        ledger: Ledger,
        watching: Watching,
        *,
        name: str | None = None,
        threads: int | None = None,
        workers: int = 1,
        command: str = "",
    ) -> None:
        """folder: where relative paths of the recipe start. out: folder of the run. name: beginning of the names of
        the models; None for that of `out`. workers: campaigns of an evaluation at the same time. command: the command
        line, for the cards of data sets."""
        self._spec, self._folder, self.out, self._ledger, self._watching = spec, folder, out, ledger, watching
        self._name, self._threads, self._workers = name or out.resolve().name, threads, workers
        self._command = command
        self._stopping = Stopping()
        self._policy = spec.model if isinstance(spec.model, str) else None
        self._first = self._policy
        self._done: list[StageAnswer] = []

    def stop(self) -> None:
        """Ends the run as soon as nothing is lost."""
        self._stopping.stop()

    def run(self, until: str | None = None) -> RecipeAnswer:
        """Runs the stages that are left. until: the last stage to run; None for all.

        Raises UsageError for a folder of another run, an unknown stage, or a task or model that cannot be used.
        """
        models.checked(self._name)
        last = len(self._spec.stages) - 1 if until is None else stage_number(self._spec, until)
        with opened(self.out, self._spec.recipe):
            self._tasks = built_tasks(self._ledger, self._task_files)
            for number in range(last + 1):
                try:
                    answer = self._stage(number)
                except Interrupted:
                    return self._answer("interrupt")
                if not answer.taken and (answer.stopped_by in GUARDS or self._spec.on_worse == "stop"):
                    return self._answer(str(answer.stopped_by) if answer.stopped_by in GUARDS else "worse")
        return self._answer("stages" if last == len(self._spec.stages) - 1 else "until")

    def _stage(self, number: int) -> StageAnswer:
        """Runs a stage, or reads its answer if it is done; goes on with its policy if that is not worse."""
        stage, name = self._spec.stages[number], self._spec.names[number]
        folder = StageFolder(self.out / f"{number + 1:02}-{name}")
        asked = self._asked(stage, name)
        answer = folder.answer(asked)
        if answer is None:
            self._watching.say(f"stage {number + 1} of {len(self._spec.stages)}: {name}")
            began, parent = time.monotonic(), self._card(self._policy)
            done = self._work(stage, name, folder)
            answer = self._told(stage.kind, name, done, parent, time.monotonic() - began)
            folder.finish(asked, answer)
        self._done.append(answer)
        if answer.policy is not None and answer.taken:
            self._policy = answer.policy.split("@")[0]
            self._first = self._first or self._policy
        for line in answer.told:
            self._say(line)
        write_report(self.out, self._spec.recipe, self._done)
        return answer

    def _work(self, stage: Any, name: str, folder: StageFolder) -> _Stage:
        if isinstance(stage, EpisodesStage):
            policy = stage.policy or "scripted" if stage.kind == "demonstrations" else str(self._policy)
            return _Stage(told=roll_out(stage, self._tasks, policy, folder, self._stopping, self._say))
        if isinstance(stage, AuditStage):
            return self._audit(stage)
        done = self._trained(stage, name, folder)
        if self._spec.evaluate is not None and done.policy and self._policy:
            done.compared = self._compare(self._spec.evaluate, self._policy, done.policy)
            done.told.append(done.compared.sentence)
        return done

    def _trained(self, stage: RowsStage | LiveStage, name: str, folder: StageFolder) -> _Stage:
        new, out, seed = f"{self._name}-{name}", folder.path / "run", self._spec.seed

        def tell(step: TrainedStep, of: int) -> None:
            self._watching.step(name, step, of)
            if self._stopping.is_set:
                raise KeyboardInterrupt

        if isinstance(stage, RowsStage):
            rows = folder.path / "rows"
            if not rows.is_dir():
                wish = wishes.dataset_wish(stage, [task.row.name for task in self._tasks], self._command)
                build(self._ledger, wish, rows)
            model = self._policy or self._new_model(rows)
            answer = train(wishes.rows_wish(stage, rows, model, out, new, seed, self._threads), self._ledger, tell)
        else:
            shares = [
                TaskShare(file, task.weight) for file, task in zip(self._task_files, self._spec.task_specs, strict=True)
            ]
            rewards = self._folder / str(self._spec.rewards)
            wish_ = wishes.live_wish(stage, shares, rewards, str(self._policy), out, new, seed, self._threads)
            answer = train_live(wish_, self._ledger, self._step_of(name), stop=self._stopping.event)
        if answer.stopped_by == "interrupt":
            raise Interrupted
        steps = f"{answer.steps} step{'' if answer.steps == 1 else 's'}, ended by {answer.stopped_by}"
        return _Stage(new, answer, told=[f"{answer.policy}, from {answer.parent}: {steps}"])

    def _step_of(self, name: str) -> Callable[[TrainedStep, int], None]:
        return lambda step, of: self._watching.step(name, step, of)

    def _new_model(self, rows: Path) -> str:
        """Makes the model with random weights, whose tokens are learned from the conversations of a data set."""
        assert not isinstance(self._spec.model, str)
        size = self._spec.model.new
        shape = ModelShape(size.hidden_size, size.layers, size.vocabulary, size.context)
        return add_random_model(f"{self._name}-new", [rows], shape, self._spec.seed, lambda line: None).name

    def _audit(self, stage: AuditStage) -> _Stage:
        """Compares the last policy with the first one that a stage made, on tasks with a dearer ladder."""
        evaluate = self._spec.evaluate
        spec = EvaluateSpec(
            tasks=stage.tasks,
            seeds=stage.seeds or (evaluate.seeds if evaluate else ()),
            verifications=stage.verifications or (evaluate.verifications if evaluate else 0),
            arms={"before": {"policy": "scripted"}},  # type: ignore[dict-item]  # replaced by the gate
        )
        first, last = str(self._first), str(self._policy)
        if first == last:
            return _Stage(told=[f"there is only one policy, {last}: nothing to compare"])
        compared = self._compare(spec, first, last)
        return _Stage(compared=compared, told=[f"{last} against {first}: {compared.sentence}"])

    def _compare(self, spec: EvaluateSpec, before: str, after: str) -> Comparison:
        def tell(each: EvaluatedCampaign, n: int, of: int) -> None:
            self._say(f"evaluated {n} of {of}: {each.campaign}, {each.hits} hits")

        gate = Gate(spec, self._folder, self._ledger, self._workers, self._stopping)
        return gate.compare(before, after, tell)

    def _say(self, line: str) -> None:
        self._watching.say(f"  {line}")

    def _told(self, kind: str, name: str, done: _Stage, parent: str | None, seconds: float) -> StageAnswer:
        trained, compared = done.trained, done.compared
        stopped_by = None if trained is None else trained.stopped_by
        taken = stopped_by not in GUARDS and not (compared is not None and compared.is_worse)
        if not taken:
            kept = f"goes on with {parent}" if self._spec.on_worse == "keep" and stopped_by not in GUARDS else "stops"
            done.told.append(f"the policy is not taken over; the recipe {kept}")
        return StageAnswer(
            stage=name,
            kind=kind,
            policy=None if trained is None else trained.policy,
            parent=parent if trained is None else trained.parent,
            steps=0 if trained is None else trained.steps,
            stopped_by=stopped_by,
            before=compared and compared.before,
            after=compared and compared.after,
            difference=compared and compared.difference,
            taken=taken,
            told=tuple(done.told),
            seconds=round(seconds, 3),
        )

    def _asked(self, stage: Any, name: str) -> Mapping[str, Any]:
        """Returns all that decides what comes out of a stage, as JSON values."""
        told = stage.model_dump(mode="json", by_alias=True, exclude_defaults=True) | {"kind": stage.kind, "name": name}
        model = self._card(self._policy)
        if model is None and not isinstance(self._spec.model, str):
            told["new"] = self._spec.model.new.model_dump(mode="json")
        return told | {"model": model, "seed": self._spec.seed, "tasks": [task.row.name for task in self._tasks]}

    def _card(self, name: str | None) -> str | None:
        """Returns name and hash of a model. Raises UnknownNameError, or ModelError if its files have changed."""
        return None if name is None else models.find(name).policy

    @property
    def _task_files(self) -> list[Path]:
        return [self._folder / task.campaign for task in self._spec.task_specs]

    def _answer(self, stopped_by: str) -> RecipeAnswer:
        makers = [stage for stage in self._done if stage.policy is not None]
        return RecipeAnswer(
            policy=self._card(self._policy) if any(stage.taken for stage in makers) else None,
            parent=makers[0].parent if makers else None,
            steps=sum(stage.steps for stage in self._done),
            stopped_by=stopped_by,
            folder=str(self.out),
            stages=tuple(self._done),
        )
