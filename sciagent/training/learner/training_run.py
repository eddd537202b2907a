"""A training run: rows of a folder in, a new policy out. A run that was ended goes on from its checkpoint.

`train` does the run. `planned` says which rows are trained in which step; the order follows from the seed alone, so
that a run can go on. `teachers_of` loads the teachers: other models of the same vocabulary, or the model as it was at
the start.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sciagent.agent import install_and_find_models
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.command_answers import StepSeconds, TrainedPolicy, TrainedStep
from sciagent.training.learner import load_and_publish
from sciagent.training.learner.load_and_publish import LoadedModel, load
from sciagent.training.learner.row_selection import FILE, DatasetRows, Unit
from sciagent.training.learner.run_state import RunFolder
from sciagent.training.learner.training_step import Learner, StepMetrics, Teacher
from sciagent.training.settings import TrainingSettings

if TYPE_CHECKING:
    from accelerate import PartialState


class PlannedStep(NamedTuple):
    """A training step."""

    number: int
    """From 1."""
    epoch: int
    """From 1."""
    units: tuple[Unit, ...]


def planned(units: Sequence[Unit], rows: int, epochs: int, seed: int) -> Iterator[PlannedStep]:
    """Yields the steps. Each has whole units with at least `rows` rows together; the last step of an epoch may have
    fewer.

    In an epoch each unit is trained once. Each epoch has another order.
    """
    number = 0
    for epoch in range(1, epochs + 1):
        order = list(units)
        random.Random(f"{seed} {epoch}").shuffle(order)
        step_units: list[Unit] = []
        for place, unit in enumerate(order, 1):
            step_units.append(unit)
            is_last = place == len(order)
            if is_last or sum(len(each.numbers) for each in step_units) >= rows:
                number += 1
                yield PlannedStep(number, epoch, tuple(step_units))
                step_units = []


def teachers_of(settings: TrainingSettings, loaded: LoadedModel) -> list[tuple[Teacher, LoadedModel]]:
    """Returns the teachers of a run, each with the model that it was loaded from.

    Raises UnknownNameError for an unknown model, UsageError for a model with other tokens than the trained model.
    """
    if settings.training == "hindsight":
        return [(Teacher(loaded.reference()), loaded)]
    teachers = []
    for name, weight in settings.teachers.items():
        teacher_model = load(name)
        teachers.append((_teacher(name, weight, teacher_model, loaded), teacher_model))
    return teachers


def _teacher(name: str, weight: float, teacher: LoadedModel, student: LoadedModel) -> Teacher:
    """Returns a teacher. Raises UsageError if its tokens or its number of logits are not those of the student."""
    student_tokens = student.tokenizer.get_vocab()
    teacher_tokens = teacher.tokenizer.get_vocab()
    if student_tokens != teacher_tokens:
        tokens = student_tokens.keys() | teacher_tokens.keys()
        n_different = len([token for token in tokens if student_tokens.get(token) != teacher_tokens.get(token)])
        raise UsageError(
            f"{name} cannot teach {student.card.name}: {n_different} tokens of their vocabularies differ. "
            "A teacher and its student need the same tokenizer"
        )
    student_logits = int(student.model.config.get_text_config().vocab_size)
    teacher_logits = int(teacher.model.config.get_text_config().vocab_size)
    if student_logits != teacher_logits:
        raise UsageError(
            f"{name} cannot teach {student.card.name}: it has {teacher_logits} logits, not {student_logits}"
        )
    return Teacher(teacher.model.requires_grad_(False).eval(), weight)


OMITTED_SETTINGS = {"rows", "out", "name", "threads", "save_every", "teachers", "constants"}
"""Settings that do not decide the result of a run, or that its recipe has in another form."""

Tell = Callable[[TrainedStep, int], None]
"""Takes a step, and the largest number of steps."""


def train(settings: TrainingSettings, ledger: Ledger | None, tell: Tell) -> TrainedPolicy:
    """Trains a model, or goes on with a run that was ended. ledger: gets the new policy; None: no ledger does.

    Of several processes (`accelerate launch`) each trains its share of the rows. The main process writes the folder,
    adds the policy to models and ledger, and tells the steps.

    Raises UsageError for a folder of another run, for rows that do not fit, or if no row has anything to learn.
    """
    import torch

    if settings.threads:
        torch.set_num_threads(settings.threads)
    load_and_publish.check_name(settings.new_name, settings.out)
    run = _Run(settings)
    try:
        is_over_budget = run.take_steps(tell)
    except KeyboardInterrupt:
        return run.answer(policy=None, steps=len(run.folder.metrics()), stopped_by="interrupt")
    policy = run.finish(ledger)
    stopped_by = "kl_budget" if is_over_budget else run.stopped_by
    return run.answer(policy, run.done, stopped_by)


class _Run:
    """A training run: its model, its rows, its folder, and the last step that was taken."""

    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings
        self._loaded = load(settings.model, rank=settings.lora, seed=settings.seed)
        teachers = teachers_of(settings, self._loaded)
        context = self._loaded.context
        for _, teacher_model in teachers:
            context = min(context, teacher_model.context)
        self._data = DatasetRows(settings.rows, settings.training, self._loaded.conversations, context)
        steps = list(planned(self._data.units, settings.rows_per_step, settings.epochs, settings.seed))
        takes_all_steps = settings.steps is None or settings.steps >= len(steps)
        self.stopped_by = "rows" if takes_all_steps else "steps"
        self._steps = steps[: settings.steps]
        if not steps:
            reasons = "; ".join(f"{reason}: {n}" for reason, n in sorted(self._data.left_out.items()))
            in_brackets = f" ({reasons})" if reasons else ""
            raise UsageError(f"{settings.rows} has nothing to learn from{in_brackets}")
        weights = {teacher_model.card.policy: teacher.weight for teacher, teacher_model in teachers}
        self._recipe = _run_recipe(settings, self._loaded, weights)
        with processes().main_process_first():
            self.folder = RunFolder(settings.out, self._recipe)
        self._learner = _learner(settings, self._loaded, [teacher for teacher, _ in teachers])
        self.done = self.folder.restore(self._learner)
        self._restored_steps = self.done
        self._is_written = load_and_publish.is_written(settings.out, self.done)

    @property
    def _is_main(self) -> bool:
        return bool(self._learner.accelerator.is_main_process)

    def take_steps(self, tell: Tell) -> bool:
        """Takes the remaining steps; returns whether the divergence of the last step is over the budget."""
        # the steps before a restart may be over the budget already
        if self.done and _is_over(self._settings, self.folder.metrics()[-1]["kl"]):
            return True
        for step in self._steps[self.done :]:
            rows = self._data.rows(step.units)
            result = self._learner.step(rows)
            if self._is_main:
                trained = _trained_step(step, len(rows), result)
                self.folder.add_metrics(trained.model_dump())
                tell(trained, len(self._steps))
            self.done = step.number
            if _is_over(self._settings, result.kl):
                return True
            if step.number % self._settings.checkpoint_steps == 0:
                self.folder.save(self._learner, step.number)
        return False

    def finish(self, ledger: Ledger | None) -> str:
        """Writes the policy, unless an ended run has written it, and publishes it; returns its name and hash."""
        if self.done > self._restored_steps or not self._is_written:
            self.folder.save(self._learner, self.done)
            weights = self._learner.sharded_weights()
            if self._is_main:
                if weights is None:
                    load_and_publish.write_weights(self._loaded, self._learner.policy, self._settings.out, self.done)
                else:
                    # this process holds only a part of the weights: a model that holds all of them is written
                    unsharded = load(self._settings.model, rank=self._settings.lora, seed=self._settings.seed)
                    unsharded.model.load_state_dict(weights, strict=False)
                    load_and_publish.write_weights(unsharded, unsharded.model, self._settings.out, self.done)
        if self._is_main:
            load_and_publish.publish(self._loaded, self._settings.out, self._settings.new_name, self._recipe, ledger)
        self._learner.accelerator.wait_for_everyone()
        return install_and_find_models.find(self._settings.new_name).policy

    def answer(self, policy: str | None, steps: int, stopped_by: str) -> TrainedPolicy:
        return TrainedPolicy(
            policy=policy,
            parent=self._loaded.card.policy,
            steps=steps,
            stopped_by=stopped_by,
            folder=str(self._settings.out),
            left_out={why: n for why, n in sorted(self._data.left_out.items()) if n},
        )


def processes() -> PartialState:
    """Returns the processes that `accelerate launch` started, of which this is one; without it, this process alone."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available())


def _trained_step(step: PlannedStep, rows: int, result: StepMetrics) -> TrainedStep:
    figures = result._asdict()
    figures["seconds"] = StepSeconds(sample=0.0, verify=0.0, update=result.seconds)
    return TrainedStep(step=step.number, epoch=step.epoch, rows=rows, **figures)


def _is_over(settings: TrainingSettings, kl: float | None) -> bool:
    return settings.kl_budget is not None and kl is not None and kl > settings.kl_budget


def _learner(settings: TrainingSettings, loaded: LoadedModel, teachers: Sequence[Teacher]) -> Learner:
    needs_reference = settings.kl or settings.kl_budget is not None
    reference = loaded.reference() if needs_reference else None
    allowed = loaded.grammars.allowed
    return Learner(loaded.model, settings.learner, reference=reference, teachers=teachers, allowed=allowed)


def _run_recipe(settings: TrainingSettings, loaded: LoadedModel, teachers: Mapping[str, float]) -> Mapping[str, Any]:
    """Returns all settings that decide the result of a run, as JSON values. teachers: weights by policy."""
    with (settings.rows / FILE).open("rb") as stream:
        rows_digest = hashlib.file_digest(stream, "sha256").hexdigest()
    recipe = settings.model_dump(mode="json", exclude=OMITTED_SETTINGS) | settings.learner.model_dump(mode="json")
    recipe |= {"name": settings.new_name, "model": loaded.card.policy, "rows": rows_digest}
    if settings.teachers:
        recipe["teachers"] = dict(teachers)
    return recipe
