"""A run of a recipe: its stages one after the other, each gated by an evaluation of the policy that it made.

A run that was interrupted goes on where it ended.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from sciagent.agent import install_and_find_models
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import RecipeAnswer, StageAnswer
from sciagent.training.recipes.recipe_file import NewModelSpec, RecipeSpec, StageSpec, stage_number
from sciagent.training.recipes.recipe_folder_and_stop import Interrupted, StageFolder, Stopping, opened
from sciagent.training.recipes.run_stage import RecipeRunSettings, StageResult, StageWorker, Watching, built_tasks
from sciagent.training.recipes.training_charts_and_html_report import write_report

GUARDS = ("control_gap", "exploitation", "unsettled")
"""Guards whose alarm means that the policy is not to be used; a spent KL budget only ends the stage."""


class RecipeRun:
    """One run of a recipe. `stop` may be called from any thread; the same run goes on later."""

    def __init__(self, spec: RecipeSpec, settings: RecipeRunSettings, ledger: Ledger, watching: Watching) -> None:
        """watching: gets sentences about what the run does."""
        self._spec = spec
        self._settings = settings
        self._ledger = ledger
        self._watching = watching
        self._stopping = Stopping()
        self._worker = StageWorker(spec, settings, ledger, watching, self._stopping)
        self._policy = spec.model if isinstance(spec.model, str) else None
        """Name of the model that the next stage begins with; None before there is one."""
        self._first = self._policy
        """Name of the model that the recipe began with, or of the first one that it made; None before there is one."""
        self._done: list[StageAnswer] = []
        """Answers of the stages that are done, in order."""
        self._tasks: list[Built] = []

    def stop(self) -> None:
        """Ends the run as soon as it can end without losing finished work."""
        self._stopping.stop()

    def run(self, until: str | None = None) -> RecipeAnswer:
        """Runs the stages that are left. until: the last stage to run; None for all.

        Raises UsageError for a folder of another run, an unknown stage, or a task or model that cannot be used.
        """
        install_and_find_models.checked(self._settings.name)
        last = len(self._spec.stages) - 1 if until is None else stage_number(self._spec, until)
        files = [self._settings.folder / task.campaign for task in self._spec.task_specs]
        with opened(self._settings.out, self._spec.recipe):
            self._tasks = built_tasks(self._ledger, files)
            try:
                stopped_by = self._run_stages(last)
            except Interrupted:
                stopped_by = "interrupt"
            finally:
                self._worker.close()
        return self._answer(stopped_by)

    def _run_stages(self, last: int) -> str:
        """Runs the stages up to the one with the number `last`; returns why the run ended. Raises Interrupted."""
        for number in range(last + 1):
            answer = self._run_stage(number)
            if answer.stopped_by in GUARDS:
                return str(answer.stopped_by)
            if not answer.taken and self._spec.on_worse == "stop":
                return "worse"
        return "stages" if last == len(self._spec.stages) - 1 else "until"

    def _run_stage(self, number: int) -> StageAnswer:
        """Runs a stage, or reads its answer if it is done. The next stage begins with its policy if it is taken."""
        stage = self._spec.stages[number]
        name = self._spec.names[number]
        folder = StageFolder(self._settings.out / f"{number + 1:02}-{name}")
        asked = self._stage_inputs(stage, name)
        answer = folder.answer(asked)
        if answer is None:
            self._watching.say(f"stage {number + 1} of {len(self._spec.stages)}: {name}")
            began = time.monotonic()
            parent = self._name_and_hash(self._policy)
            first = self._first or str(self._policy)
            result = self._worker.work(stage, name, folder, self._tasks, self._policy, first)
            answer = self._stage_answer(stage.kind, name, result, parent, time.monotonic() - began)
            for line in answer.told:
                self._worker.say(line)
            folder.finish(asked, answer)
        self._done.append(answer)
        write_report(self._settings.out, self._spec.recipe, self._done)
        if answer.policy is not None and answer.taken:
            self._policy = answer.policy.rpartition("@")[0]  # the name, without the hash
            self._first = self._first or self._policy
        return answer

    def _stage_answer(
        self, kind: str, name: str, result: StageResult, parent: str | None, seconds: float
    ) -> StageAnswer:
        """Returns the answer of a stage that is done. parent: name and hash of the model that it began with."""
        trained = result.trained
        compared = result.compared
        stopped_by = None if trained is None else trained.stopped_by
        is_stopped_by_guard = stopped_by in GUARDS
        is_worse = compared is not None and compared.is_worse
        taken = not is_stopped_by_guard and not is_worse
        lines = list(result.lines)
        if not taken:
            goes_on = self._spec.on_worse == "keep" and not is_stopped_by_guard
            consequence = f"goes on with {parent}" if goes_on else "stops"
            lines.append(f"this is not taken over; the recipe {consequence}")
        comparison: Mapping[str, Any] = {}  # the fields before, after and difference; empty without a comparison
        if compared is not None:
            comparison = compared._asdict()
        return StageAnswer(
            stage=name,
            kind=kind,
            policy=None if trained is None else trained.policy,
            parent=parent if trained is None else trained.parent,
            steps=0 if trained is None else trained.steps,
            stopped_by=stopped_by,
            **comparison,
            taken=taken,
            told=tuple(lines),
            seconds=round(seconds, 3),
        )

    def _stage_inputs(self, stage: StageSpec, name: str) -> Mapping[str, Any]:
        """Returns all that decides the result of a stage, as JSON values. name: of the stage."""
        settings = stage.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        settings |= {"kind": stage.kind, "name": name}
        model = self._name_and_hash(self._policy)
        new = None  # sizes of the new model that the stage makes; None if it begins with a model
        if model is None and not isinstance(self._spec.model, str):
            new = _size(self._spec.model.new)
        tasks = [task.row.identity_hash for task in self._tasks]
        return settings | {"model": model, "new": new, "seed": self._spec.seed, "tasks": tasks}

    def _name_and_hash(self, name: str | None) -> str | None:
        """Returns a model's name with its hash; None without a name.

        Raises UnknownNameError, or ModelError if the model's files have changed.
        """
        return None if name is None else install_and_find_models.find(name).policy

    def _answer(self, stopped_by: str) -> RecipeAnswer:
        """Returns the answer of the recipe, from the stages that are done."""
        training_stages = [stage for stage in self._done if stage.policy is not None]
        is_any_taken = any(stage.taken for stage in training_stages)
        return RecipeAnswer(
            policy=self._name_and_hash(self._policy) if is_any_taken else None,
            parent=training_stages[0].parent if training_stages else self._name_and_hash(self._policy),
            steps=sum(stage.steps for stage in self._done),
            stopped_by=stopped_by,
            folder=str(self._settings.out),
            stages=tuple(self._done),
        )


def _size(new: NewModelSpec) -> Mapping[str, int]:
    """Returns the sizes of a new model, as JSON values."""
    return new.model_dump(mode="json")
