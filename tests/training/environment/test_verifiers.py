"""`vf-eval` of verifiers, in an environment of its own, evaluates a model on a ladder that is served here."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sciagent import Campaign
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.database.ledger import Ledger
from sciagent.training.environment.http_server import EnvironmentServer, application, guarded, hosts_of
from tests.support import environments
from tests.support.chat_server import ChatServer, calls
from tests.support.vllm import ROOT
from tests.training.environment.served import FAST, PAID, REWARDS, turns

pytestmark = [pytest.mark.long, pytest.mark.parametrize("backend", ["sqlite"], indirect=True)]
VERIFIERS = "verifiers==0.4.0"
TOKEN = "a-token-of-the-test"


def proposes_longer_alcohols(body: dict[str, Any], n: int) -> tuple[int, Any]:
    turn = sum(message["role"] == "assistant" for message in body["messages"])
    return 200, calls(("propose", {"smiles": "C" * (turn + 3) + "O"}), n=turn + 1)


@pytest.fixture
def model(server: ChatServer) -> ChatServer:
    server.respond = proposes_longer_alcohols
    return server


@pytest.fixture
def url(ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of an environment. The test's parameter: the text of its campaign."""
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    (tmp_path / "campaign.yaml").write_text(request.param, encoding="utf-8")
    server = EnvironmentServer("127.0.0.1", 0)
    with Campaign.from_yaml(tmp_path / "campaign.yaml", ledger).environment(REWARDS, turns=3) as environment:
        app = guarded(application(environment), TOKEN, hosts_of("127.0.0.1", TOKEN))
        thread = threading.Thread(target=server.serve, args=(app, environment), daemon=True)
        thread.start()
        yield server.url
    thread.join(timeout=20)


def evaluated(folder: Path, url: str, model: ChatServer, *options: str) -> list[dict[str, Any]]:
    """Runs vf-eval; returns its episodes."""
    python = environments.interpreter("verifiers", VERIFIERS)
    endpoint = ("-m", "scripted@2", "--client.base-url", model.url, "--client.api-key-var", "LOCAL_KEY")
    place = ("--env.taskset.url", url, "--no-push", "--no-rich", "--output-dir", str(folder / "outputs"))
    variables = {"PYTHONPATH": str(ROOT / "environments" / "sciagent_ladder"), "HOME": str(folder), "LOCAL_KEY": "x"}
    variables["SCIAGENT_ENVIRONMENT_TOKEN"] = TOKEN
    command = str(python.parent / "vf-eval")
    environments.run(python, command, "sciagent-ladder", *endpoint, *place, *options, folder=folder, **variables)
    [traces] = (folder / "outputs").rglob("traces.jsonl")
    return [json.loads(line) for line in traces.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("url", [FAST], indirect=True)
def test_vf_eval_rewards_a_model_as_the_ledger_does(
    url: str, model: ChatServer, ledger: Ledger, tmp_path: Path
) -> None:
    episodes = evaluated(tmp_path, url, model, "--env.taskset.tasks", "2", "-n", "2", "-r", "2")
    assert len(episodes) == 4 and all(episode["ok"] for episode in episodes)
    published = {each.episode: each for each in show(ledger, publish(ledger, "rolled", REWARDS).version).episodes}
    for episode in episodes:
        [trace] = episode["traces"]
        theirs = published[trace["info"]["episode"]]
        assert trace["rewards"]["ladder"]["score"] == pytest.approx(theirs.outcome) and theirs.outcome
        assert trace["metrics"] == {"proposed": 3.0, "turns": 3.0}
        mine = [turn["reward"] for turn in trace["info"]["rewards"]["turns"]]
        assert theirs.policy == "scripted@2" and mine == [turn.reward for turn in theirs.turns]
    assert sorted((each.group, each.sibling) for each in published.values()) == [(1, 0), (1, 1), (2, 0), (2, 1)]
    rows = turns(ledger)
    assert len(rows) == 12 and {row["cost"]["llm_tokens"] for row in rows} == {10.0}
    assert {body["tools"][0]["function"]["name"] for body in model.bodies} == {"propose"}


@pytest.mark.parametrize("url", [PAID.replace("core_seconds: 10000", "rungs: {xtb: 1}")], indirect=True)
def test_an_undecided_reward_is_an_error_and_not_0(url: str, model: ChatServer, tmp_path: Path) -> None:
    [episode] = evaluated(tmp_path, url, model, "-n", "1", "-r", "1")
    [trace] = episode["traces"]
    assert trace["rewards"] == {"ladder": None} and not trace["ok"]
    assert "is undecided: the ladder has not answered" in trace["errors"][0]["message"]
