"""Rollouts in actors of Ray: which campaigns each gets, and what happens to a run when one is killed.

Those with Ray are slow: an environment with it is made once (400 MB), then two minutes.
"""

from __future__ import annotations

import json
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
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database import tables as t
from sciagent.store.database.lab_learning_and_people_tables import training_use
from sciagent.store.database.ledger import Ledger
from sciagent.training.live.ray_rollout_actors import RolloutActors, shares_of_actors
from sciagent.training.settings import LiveSettings, TaskShare
from tests.support import environments
from tests.support.adapter_server import AdapterServer

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


def settings_for(*files: Path, actors: int) -> LiveSettings:
    tasks = tuple(TaskShare(file=file, weight=place + 1.0) for place, file in enumerate(files))
    return LiveSettings(
        tasks=tasks, model="tiny", out=Path("run"), name="new", rewards=Path("rewards.yaml"), ray={"actors": actors}
    )


def test_each_actor_gets_campaigns_of_its_own(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    named = [Path(f"{name}.yaml") for name in WINDOWS]
    found = shares_of_actors(settings_for(*named, actors=2))
    assert [[task.name for task in tasks] for _, tasks in found] == [["one", "three"], ["two"]]
    assert [[task.weight for task in tasks] for _, tasks in found] == [[1.0, 3.0], [2.0]]
    for own, tasks in found:
        assert [share.file for share in own.tasks] == [files / f"{task.name}.yaml" for task in tasks]
        assert own.out == files / "run" and own.rewards == files / "rewards.yaml", "another machine has another folder"
    assert len(shares_of_actors(settings_for(*named, actors=9))) == 3, "no actor is without a campaign"
    with pytest.raises(UsageError, match=r"one\.yaml: the campaign one is named twice"):
        shares_of_actors(settings_for(named[0], named[0], actors=2))


def test_a_missing_extra_is_named(files: Path) -> None:
    ledger = Ledger(str(files / "ledger.db"))
    with pytest.raises(UsageError, match=r"pip install 'sciagent\[ray\]'"):
        RolloutActors(
            settings_for(files / "one.yaml", actors=1), ledger, RewardSpec(prices={"llm_tokens": 1e-6}), 100, "r"
        )
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
def test_actors_sample_from_the_adapters_of_a_server(
    files: Path, python: Path, variables: dict[str, str], tiny: str
) -> None:
    server = AdapterServer(tiny)
    endpoint = ("--endpoint", server.url, "--lora", "4")
    environments.run(python, *call("served.db", "served"), *endpoint, folder=files, **variables)
    lines = [json.loads(line) for line in (files / "served" / "metrics.jsonl").read_text().splitlines()]
    asked = [line["policy"] for line in lines]
    assert {body["model"] for body in server.asked} == set(asked) and len(set(asked)) == 2
    assert [line["masked"] for line in lines] == [0.0, 0.0] and not server.adapters
    by = sa.select(t.policy.c.name).join(t.turn, t.turn.c.policy_id == t.policy.c.id).distinct()
    assert {row.name for row in rows(files / "served.db", by)} - {tiny} >= set(asked)
    server.close()


ANSWERS = """
from dataclasses import replace
from pathlib import Path

from sciagent.agent.messages_sampling_and_policy_client import EpisodeQuestion, Message, Sampling
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.learner.load_and_publish import load
from sciagent.training.learner.training_step import Learner
from sciagent.training.live.ray_rollout_actors import RolloutActors, SentEngine
from sciagent.training.live.sampling_engines import InProcessEngine
from sciagent.training.live.sampling_engines import identity_of
from sciagent.training.settings import LiveSettings, RaySettings, TaskShare

if __name__ == "__main__":
    files = tuple(TaskShare(file=Path(name)) for name in ("one.yaml", "two.yaml"))
    run_settings = LiveSettings(
        tasks=files,
        model="tiny",
        out=Path("run"),
        name="new",
        rewards=Path("rewards.yaml"),
        ray=RaySettings(actors=2),
        lora=4,
        threads=1,
    )
    loaded = load("tiny", 4, 0)
    learner = Learner(loaded.model, run_settings.learner)
    for weights in loaded.model.parameters():
        weights.data += 0.05 * weights.requires_grad
    version = identity_of(loaded, loaded.model, "new")
    said = [EpisodeQuestion([Message("user", f"number {n}")], [], Sampling(1.0, 12, n)) for n in range(5)]
    spec = RewardSpec(prices={"llm_tokens": 1e-6})
    actors = RolloutActors(run_settings, Ledger("ledger.db"), spec, 4096, "run")
    there = SentEngine(None, actors).policy(learner, loaded, version)
    here = InProcessEngine().policy(learner, loaded, version)
    found = [[answer.tokens.output_ids for answer in policy.answers(said)] for policy in (here, there)]
    assert found[0] == found[1] and there.identity(there.name) == version, found
    actors.finish()
    actors.close()
    print("equal")
"""


@pytest.mark.slow
def test_actors_answer_as_the_model_that_is_trained(files: Path, python: Path, variables: dict[str, str]) -> None:
    (files / "answers.py").write_text(ANSWERS, encoding="utf-8")
    assert environments.run(python, "answers.py", folder=files, **variables).strip().endswith("equal")


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
