"""Groups that are rolled out in parts: what is sampled and written does not depend on how long verification takes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent import Campaign
from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, PolicyError, Sampled
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.training.live import driven_task_campaigns
from sciagent.training.live.group_waves import LocalWaves, Stopped, TaskGroups, Wave, divided
from sciagent.training.rollouts.lock_step import CarriedOut, RolloutRunner
from sciagent.training.settings import LiveSettings, TaskShare
from tests.training.live.test_group_waves import CAMPAIGN, SPEC, Stated, _said

SMILES = ("CCN", "c1ccccc1C", "CCCO", "CC=O", "c1ccncc1")
SECONDS = 0.15  # of a slow verification and of a slow answer


class BySeed(Stated):
    """Answers by the seed of the question alone, as a model does."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__(0)
        self._seconds = seconds

    def answers(self, questions: Sequence[EpisodeQuestion]) -> list[Sampled | PolicyError]:
        self.asked += len(questions)
        time.sleep(self._seconds)
        return [_said(SMILES[each.sampling.seed % len(SMILES)]) for each in questions]


@contextmanager
def waves_of(folder: Path, parts: int, stopping: Any = None) -> Iterator[tuple[LocalWaves, Ledger]]:
    folder.mkdir()
    (folder / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    shares = []
    for name in ("one", "two"):
        shares.append(TaskShare(file=folder / f"{name}.yaml"))
        shares[-1].file.write_text(CAMPAIGN.format(name=name, budget=1000), encoding="utf-8")
    ledger: Ledger = Campaign.from_yaml(shares[0].file, folder / "ledger.db").ledger.store
    given: dict[str, Any] = {"groups": 4, "siblings": 2, "turns": 3, "begins": "seeds", "parts": parts}
    run_settings = LiveSettings(
        tasks=tuple(shares), model="tiny", out=folder / "run", name="x", rewards=folder / "rewards.yaml", **given
    )
    with driven_task_campaigns.driven(run_settings, ledger) as tasks:
        yield LocalWaves(run_settings, ledger, tasks, SPEC, 1000, "r", stopping), ledger


def rolled_out(folder: Path, parts: int, seconds: float = 0.0) -> tuple[list[Any], Wave]:
    """Returns all turns in the order in which they were written, and the wave."""
    with waves_of(folder, parts) as (waves, ledger):
        wave = waves.wave(1, BySeed(seconds), {"one": (0, 2), "two": (1, 3)})
        return turns(ledger), wave


def turns(ledger: Ledger) -> list[Any]:
    query = sa.select(t.campaign.c.name, t.trajectory.c.seed, t.turn.c.number, t.turn.c.message)
    query = query.select_from(t.turn.join(t.trajectory).join(t.campaign)).order_by(t.turn.c.id)
    with ledger.read() as connection:
        return list(connection.execute(query.where(t.trajectory.c.group_id.is_not(None))))


def slow(seconds: Callable[[], float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets every verification take some time."""
    carry_out = RolloutRunner.carry_out

    def slowly(self: RolloutRunner, *given: Any) -> CarriedOut:
        time.sleep(seconds())
        return carry_out(self, *given)

    monkeypatch.setattr(RolloutRunner, "carry_out", slowly)


def test_groups_are_divided_in_order() -> None:
    running: Any = [TaskGroups(SimpleNamespace(name=n), object(), list(n)) for n in ("abc", "d", "efghi")]  # type: ignore[arg-type]
    for n in (1, 2, 4, 99):
        parts = divided(running, n)
        assert [group for part in parts for each in part for group in each.groups] == list("abcdefghi")
        sizes = [sum(len(each.groups) for each in part) for part in parts]
        assert len(parts) == min(n, 9) and max(sizes) - min(sizes) <= 1
    assert divided([], 4) == [[]]


def test_turns_and_their_order_do_not_depend_on_how_long_verification_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, plain = rolled_out(tmp_path / "fast", 2)
    assert len(expected) == 4 * 2 * 3
    draw = random.Random(1)
    slow(lambda: draw.uniform(0, 0.03), monkeypatch)
    found, wave = rolled_out(tmp_path / "slow", 2, 0.01)
    assert found == expected
    rows = [[(row.ids, row.advantages) for row in group.rows] for group in wave.groups]
    assert rows == [[(row.ids, row.advantages) for row in group.rows] for group in plain.groups]
    whole, _ = rolled_out(tmp_path / "whole", 1)
    assert sorted(map(repr, whole)) == sorted(map(repr, expected)), "other parts: the same turns in another order"


def test_sampling_goes_on_while_others_are_verified(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow(lambda: SECONDS / 2, monkeypatch)  # of each of two campaigns
    _, plain = rolled_out(tmp_path / "plain", 1, SECONDS)
    _, parts = rolled_out(tmp_path / "parts", 2, SECONDS)
    assert plain.wait_seconds >= 3 * SECONDS, "sampling waits for each verification"
    assert parts.wait_seconds < 0.7 * plain.wait_seconds, "of 6 verifications the last one alone has nothing beside it"


def test_what_is_being_verified_at_a_stop_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Once:
        calls = 0

        def is_set(self) -> bool:
            self.calls += 1
            return self.calls > 5

    slow(lambda: 0.02, monkeypatch)
    policy = BySeed()
    with waves_of(tmp_path / "stopped", 4, Once()) as (waves, ledger):
        with pytest.raises(Stopped):
            waves.wave(1, policy, {"one": (0, 2), "two": (1, 3)})
        assert len(turns(ledger)) == policy.asked == 10
        assert {row.number for row in turns(ledger)} == {0, 1}
