"""The benchmark of waiting, on a random model: how a step's time is divided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.learning import waiting
from sciagent.agent.install_and_find_models import add_folder
from tests.support.tiny_model import write_tiny_model

CAMPAIGN = """
campaign: gaps
subject: molecule
objectives: [{property: logp, window: [1, 2]}]
ladder: [{verifier: molecule.checks, settings: {descriptors: [logp]}}]
goal: {kind: hits}
budget: {proposals: 100000}
proposer: {kind: llm, model: tiny, seeds: molecules.csv, max_tokens: 40, tools: [modify]}
workers: 1
"""


def test_a_way_has_the_shares_of_its_later_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr(waiting, "WAYS", {"parts": waiting.WAYS["parts"]})
    model = add_folder(write_tiny_model(tmp_path / "tiny", context=2048), "tiny", lambda text: None).name
    (tmp_path / "molecules.csv").write_text("smiles\nCO\nc1ccccc1\n", encoding="utf-8")
    (tmp_path / "rewards.yaml").write_text("prices: {llm_tokens: 0.0001}\nunsettled: settled\n", encoding="utf-8")
    (tmp_path / "gaps.yaml").write_text(CAMPAIGN, encoding="utf-8")
    out = tmp_path / "waiting.json"
    more = {"steps": 2, "groups": 1, "siblings": 2, "turns": 1, "begins": "seeds"}
    waiting.measure([tmp_path / "gaps.yaml"], tmp_path / "rewards.yaml", model, 1, out, **more)
    found = json.loads(out.read_text(encoding="utf-8"))
    [shares] = found["parts"]
    assert 0 < shares["seconds"] < 60
    assert 0 < shares["sample"] + shares["update"] + shares["wait"] <= 1.01
