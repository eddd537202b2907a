"""docs/rewards.md shows what the commands print of a ledger with two groups of episodes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sciagent.rewards.spec import load_rewards
from sciagent.store.database.ledger import Ledger
from tests.docs.pages import ROOT
from tests.docs.test_shapes import sciagent
from tests.support.rewarded import DFT, HIT, MISS, XTB, Rewarded, rewarded

PAGE = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8")
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)


def verified(made: Rewarded, smiles: str, gap: float, seconds: float) -> None:
    for position, value, cost in ((XTB, 8.0, 2.0), (DFT, gap, seconds)):
        made.order(smiles, position)
        made.answer(smiles, position, {"homo_lumo_gap": value}, seconds=cost)


@pytest.fixture
def made(migrated_sqlite: Path, tmp_path: Path) -> Rewarded:
    """Two groups of two episodes: hits, a miss, a molecule that both siblings propose, and one that still runs."""
    shutil.copy(migrated_sqlite, tmp_path / "sciagent.db")
    ledger = Ledger(str(tmp_path / "sciagent.db"), artifacts=tmp_path / "sciagent-artifacts")
    made = rewarded(ledger, tmp_path, "gaps")
    first, second = made.group(0, 2), made.group(1, 2)
    made.episode(1, [["Oc1ccccc1"], ["Oc1ccccc1C"]], group=first, sibling=0, tokens=400.0)
    made.episode(2, [["CCO"], ["Oc1ccccc1"]], group=first, sibling=1, tokens=400.0)
    made.episode(3, [["CC=O"]], group=second, sibling=0, tokens=200.0)
    made.episode(4, [["CC#N"]], group=second, sibling=1, tokens=200.0)
    made.check("Oc1ccccc1", "Oc1ccccc1C", "CCO", "CC=O", "CC#N")
    verified(made, "Oc1ccccc1", HIT, 900.0)
    verified(made, "Oc1ccccc1C", HIT, 1200.0)
    verified(made, "CCO", MISS, 300.0)
    verified(made, "CC=O", HIT, 200.0)
    made.order("CC#N", XTB)
    return made


def test_the_page_shows_what_is_printed(made: Rewarded, tmp_path: Path) -> None:
    folder = tmp_path / "rewards"
    folder.mkdir()
    shutil.copy(ROOT / "campaigns" / "rewards" / "hits.yaml", tmp_path / "hits.yaml")
    settled = (tmp_path / "hits.yaml").read_text().replace("unsettled: posterior", "unsettled: settled")
    (tmp_path / "settled.yaml").write_text(settled)
    sessions = SESSION.findall(PAGE)
    assert len(sessions) >= 4
    for number, session in enumerate(sessions):
        if number == 2:  # what the page says happened in between
            made.answer("CC#N", XTB, {"homo_lumo_gap": 60.0}, seconds=2.0)
        command, _, printed = session.partition("\n")
        assert command.startswith("$ sciagent ")
        done = sciagent(tmp_path, *command.removeprefix("$ sciagent ").split())
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == printed.strip(), command


def test_the_file_on_the_page_is_the_one_that_ships() -> None:
    [shown] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    shipped = ROOT / "campaigns" / "rewards" / "hits.yaml"
    assert shown.strip() == shipped.read_text(encoding="utf-8").strip()
    assert load_rewards(shipped).credit == "rtg"
