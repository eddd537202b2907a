"""Data sets of episodes that the tiny model sampled: a group of siblings, rolled out, rewarded and built into rows."""

from __future__ import annotations

from pathlib import Path

from sciagent import Campaign
from sciagent.campaign.rewarding.publishing import publish
from sciagent.rewards.spec import RewardSpec
from sciagent.training.building import build
from sciagent.training.wish import DatasetWish

TEXT = """
campaign: sampled
subject: molecule
seed: 1
objectives: [{{property: logp, window: [1, 2]}}]
ladder:
  - {{rung: checks, verifier: molecule.checks, settings: {{descriptors: [logp]}}}}
goal: {{kind: graded}}
budget: {{proposals: 100, llm_tokens: 1000000}}
proposer:
  {{kind: llm, model: {model}, seeds: molecules.csv, max_tokens: 24, context: 8000, tools: [best],
    temperature: 0.7{more}}}
scheduler: {{kind: exhaustive}}
safety: {{screen: false, reason: molecules of a test}}
"""


def rolled_out(folder: Path, model: str, more: str = ", structured: false") -> Path:
    """Returns a data set of `rows`. model: a name among the models. more: keys of the proposer."""
    (folder / "molecules.csv").write_text("smiles\nCO\nCCO\n", encoding="utf-8")
    (folder / "sampled.yaml").write_text(TEXT.format(model=model, more=more), encoding="utf-8")
    campaign = Campaign.from_yaml(folder / "sampled.yaml", folder / "sciagent.db")
    campaign.rollout(1, 3, 2)
    ledger = campaign.ledger.store
    publish(ledger, "sampled", RewardSpec(prices={"llm_tokens": 0.01}, unsettled="settled"))
    build(ledger, DatasetWish("rows", ["sampled"], licence="CC0-1.0"), folder / "rows")
    return folder / "rows"
