"""OpenEnv's own client, in an environment of its own, plays episodes of a ladder that is served there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from sciagent.rewards.publish_versions import publish
from sciagent.rewards.show_and_compare_versions import show
from sciagent.store.database.ledger import Ledger
from tests.support import environments
from tests.support.vllm import ROOT
from tests.training.environment.served import FAST, REWARDS

pytestmark = [pytest.mark.long, pytest.mark.parametrize("backend", ["sqlite"], indirect=True)]
OPENENV = "openenv==0.10.0"
PLAY = """
import json, sys
from openenv import GenericEnvClient

def propose(smiles):
    return {"tool": "propose", "arguments": {"smiles": smiles}}

with GenericEnvClient(base_url=sys.argv[1]).sync() as first, GenericEnvClient(base_url=sys.argv[1]).sync() as second:
    opened = [env.reset(group="pair", siblings=2, policy="mine@3") for env in (first, second)]
    steps = [first.step(propose("CCCO")), second.step(propose("CCCO"))]
    call = {"type": "function", "function": {"name": "propose", "arguments": '{"smiles": "CCCCO"}'}}
    steps.append(first.step({"message": {"role": "assistant", "content": "on", "tool_calls": [call]}}))
    states = [first.state(), second.state()]
    faults = []
    for action in ({}, propose("C"), {"tol": "propose"}):
        try:
            first.step(action)
        except Exception as error:
            faults.append(str(error))
print(json.dumps({
    "tools": [tool["function"]["name"] for tool in opened[0].observation["tools"]],
    "roles": [message["role"] for message in opened[1].observation["messages"]],
    "said": [step.observation["messages"][0]["content"] for step in steps],
    "rewards": [step.reward for step in steps],
    "done": [step.done for step in steps],
    "states": states,
    "faults": faults,
}))
"""


def test_openenvs_client_plays_episodes(ledger: Ledger, tmp_path: Path) -> None:
    python = environments.interpreter("openenv", OPENENV)
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    (tmp_path / "campaign.yaml").write_text(FAST, encoding="utf-8")
    rules = "prices: {core_seconds: 1.0e-4, llm_tokens: 1.0e-6}\nunsettled: settled\n"
    (tmp_path / "rewards.yaml").write_text(rules, encoding="utf-8")
    command = [str(python), "-m", "sciagent", "environment", "serve", "campaign.yaml", "--rewards", "rewards.yaml"]
    command += ["--protocol", "openenv", "--port", "0", "--turns", "2", "--ledger", str(ledger.url.database)]
    folders = {"PYTHONPATH": str(ROOT), "SCIAGENT_ARTIFACTS": str(tmp_path / "artifacts")}
    with subprocess.Popen(
        command, cwd=tmp_path, env=os.environ | folders, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("serving rolled at http://"), server.communicate()[1]
            played = json.loads(environments.run(python, "-c", PLAY, line.split()[-1], folder=tmp_path))
            server.send_signal(signal.SIGINT)
            said = server.communicate(timeout=60)[1]
        finally:
            server.kill()
    assert server.returncode == 0, said
    assert played["tools"][0] == "propose" and played["roles"] == ["system", "user"]
    assert played["said"][0] == played["said"][1] == "new #3: CCCO [e0daf595], settled", (
        "siblings do not see each other"
    )
    assert played["done"] == [False, False, True]
    first, second = show(ledger, publish(ledger, "rolled", REWARDS).version).episodes
    assert (first.group, first.sibling, first.policy, second.sibling) == (1, 0, "mine@3", 1)
    assert played["rewards"] == [first.turns[0].reward, second.turns[0].reward, first.turns[1].reward]
    assert [state["outcome"] for state in played["states"]] == [first.outcome, second.outcome]
    assert played["states"][0]["step_count"] == 2 and played["states"][0]["campaign"] == "rolled"
    assert [fault.partition(": ")[2].partition(" (code")[0] for fault in played["faults"][:2]] == [
        "an action needs `tool` with `arguments`, or `message`",
        "episode 1 has ended: 2 turns",
    ]
    assert len(played["faults"]) == 3 and "Invalid message" in played["faults"][2]
