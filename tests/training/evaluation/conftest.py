"""A small evaluation: two tasks whose terminal rung takes no time, so that campaigns cost little but what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

TASK = """
campaign: {name}
subject: molecule
objectives: [{{property: logp, window: [{low}, {high}]}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{max_heavy_atoms: 14, descriptors: [logp]}}}}
goal: {{kind: hits, count: 1}}
budget: {{proposals: 3}}
proposer: {{kind: llm, model: tiny, structured: false, seeds: seeds.csv, tools: [modify], turns: 4, max_tokens: 8}}
scheduler: {{kind: exhaustive}}
safety: {{screen: false, reason: molecules of a test}}
"""
RECIPE = """
evaluate:
  tasks: [low.yaml, high.yaml]
  seeds: [1, 2]
  verifications: 5
  arms:
    random: {policy: scripted}
    evolve: {proposer: {kind: evolve}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    """A file with an evaluation of two arms on two tasks with two seeds."""
    (tmp_path / "seeds.csv").write_text("smiles\nCCO\nc1ccccc1O\nCC(=O)OC\nCCN\n", encoding="utf-8")
    (tmp_path / "low.yaml").write_text(TASK.format(name="low", low=-1, high=1), encoding="utf-8")
    (tmp_path / "high.yaml").write_text(TASK.format(name="high", low=1.5, high=3), encoding="utf-8")
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE, encoding="utf-8")
    return path
