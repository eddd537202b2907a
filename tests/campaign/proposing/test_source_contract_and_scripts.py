"""The seed of a turn depends on the seed of the campaign, not on its name."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import sqlalchemy as sa

from sciagent.agent import conversation_and_asking
from sciagent.campaign.core.built_campaign_and_derived_values import Built
from sciagent.campaign.core.create_and_open import create_or_open
from sciagent.campaign.driving.driver import Driver
from sciagent.campaign.file.campaign_spec import load_spec
from sciagent.campaign.proposing.source_contract_and_scripts import turn_seed
from sciagent.store.campaign_state import campaigns
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.views import campaign_counts_and_remarks
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


def test_what_a_script_computes_is_booked_and_what_its_driver_computes_stands_beside_it(tmp_path: Path) -> None:
    built = opened(tmp_path, "booked", seed=1)
    began = time.thread_time()
    with Driver(built) as driver:
        for _ in range(3):
            driver.step()
        driver.request_stop()
        driver.run()
    took = time.thread_time() - began
    with built.ledger.read() as connection:
        counts = campaign_counts_and_remarks.counts(connection, campaigns.get(connection, "booked"))
        all_costs = connection.execute(sa.select(t.turn.c.cost)).scalars().all()
    by_rungs = sum(rung.core_seconds for rung in counts.rungs)
    by_proposer = counts.spent["core_seconds"] - by_rungs
    assert by_proposer > 0 and len(all_costs) >= 1
    assert counts.driver_core_seconds > 0
    assert 0.5 * took < by_proposer + counts.driver_core_seconds <= 1.01 * took
