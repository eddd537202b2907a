"""The seed of a turn depends on the seed of the campaign, not on its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from sciagent.agent import conversation_and_asking
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.proposing.source_contract_and_scripts import turn_seed
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import write_campaign


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(conversation_and_asking, "FIRST_PAUSE", 0.01)
    (tmp_path / "table.csv").write_text("smiles\n" + "".join(f"{'C' * n}F\n" for n in range(1, 61)))
    (tmp_path / "seeds.csv").write_text("smiles\nCOC\nCOCC\n")
    return tmp_path


def opened(folder: Path, name: str, seed: int) -> Built:
    file = write_campaign(folder, name=name, seed=seed, evolve=True)
    return create_or_open(Ledger(str(folder / "sciagent.db")), load_spec(file), file.read_text(), "test").built


def test_a_campaign_of_another_name_makes_the_same_search_and_one_of_another_seed_does_not(tmp_path: Path) -> None:
    first, renamed, other = (opened(tmp_path, name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    turns = [(trajectory, number) for trajectory in (0, 1) for number in range(3)]
    seeds = [turn_seed(first, *turn) for turn in turns]
    assert seeds == [turn_seed(renamed, *turn) for turn in turns]
    assert len({*seeds, *(turn_seed(other, *turn) for turn in turns)}) == 12
