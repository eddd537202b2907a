"""Rollouts in actors of Ray: which campaigns each gets, and what happens to a run when one is killed.

Those with Ray are slow: an environment with it is made once (400 MB), then two minutes.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import sqlalchemy as sa

from sciagent.errors import UsageError
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database import tables as t
from sciagent.store.database.learning_tables import training_use
from sciagent.store.database.ledger import Ledger
from sciagent.training.live.actors import RolloutActors, shares
from sciagent.training.live.wish import LiveWish, TaskShare
from tests.support import environments

RAY = "ray==2.60.0"
CAMPAIGN = """
campaign: {name}
subject: molecule
seed: 1
objectives: [{{property: logp, window: {window}}}]
ladder: [{{verifier: molecule.checks, settings: {{descriptors: [logp]}}}}]
goal: {{kind: hits}}
budget: {{proposals: 1000}}
proposer: {{kind: llm, model: tiny, seeds: molecules.csv, max_tokens: 80, tools: [modify]}}
"""
WINDOWS = {"one": "[1, 2]", "two": "[0, 1]", "three": "[-1, 0]"}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with three campaigns, their seeds and the description of the rewards."""
    for name, window in WINDOWS.items():
        (tmp_path / f"{name}.yaml").write_text(CAMPAIGN.format(name=name, window=window), encoding="utf-8")
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\nc1ccccc1\n", encoding="utf-8")
    (tmp_path / "rewards.yaml").write_text("prices: {llm_tokens: 0.0001}\nunsettled: settled\n", encoding="utf-8")
    return tmp_path


def wish_of(*files: Path, actors: int) -> LiveWish:
    tasks = tuple(TaskShare(file, place + 1.0) for place, file in enumerate(files))
    return LiveWish(tasks, "tiny", Path("run"), "new", Path("rewards.yaml"), actors=actors)


def test_each_actor_gets_campaigns_of_its_own(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    named = [Path(f"{name}.yaml") for name in WINDOWS]
    found = shares(wish_of(*named, actors=2))
    assert [[task.name for task in tasks] for _, tasks in found] == [["one", "three"], ["two"]]
    assert [[task.weight for task in tasks] for _, tasks in found] == [[1.0, 3.0], [2.0]]
    for own, tasks in found:
        assert [share.file for share in own.tasks] == [files / f"{task.name}.yaml" for task in tasks]
        assert own.out == files / "run" and own.rewards == files / "rewards.yaml", "another machine has another folder"
    assert len(shares(wish_of(*named, actors=9))) == 3, "no actor is without a campaign"
    with pytest.raises(UsageError, match=r"one\.yaml: the campaign one is named twice"):
        shares(wish_of(named[0], named[0], actors=2))


def test_what_is_missing_is_named(files: Path) -> None:
    with pytest.raises(UsageError, match="say how many with --actors"):
        LiveWish((TaskShare(files / "one.yaml"),), "tiny", files, "x", files, ray_address="10.0.0.1:6379").check()
    ledger = Ledger(str(files / "ledger.db"))
    with pytest.raises(UsageError, match=r"pip install 'sciagent\[ray\]'"):
        RolloutActors(wish_of(files / "one.yaml", actors=1), ledger, RewardSpec(prices={"llm_tokens": 1e-6}), 100, "r")
    ledger.close()


@pytest.fixture(scope="module")
def python() -> Path:
    return environments.interpreter("ray", RAY)


def call(ledger: str, out: str) -> list[str]:
    steps = ["--steps", "2", "-g", "2", "-s", "4", "-t", "6", "--learning-rate", "1e-2", "--threads", "1"]
    where = ["--rewards", "rewards.yaml", "--ledger", ledger, "--out", out, "--model", "tiny", "--actors", "2"]
    return ["-m", "sciagent", "train", "grpo", "one.yaml", "two.yaml", *where, *steps]


@pytest.fixture
def variables(tiny: str) -> dict[str, str]:
    """Environment variables of a run. tiny: its folder of models is in them."""
    assert tiny == "tiny"
    own = {"SCIAGENT_MODELS": os.environ["SCIAGENT_MODELS"], "OMP_NUM_THREADS": "1", "RAY_AUTH_MODE": "disabled"}
    return {**own, "RAY_DISABLE_DOCKER_CPU_WARNING": "1", "RAY_USAGE_STATS_ENABLED": "0"}


def rows(path: Path, query: sa.Select[Any]) -> list[Any]:
    ledger = Ledger(str(path))
    with ledger.read() as connection:
        found = list(connection.execute(query).all())
    ledger.close()
    return found


def actors_of(process: subprocess.Popen[str]) -> Iterator[psutil.Process]:
    """Yields the processes of rollout actors below a run."""
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            if "RolloutActor" in " ".join(child.cmdline()):
                yield child
        except psutil.Error:
            continue


WHERE = (t.campaign.c.name, t.trajectory.c.number, t.turn.c.number)
TURNS = sa.select(*WHERE, t.turn.c.output_ids).select_from(t.turn.join(t.trajectory).join(t.campaign))
TURNS = TURNS.where(t.turn.c.message.is_not(None)).order_by(*WHERE)
USES = sa.select(training_use.c.turn_id)
DRIVEN = sa.select(t.event.c.campaign_id).where(t.event.c.kind == "driver_started")


@pytest.mark.slow
def test_a_killed_actor_changes_nothing_of_the_result(files: Path, python: Path, variables: dict[str, str]) -> None:
    environments.run(python, *call("whole.db", "whole"), folder=files, **variables)
    whole = {path.name: path.read_bytes() for path in (files / "whole" / "policy").glob("*.safetensors")}
    expected = rows(files / "whole.db", TURNS)
    assert len(rows(files / "whole.db", DRIVEN)) == 2 and {row[0] for row in expected} == {"one", "two"}

    environment = {**os.environ, **variables, "PYTHONPATH": str(environments.ROOT)}
    with (files / "log").open("w") as log:
        run = subprocess.Popen(
            [str(python), *call("killed.db", "killed")], cwd=files, env=environment, stderr=log, stdout=log, text=True
        )
        begun = time.monotonic()
        while not (files / "killed.db").exists() or not 8 <= len(rows(files / "killed.db", TURNS)) < len(expected) - 16:
            assert run.poll() is None and time.monotonic() - begun < 240, (files / "log").read_text()
            time.sleep(0.05)
        victim = next(actors_of(run))
        victim.kill()
        assert run.wait(240) == 0, (files / "log").read_text()
    assert len(rows(files / "killed.db", DRIVEN)) > 2, "another process has taken over the campaigns of the victim"
    assert rows(files / "killed.db", TURNS) == expected, "no turn is missing, none is there twice, each is the same"
    assert whole == {path.name: path.read_bytes() for path in (files / "killed" / "policy").glob("*.safetensors")}
    uses = [row.turn_id for row in rows(files / "killed.db", USES)]
    assert uses and len(uses) == len(set(uses)) == len(rows(files / "whole.db", USES))
