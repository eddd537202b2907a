"""docs/datasets.md shows what the commands print of a ledger with four siblings."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.training.settings import DATASET_KINDS
from tests.docs.pages import ROOT
from tests.docs.test_shapes import sciagent
from tests.support.conversing import Conversing, conversing

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)
CARD = re.compile(r"```markdown\n(.*?)```", re.DOTALL)


@pytest.fixture
def made(migrated_sqlite: Path, tmp_path: Path) -> Conversing:
    """Four siblings answered one prompt: two hits, a miss, and a text that is no molecule."""
    shutil.copy(migrated_sqlite, tmp_path / "sciagent.db")
    made = conversing(
        Ledger(str(tmp_path / "sciagent.db"), artifacts=tmp_path / "sciagent-artifacts"), tmp_path, "gaps"
    )
    group = made.group(0, 4)
    for sibling, texts in enumerate((["Oc1ccccc1", "CC#N"], ["CC=O"], ["CCO"], ["C1CC"])):
        made.talk(sibling + 1, texts, group=group, sibling=sibling)
    for smiles, gap in (("Oc1ccccc1", 5.1), ("CC=O", 6.0), ("CCO", 12.0)):
        made.verify(smiles, gap)
    publish(made.ledger, "gaps", RewardSpec(prices={"core_seconds": 1e-4}, unsettled="settled"))
    return made


@pytest.mark.usefixtures("made")
def test_the_page_shows_what_is_printed(tmp_path: Path) -> None:
    sessions = SESSION.findall(PAGE)
    assert {session.split()[4] for session in sessions} == set(DATASET_KINDS)
    for session in sessions:
        command, _, printed = session.partition("\n")
        done = sciagent(tmp_path, *command.removeprefix("$ sciagent ").split())
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == printed.strip(), command
    [card] = CARD.findall(PAGE)
    written = (tmp_path / "sft" / "README.md").read_text(encoding="utf-8")
    assert written.startswith(card.rstrip()), written
