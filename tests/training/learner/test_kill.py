"""A training run that is killed at any place goes on to the same weights, and uses no row twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sciagent.agent import install_and_find_models
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner import load_and_publish, run_state, training_run
from sciagent.training.learner.training_step import Learner
from sciagent.training.settings import TrainingSettings
from tests.training.learner.test_training_run import run, weights
from tests.training.learner.test_training_run import run_settings as run_settings

pytestmark = [pytest.mark.long, pytest.mark.parametrize("backend", ["sqlite"], indirect=True)]


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(n: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of which the n-th call ends the process before it does anything."""
    calls = iter(range(1, n + 1))

    def counted(*arguments: Any, **named: Any) -> Any:
        if next(calls) == n:
            die()
        return function(*arguments, **named)

    return counted


PLACES: dict[str, tuple[Any, str, int]] = {
    "in the update": (Learner, "gradient", 5),
    "between update and checkpoint": (run_state.RunFolder, "save", 2),
    "while a checkpoint is written": (run_state.os, "fsync", 3),
    "between update and publishing": (load_and_publish, "write_weights", 1),
    "between the weights and the ledger": (load_and_publish, "publish", 1),
}


def killed(run_settings: TrainingSettings, ledger: Ledger, place: tuple[Any, str, int]) -> None:
    """Runs in a child process until it is killed at the place."""
    owner, name, n = place
    child = os.fork()
    if child == 0:
        setattr(owner, name, at_call(n, getattr(owner, name)))
        training_run.train(run_settings, None, lambda step, of: None)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def test_a_killed_run_goes_on_to_the_same_weights(run_settings: TrainingSettings, ledger: Ledger) -> None:
    whole, told = run(run_settings)
    expected = weights(run_settings)
    install_and_find_models.remove(run_settings.name)
    for number, (where, place) in enumerate(PLACES.items()):
        again = run_settings.with_changes(out=run_settings.out.with_name(f"again{number}"))
        killed(again, ledger, place)
        answer, _ = run(again, ledger)
        assert answer.policy == whole.policy and weights(again) == expected, where
        lines = [json.loads(line) for line in (again.out / "metrics.jsonl").read_text().splitlines()]
        assert [(line["step"], line["loss"]) for line in lines] == [(step.step, step.loss) for step in told], where
        assert not list(Path(again.out).glob(".*.part")), where
        install_and_find_models.remove(run_settings.name)
