"""A run on the live ladder that is killed at any place goes on to the same weights, and uses no turn twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent import Campaign
from sciagent.agent import install_and_find_models
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import evaluations_and_turn_uses
from sciagent.training.learner import load_and_publish, run_state
from sciagent.training.learner.training_step import Learner
from sciagent.training.live import group_waves
from sciagent.training.live.live_run import train_live
from sciagent.training.live.sampling_engines import LearnersPolicy
from sciagent.training.rollouts.lock_step import RolloutRunner
from sciagent.training.settings import LiveSettings
from tests.training.live.test_live_run import run, settings_for, used, written
from tests.training.live.test_live_run import tiny as tiny

TEXT = """
campaign: {name}
subject: molecule
seed: 1
objectives:
  - {{property: logp, window: [1, 2]}}
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{descriptors: [logp]}}}}
goal: {{kind: hits}}
budget: {{proposals: 100000}}
proposer: {{kind: llm, model: {model}, seeds: molecules.csv, max_tokens: 100, tools: [modify]}}
workers: 1
"""

PLACES: dict[str, tuple[Any, str, int]] = {
    "while sampling": (LearnersPolicy, "answers", 4),
    "before a turn of the second campaign is written": (RolloutRunner, "write", 4),
    "between rollouts and rewards": (group_waves, "publish_groups", 3),
    "in the update": (Learner, "gradient", 2),
    "between update and checkpoint": (run_state.RunFolder, "save", 2),
    "while a checkpoint is written": (run_state.os, "fsync", 6),
    "between the checkpoint and the uses": (evaluations_and_turn_uses, "write", 3),
    "between update and publishing": (load_and_publish, "write_weights", 1),
}


def at_call(n: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, of which the n-th call ends the process before it does anything."""
    calls = iter(range(1, n + 1))

    def counted(*arguments: Any, **named: Any) -> Any:
        if next(calls) == n:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments, **named)

    return counted


def killed(run_settings: LiveSettings, ledger: Path, place: tuple[Any, str, int]) -> None:
    """Runs in a child process until it is killed at the place."""
    owner, name, n = place
    child = os.fork()
    if child == 0:
        try:
            setattr(owner, name, at_call(n, getattr(owner, name)))
            train_live(run_settings, Ledger(str(ledger)), lambda step, of: None)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, f"it came past {name}"


def told_of(ledger: Ledger, run_settings: LiveSettings) -> Any:
    """All that the run has left, without times: weights, metrics, turns of rollouts and their uses."""
    weights = (run_settings.out / "policy" / "model.safetensors").read_bytes()
    lines = [json.loads(line) for line in (run_settings.out / "metrics.jsonl").read_text().splitlines()]
    metrics = [{name: value for name, value in line.items() if name != "seconds"} for line in lines]
    u, j, c = t.turn.c, t.trajectory.c, t.campaign.c
    query = sa.select(c.name, j.seed, u.number, u.output_ids, u.behaviour, t.policy.c.hash)
    query = query.select_from(t.turn.join(t.trajectory).join(t.campaign).join(t.policy, t.policy.c.id == u.policy_id))
    with ledger.read() as connection:
        turns = sorted(map(repr, connection.execute(query.where(j.group_id.is_not(None)))))
    assert len({use["turn_id"] for use in used(ledger)}) == len(used(ledger)), "no turn is used twice"
    return weights, metrics, turns, len(used(ledger))


BESIDE = ("while sampling", "in the update", "between update and checkpoint", "between the checkpoint and the uses")


@pytest.mark.parametrize(
    ("ahead", "places"),
    [
        pytest.param(0, BESIDE, marks=pytest.mark.long),
        pytest.param(0, tuple(PLACES), marks=pytest.mark.slow),
        pytest.param(1, BESIDE, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, tiny: str, ahead: int, places: Sequence[str]) -> None:
    def started(name: str) -> tuple[LiveSettings, Ledger]:
        folder = tmp_path / name
        folder.mkdir()
        files = [written(folder, each, text=TEXT) for each in ("one", "two")]
        ledger = Campaign.from_yaml(files[0], folder / "ledger.db").ledger.store
        run_settings = settings_for(folder, *files, siblings=2, steps=2 + ahead, ahead=ahead, parts=2)
        return run_settings.with_changes(name="killed"), ledger

    run_settings, ledger = started("whole")
    run(run_settings, ledger)
    install_and_find_models.remove("killed")
    expected = told_of(ledger, run_settings)
    assert expected[3] > 0 and expected[1][0]["loss"] != expected[1][1]["loss"]
    by = [line["policy"] for line in expected[1]]
    assert len(set(by)) == 2 and by[0] == by[ahead], "a step ahead is sampled by the version before the last update"
    run_settings, ledger = started("longer")
    for steps in (1, run_settings.steps):
        run(run_settings.with_changes(steps=steps), ledger)
    assert told_of(ledger, run_settings) == expected, "a finished run goes on to more steps"
    install_and_find_models.remove("killed")
    for number, where in enumerate(places):
        run_settings, ledger = started(f"at{number}")
        killed(run_settings, tmp_path / f"at{number}" / "ledger.db", PLACES[where])
        run(run_settings, ledger)
        install_and_find_models.remove("killed")
        assert told_of(ledger, run_settings) == expected, where
        assert not list(run_settings.out.glob(".*.part")), where
