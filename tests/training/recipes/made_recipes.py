"""A task on which recipes are tried: molecules with a logP in a window."""

from __future__ import annotations

from pathlib import Path

TASK = """
campaign: {name}
subject: molecule
seed: 1
objectives:
  - {{property: logp, window: {window}}}
ladder:
  - verifier: molecule.checks
    settings: {{descriptors: [logp]}}
goal: {{kind: hits}}
budget: {{proposals: 100000}}
proposer: {{kind: llm, model: none, seeds: molecules.csv, max_tokens: 60, tools: [modify]}}
workers: 1
"""
MOLECULES = "smiles\nCCO\nc1ccccc1O\nCCN\nCCC=O\nc1ccccc1\nCC(C)O\n"


def write_practice(folder: Path) -> None:
    """Writes `practice.yaml`, `held.yaml` and their seeds."""
    (folder / "practice.yaml").write_text(TASK.format(name="practice", window="[1, 2]"))
    (folder / "held.yaml").write_text(TASK.format(name="held", window="[2, 3]"))
    (folder / "molecules.csv").write_text(MOLECULES)
