"""docs/rewards.md shows what the commands print of a ledger with two groups of episodes."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sciagent.api.campaign import LedgerView
from sciagent.campaign.core.create_and_open import open_stored
from sciagent.campaign.file.campaign_spec import parse_spec
from sciagent.rewards.publish_versions import publish
from sciagent.rewards.reward_spec import RewardSpec, load_rewards
from sciagent.store.database.ledger import Ledger
from tests.campaign.file.test_rungs_controls import LADDER, REST
from tests.docs.pages import ROOT, blocks
from tests.docs.test_shapes import sciagent
from tests.support.plugins import lay_out, visible
from tests.support.rewarded import DFT, HIT, MISS, XTB, Rewarded, rewarded
from tests.support.watched import BETTER, GAMING, HONEST, opened, roll_out

PAGE, GUARDS = (ROOT / "docs" / "rewards.md").read_text(encoding="utf-8").split("## Guards\n")
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


def test_the_term_of_the_page_is_made_by_its_two_files(tmp_path: Path) -> None:
    page = ROOT / "docs" / "rewards.md"
    for text in [block.text for kind in ("toml", "python") for block in blocks(kind, page)]:
        name = re.match(r"# (\S+)\n", text)
        assert name is not None, "the page names its files"
        (tmp_path / name[1]).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name[1]).write_text(text, encoding="utf-8")
    lay_out(tmp_path / "acme-terms", tmp_path / "site")
    [terms] = re.findall(r"`(terms: \{acme\S+ \S+\})`", PAGE)
    [settings] = re.findall(r"`(term_settings: \{.*?\}\})`", PAGE)
    (tmp_path / "long.yaml").write_text(f"prices: {{core_seconds: 1}}\n{terms}\n{settings}\n", encoding="utf-8")
    with visible(tmp_path / "site"):
        spec = load_rewards(tmp_path / "long.yaml")
    assert spec.term_versions == {"acme.long": "1"} and spec.term_settings == {"acme.long": {"most": 60}}


def test_the_page_shows_what_guards_find(migrated_sqlite: Path, tmp_path: Path) -> None:
    shutil.copy(migrated_sqlite, tmp_path / "sciagent.db")
    ledger = Ledger(str(tmp_path / "sciagent.db"), artifacts=tmp_path / "sciagent-artifacts")
    opened(ledger, tmp_path)
    for name, molecules in (("honest@1", HONEST), ("better@2", BETTER), ("gaming@3", GAMING)):
        roll_out(open_stored(ledger, "watched", "test").built, name, molecules, groups=2, siblings=4, turns=2)
    version = publish(ledger, "watched", RewardSpec(prices={"core_seconds": 1e-9}, unsettled="settled")).version
    assert [len(policy.alarms) for policy in LedgerView(tmp_path / "sciagent.db").guards(version).policies] == [0, 0, 1]
    [session] = SESSION.findall(GUARDS)
    command, _, printed = session.partition("\n")
    assert command == f"$ sciagent rewards show {version} --guards"
    done = sciagent(tmp_path, *command.removeprefix("$ sciagent ").split())
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == printed.strip()


def test_the_control_on_the_page_fits_a_campaign() -> None:
    [control] = re.findall(r"```yaml\n(.*?)```", GUARDS, re.DOTALL)
    spec = parse_spec(LADDER + control + REST, candidates=False)
    assert spec.control is not None and spec.control.rung == "pbe0" and spec.control.share == 0.1
