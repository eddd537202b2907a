"""A training run: rows of a folder in, a new policy out. A run that was ended goes on where its checkpoint is.

The order of rows: which of them are trained in which step. It follows from the seed alone, so a run can go on.

The teachers of a training run: other models of the same vocabulary, or the model as it was at the start.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from sciagent.agent import models
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner import loading
from sciagent.training.learner.kinds import FILE, DatasetRows, Unit
from sciagent.training.learner.loading import LoadedModel, load
from sciagent.training.learner.state import RunFolder
from sciagent.training.learner.step import Learner, StepMetrics, Teacher
from sciagent.training.progress import StepSeconds, TrainedPolicy, TrainedStep
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
    """Yields the steps. Each has whole units with at least `rows` rows together, the last of an epoch the rest.

    In an epoch each unit is trained once, in an order of its own.
    """
    number = 0
    for epoch in range(1, epochs + 1):
        order = list(units)
        random.Random(f"{seed} {epoch}").shuffle(order)
        taken: list[Unit] = []
        for place, unit in enumerate(order, 1):
            taken.append(unit)
            if sum(len(each.numbers) for each in taken) >= rows or place == len(order):
                number += 1
                yield PlannedStep(number, epoch, tuple(taken))
                taken = []


def teachers_of(settings: TrainingSettings, loaded: LoadedModel) -> list[tuple[Teacher, LoadedModel]]:
    """Returns the teachers of a run, each with where it comes from.

    Raises UnknownNameError for an unknown model, UsageError for one with other tokens than the model that is trained.
    """
    if settings.training == "hindsight":
        return [(Teacher(loaded.reference()), loaded)]
    teachers = []
    for name, weight in settings.teachers.items():
        found = load(name)
        teachers.append((_teacher(name, weight, found, loaded), found))
    return teachers


def _teacher(name: str, weight: float, found: LoadedModel, student: LoadedModel) -> Teacher:
    own, other = (each.tokenizer.get_vocab() for each in (student, found))
    if own != other:
        differ = sum(own.get(token) != other.get(token) for token in own.keys() | other.keys())
        raise UsageError(
            f"{name} cannot teach {student.card.name}: {differ} tokens of their vocabularies differ. "
            "A teacher and its student need the same tokenizer"
        )
    sizes = [int(each.model.config.get_text_config().vocab_size) for each in (student, found)]
    if sizes[0] != sizes[1]:
        raise UsageError(f"{name} cannot teach {student.card.name}: it has {sizes[1]} logits, not {sizes[0]}")
    return Teacher(found.model.requires_grad_(False).eval(), weight)


ELSEWHERE = {"rows", "out", "name", "threads", "save_every", "teachers", "constants"}
"""Settings that do not decide what comes out, or that a run's folder holds in another form."""

Tell = Callable[[TrainedStep, int], None]
"""Is told each step, and how many there are at most."""


def train(settings: TrainingSettings, ledger: Ledger | None, tell: Tell) -> TrainedPolicy:
    """Trains a model, or goes on with a run that was ended. ledger: gets the new policy; None for none.

    Of several processes (`accelerate launch`) each trains its share of the rows. The main one writes the folder, adds
    the policy to models and ledger, and is told the steps.

    Raises UsageError for a folder of another run, for rows that do not fit, or if no row has anything to learn.
    """
    import torch

    if settings.threads:
        torch.set_num_threads(settings.threads)
    loading.check_name(settings.new_name, settings.out)
    run = _Run(settings)
    try:
        over = run.take_steps(tell)
    except KeyboardInterrupt:
        return run.answer(None, len(run.folder.metrics()), "interrupt")
    policy = run.finish(ledger)
    return run.answer(policy, run.done, "kl_budget" if over else run.stopped_by)


class _Run:
    """A training run: its model, its rows, its folder, and the last step that was taken."""

    def __init__(self, settings: TrainingSettings) -> None:
        self._settings = settings
        self._loaded = load(settings.model, settings.lora, settings.seed)
        teachers = teachers_of(settings, self._loaded)
        context = min(each.context for each in [self._loaded, *(found for _, found in teachers)])
        self._data = DatasetRows(settings.rows, settings.training, self._loaded.conversations, context)
        steps = list(planned(self._data.units, settings.rows_per_step, settings.epochs, settings.seed))
        self.stopped_by = "rows" if settings.steps is None or settings.steps >= len(steps) else "steps"
        self._steps = steps[: settings.steps]
        if not steps:
            why = "; ".join(f"{reason}: {n}" for reason, n in sorted(self._data.left_out.items()))
            raise UsageError(f"{settings.rows} has nothing to learn from{f' ({why})' if why else ''}")
        self._asked = _asked(settings, self._loaded, {found.card.policy: teacher.weight for teacher, found in teachers})
        with processes().main_process_first():
            self.folder = RunFolder(settings.out, self._asked)
        self._learner = _learner(settings, self._loaded, [teacher for teacher, _ in teachers])
        self.done = self.folder.restore(self._learner)
        self._begun = self.done
        self._is_written = loading.is_written(settings.out, self.done)

    @property
    def _is_main(self) -> bool:
        return bool(self._learner.accelerator.is_main_process)

    def take_steps(self, tell: Tell) -> bool:
        """Takes the steps that are left; returns whether the divergence of the last one is over the budget."""
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
        """Writes and publishes the policy, if that is not done yet; returns its name and hash."""
        if self.done > self._begun or not self._is_written:
            self.folder.save(self._learner, self.done)
            weights = self._learner.sharded_weights()
            if self._is_main:
                if weights is None:
                    loading.write_weights(self._loaded, self._learner.policy, self._settings.out, self.done)
                else:
                    whole = load(self._settings.model, self._settings.lora, self._settings.seed)
                    whole.model.load_state_dict(weights, strict=False)
                    loading.write_weights(whole, whole.model, self._settings.out, self.done)
        if self._is_main:
            loading.publish(self._loaded, self._settings.out, self._settings.new_name, self._asked, ledger)
        self._learner.accelerator.wait_for_everyone()
        return models.find(self._settings.new_name).policy

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
    """Returns the processes that `accelerate launch` started, of which this is one; else this one alone."""
    import torch
    from accelerate import PartialState

    return PartialState(cpu=not torch.cuda.is_available())


def _trained_step(step: PlannedStep, rows: int, result: StepMetrics) -> TrainedStep:
    seconds = StepSeconds(sample=0.0, verify=0.0, update=result.seconds)
    numbers = result._replace(seconds=0.0)._asdict() | {"seconds": seconds}
    return TrainedStep(step=step.number, epoch=step.epoch, rows=rows, **numbers)


def _is_over(settings: TrainingSettings, kl: float | None) -> bool:
    return settings.kl_budget is not None and kl is not None and kl > settings.kl_budget


def _learner(settings: TrainingSettings, loaded: LoadedModel, teachers: Sequence[Teacher]) -> Learner:
    needs_reference = settings.kl or settings.kl_budget is not None
    reference = loaded.reference() if needs_reference else None
    allowed = loaded.grammars.allowed
    return Learner(loaded.model, settings.learner, reference=reference, teachers=teachers, allowed=allowed)


def _asked(settings: TrainingSettings, loaded: LoadedModel, teachers: Mapping[str, float]) -> Mapping[str, Any]:
    """Returns all that decides what comes out of a run, as JSON values. teachers: weights by policy."""
    with (settings.rows / FILE).open("rb") as stream:
        data = hashlib.file_digest(stream, "sha256").hexdigest()
    asked = settings.model_dump(mode="json", exclude=ELSEWHERE) | settings.learner.model_dump(mode="json")
    asked |= {"name": settings.new_name, "model": loaded.card.policy, "rows": data}
    return asked | {"teachers": dict(teachers)} if settings.teachers else asked
