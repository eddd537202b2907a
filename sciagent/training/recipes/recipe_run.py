"""A run of a recipe: stage by stage, each gated by an evaluation. A run that was ended goes on where it was."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sciagent.agent import installed_models
from sciagent.campaign.core.build import Built
from sciagent.store.database.ledger import Ledger
from sciagent.training.recipes.recipe_file import NewModelSpec, RecipeSpec, StageSpec, stage_number
from sciagent.training.recipes.recipe_report import write_report
from sciagent.training.recipes.run_stage import RecipeRunSettings, StageResult, StageWorker, Watching, built_tasks
from sciagent.training.recipes.stage_folders import Interrupted, StageFolder, Stopping, opened
from sciagent.training.train_answers import RecipeAnswer, StageAnswer

GUARDS = ("control_gap", "exploitation", "unsettled")
"""Guards whose alarm means that the policy is not to be used; a spent KL budget only ends the stage."""


class RecipeRun:
    """One run of a recipe. `stop` may be called from any thread; the same run goes on later."""

    def __init__(self, spec: RecipeSpec, settings: RecipeRunSettings, ledger: Ledger, watching: Watching) -> None:
        """watching: is told what the run does."""
        self._spec = spec
        self._settings = settings
        self._ledger = ledger
        self._watching = watching
        self._stopping = Stopping()
        self._worker = StageWorker(spec, settings, ledger, watching, self._stopping)
        self._policy = spec.model if isinstance(spec.model, str) else None
        self._first = self._policy
        self._done: list[StageAnswer] = []
        self._tasks: list[Built] = []

    def stop(self) -> None:
        """Ends the run as soon as nothing is lost."""
        self._stopping.stop()

    def run(self, until: str | None = None) -> RecipeAnswer:
        """Runs the stages that are left. until: the last stage to run; None for all.

        Raises UsageError for a folder of another run, an unknown stage, or a task or model that cannot be used.
        """
        installed_models.checked(self._settings.name)
        last = len(self._spec.stages) - 1 if until is None else stage_number(self._spec, until)
        files = [self._settings.folder / task.campaign for task in self._spec.task_specs]
        with opened(self._settings.out, self._spec.recipe):
            self._tasks = built_tasks(self._ledger, files)
            try:
                stopped_by = self._stages(last)
            except Interrupted:
                stopped_by = "interrupt"
            finally:
                self._worker.close()
        return self._answer(stopped_by)

    def _stages(self, last: int) -> str:
        """Runs the stages up to the one with the number `last`; returns why the run ended. Raises Interrupted."""
        for number in range(last + 1):
            answer = self._stage(number)
            if answer.stopped_by in GUARDS:
                return str(answer.stopped_by)
            if not answer.taken and self._spec.on_worse == "stop":
                return "worse"
        return "stages" if last == len(self._spec.stages) - 1 else "until"

    def _stage(self, number: int) -> StageAnswer:
        """Runs a stage, or reads its answer if it is done; goes on with its policy if that is not worse."""
        stage = self._spec.stages[number]
        name = self._spec.names[number]
        folder = StageFolder(self._settings.out / f"{number + 1:02}-{name}")
        asked = self._asked(stage, name)
        answer = folder.answer(asked)
        if answer is None:
            self._watching.say(f"stage {number + 1} of {len(self._spec.stages)}: {name}")
            began = time.monotonic()
            parent = self._card(self._policy)
            first = self._first or str(self._policy)
            result = self._worker.work(stage, name, folder, self._tasks, self._policy, first)
            answer = self._stage_answer(stage.kind, name, result, parent, time.monotonic() - began)
            for line in answer.told:
                self._worker.say(line)
            folder.finish(asked, answer)
        self._done.append(answer)
        write_report(self._settings.out, self._spec.recipe, self._done)
        if answer.policy is not None and answer.taken:
            self._policy = answer.policy.rpartition("@")[0]
            self._first = self._first or self._policy
        return answer

    def _stage_answer(
        self, kind: str, name: str, result: StageResult, parent: str | None, seconds: float
    ) -> StageAnswer:
        """Returns the answer of a stage that is done. parent: the model that it began with."""
        trained = result.trained
        compared = result.compared
        stopped_by = None if trained is None else trained.stopped_by
        taken = stopped_by not in GUARDS and (compared is None or not compared.is_worse)
        lines = list(result.lines)
        if not taken:
            goes_on = self._spec.on_worse == "keep" and stopped_by not in GUARDS
            lines.append(f"this is not taken over; the recipe {f'goes on with {parent}' if goes_on else 'stops'}")
        return StageAnswer(
            stage=name,
            kind=kind,
            policy=None if trained is None else trained.policy,
            parent=parent if trained is None else trained.parent,
            steps=0 if trained is None else trained.steps,
            stopped_by=stopped_by,
            **({} if compared is None else compared._asdict()),
            taken=taken,
            told=tuple(lines),
            seconds=round(seconds, 3),
        )

    def _asked(self, stage: StageSpec, name: str) -> Mapping[str, Any]:
        """Returns all that decides what comes out of a stage, as JSON values."""
        settings = stage.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        settings |= {"kind": stage.kind, "name": name}
        model = self._card(self._policy)
        new = None if isinstance(self._spec.model, str) or model else _size(self._spec.model.new)
        tasks = [task.row.identity_hash for task in self._tasks]
        return settings | {"model": model, "new": new, "seed": self._spec.seed, "tasks": tasks}

    def _card(self, name: str | None) -> str | None:
        """Returns name and hash of a model. Raises UnknownNameError, or ModelError if its files have changed."""
        return None if name is None else installed_models.find(name).policy

    def _answer(self, stopped_by: str) -> RecipeAnswer:
        makers = [stage for stage in self._done if stage.policy is not None]
        taken = any(stage.taken for stage in makers)
        return RecipeAnswer(
            policy=self._card(self._policy) if taken else None,
            parent=makers[0].parent if makers else self._card(self._policy),
            steps=sum(stage.steps for stage in self._done),
            stopped_by=stopped_by,
            folder=str(self._settings.out),
            stages=tuple(self._done),
        )


def _size(new: NewModelSpec) -> Mapping[str, int]:
    return new.model_dump(mode="json")
