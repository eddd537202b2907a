"""Data sets of episodes that the tiny model sampled: a group of siblings, rolled out, rewarded and built into rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from sciagent import Campaign
from sciagent.agent.turns_to_token_rows import CONTEXT
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.training.dataset_building import build
from sciagent.training.settings import DatasetSettings

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
    build(ledger, DatasetSettings(kind="rows", campaigns=["sampled"], license="CC0-1.0"), folder / "rows")
    return folder / "rows"


def fork(rows: Path) -> None:
    """Cuts each row after its first turn, as if the second prompt had not continued the first: two rows an episode.

    Answers that a random model cuts off cost the same, so advantages and outcomes that differ are put in their place.
    """
    path = rows / "train.parquet"
    table = pq.read_table(path)
    cut = [part for row in table.to_pylist() for part in _parts(row)]
    pq.write_table(type(table).from_pylist(cut, schema=table.schema), path)


def _parts(row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yields the row up to the end of its first turn, and the whole row with that turn as context."""
    turns, sibling = row["turns"], row["sibling"]
    end = len(turns) - turns[::-1].index(0)
    worth = [None if turn == CONTEXT else 0.7 - 0.5 * sibling + 0.2 * turn for turn in turns]
    row = {**row, "advantages": worth, "outcome": 0.25 * sibling}
    yield {name: cells[:end] if isinstance(cells, list) else cells for name, cells in row.items()}
    given = {"mask": False, "logprobs": 0.0, "behaviour": None, "turns": CONTEXT, "advantages": None, "gradient": False}
    kept = {name: [cell] * end + row[name][end:] for name, cell in given.items()}
    yield {**row, **kept, "row": row["row"] + 1}
