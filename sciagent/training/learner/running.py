"""A training run: rows of a folder in, a new policy out. A run that was ended goes on where its checkpoint is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from sciagent.domain.answers.training import StepSeconds, TrainedPolicy, TrainedStep
from sciagent.errors import UsageError
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner import publishing
from sciagent.training.learner.dataset_rows import FILE, DatasetRows
from sciagent.training.learner.loading import LoadedModel, load
from sciagent.training.learner.order import PlannedStep, planned
from sciagent.training.learner.settings import TrainingWish
from sciagent.training.learner.state import RunFolder
from sciagent.training.learner.step import Learner

Tell = Callable[[TrainedStep, int], None]
"""Is told each step, and how many there are at most."""


def train(wish: TrainingWish, ledger: Ledger | None, tell: Tell) -> TrainedPolicy:
    """Trains a model, or goes on with a run that was ended. ledger: gets the new policy; None for none.

    Raises UsageError for a folder of another run, for rows that do not fit, or if no row has anything to learn.
    """
    import torch

    if wish.threads:
        torch.set_num_threads(wish.threads)
    publishing.check_name(wish.name, wish.out)
    loaded = load(wish.model, wish.rank, wish.seed)
    data = DatasetRows(wish.rows, wish.training, loaded.conversations, loaded.context)
    steps = list(planned(data.units, wish.rows_per_step, wish.epochs, wish.seed))
    stopped_by = "rows" if wish.steps is None or wish.steps >= len(steps) else "steps"
    steps = steps[: wish.steps]
    if not steps:
        why = "; ".join(f"{reason}: {n}" for reason, n in sorted(data.left_out.items()))
        raise UsageError(f"{wish.rows} has nothing to learn from{f' ({why})' if why else ''}")
    asked = _asked(wish, loaded)
    folder = RunFolder(wish.out, asked)
    learner = _learner(wish, loaded)
    done = folder.restore(learner)
    try:
        last, over = _steps(wish, folder, learner, data, steps, done, tell)
    except KeyboardInterrupt:
        return _answer(wish, loaded, data, None, len(folder.metrics()), "interrupt")
    if last > done or not (wish.out / publishing.POLICY).is_dir():
        folder.save(learner, last)
        if learner.accelerator.is_main_process:
            publishing.write_weights(loaded, learner.policy, wish.out)
    policy = publishing.publish(loaded, wish.out, wish.name, asked, ledger)
    return _answer(wish, loaded, data, policy.policy, last, "kl_budget" if over else stopped_by)


def _steps(
    wish: TrainingWish,
    folder: RunFolder,
    learner: Learner,
    data: DatasetRows,
    steps: list[PlannedStep],
    done: int,
    tell: Tell,
) -> tuple[int, bool]:
    """Takes the steps after `done`; returns the last one, and whether its KL divergence is over the budget."""
    if done and _is_over(wish, folder.metrics()[-1]["kl"]):
        return done, True
    for planned_step in steps[done:]:
        rows = data.rows(planned_step.units)
        result = learner.step(rows)
        seconds = StepSeconds(sample=0.0, verify=0.0, update=result.seconds)
        told = TrainedStep(
            step=planned_step.number,
            epoch=planned_step.epoch,
            rows=len(rows),
            **result._replace(seconds=0.0)._asdict() | {"seconds": seconds},
        )
        if learner.accelerator.is_main_process:
            folder.add_metrics(told.model_dump())
            tell(told, len(steps))
        if over := _is_over(wish, result.kl):
            return planned_step.number, over
        if planned_step.number % wish.save_every == 0:
            folder.save(learner, planned_step.number)
    return len(steps), False


def _is_over(wish: TrainingWish, kl: float | None) -> bool:
    return wish.kl_budget is not None and kl is not None and kl > wish.kl_budget


def _learner(wish: TrainingWish, loaded: LoadedModel) -> Learner:
    needed = wish.settings.loss.kl or wish.kl_budget is not None
    reference = loaded.reference() if needed else None
    return Learner(loaded.model, wish.settings, reference=reference, allowed=loaded.grammars.allowed)


def _asked(wish: TrainingWish, loaded: LoadedModel) -> Mapping[str, Any]:
    """Returns all that decides what comes out of a run, as JSON values."""
    with (wish.rows / FILE).open("rb") as stream:
        data = hashlib.file_digest(stream, "sha256").hexdigest()
    told = {name: value for name, value in asdict(wish).items() if name not in ("rows", "out", "threads", "save_every")}
    told["settings"] = {name: value for name, value in told["settings"].items() if value is not None}
    return told | {"model": loaded.card.policy, "rows": data}


def _answer(
    wish: TrainingWish, loaded: LoadedModel, data: DatasetRows, policy: str | None, steps: int, stopped_by: str
) -> TrainedPolicy:
    return TrainedPolicy(
        policy=policy,
        parent=loaded.card.policy,
        steps=steps,
        stopped_by=stopped_by,
        folder=str(wish.out),
        left_out={why: n for why, n in sorted(data.left_out.items()) if n},
    )
