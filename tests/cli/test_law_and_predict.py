"""`sciagent law` and `sciagent predict` as they are typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from tests.campaign.law.conftest import PARTS, measured
from tests.support.typed import call, refused, told


@pytest.fixture(scope="module", name="url")
def make_url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("typed")
    ledger = Ledger(str(folder / "laws.db"))
    for name, ends in zip(("alcohols", "acids", "nitriles"), PARTS, strict=True):
        measured(ledger, folder, name, ends)
    ledger.close()
    return str(folder / "laws.db")


def test_a_law_is_fitted_shown_checked_used_and_deleted(url: str, tmp_path: Path) -> None:
    assert "no laws yet" in call("law", "list", "--ledger", url).stderr
    text = told("law", "fit", "qeds", "alcohols", "acids", "--ledger", url, width=200)
    assert "molecules of 2 campaigns: acids, alcohols" in text and "qed" in text and "RDKit" in text
    assert "32 left-out answers" in text and "not counted yet" in text
    shown = json.loads(call("law", "show", "qeds", "--ledger", url, "--json").stdout)
    assert shown["law"].startswith("qeds@") and shown["quantities"][0]["n"] == 32
    assert shown["law"] in told("law", "list", "--ledger", url, width=200)
    plot = tmp_path / "check.png"
    checked = told("law", "check", "qeds", "nitriles", "--plot", str(plot), "--ledger", url, width=200)
    assert plot.read_bytes().startswith(b"\x89PNG")
    assert "Chances to be a hit" in checked and "16 left-out answers" in checked
    table = told("predict", "CCCCCCCCCCO", "CCO", "--law", "qeds", "-c", "acids", "--ledger", url, width=200)
    assert "CCCCCCCCCO (0.9" in table and "chance of a hit" in table and "measured" in table
    (tmp_path / "more.csv").write_text("smiles\nCCCCCCCCCCN\nnonsense\n", encoding="utf-8")
    (tmp_path / "one.smi").write_text("CCCCCCCCCCF\n", encoding="utf-8")
    both = ("--file", str(tmp_path / "more.csv"), "-f", str(tmp_path / "one.smi"))
    found = call("predict", *both, "--law", "qeds", "--ledger", url, "--json")
    assert found.exit_code == 1 and len(json.loads(found.stdout)["structures"]) == 2
    assert json.loads(found.stdout)["unread"][0]["text"] == "nonsense"
    (tmp_path / "broken.mol").write_text("nothing", encoding="utf-8")
    broken = call("predict", str(tmp_path / "broken.mol"), "CCCCCCCCCCN", "--law", "qeds", "--ledger", url)
    assert broken.exit_code == 1 and "broken.mol" in broken.stderr and "CCCCCCCCCCN" in broken.stdout
    assert "is deleted" in told("law", "delete", shown["law"], "--ledger", url)
    assert "qeds" in refused("law", "show", "qeds", "--ledger", url)


def test_bad_names_and_missing_structures_are_refused(url: str) -> None:
    assert '"Big law" is no name' in refused("law", "fit", "Big law", "acids", "--ledger", url)
    assert ".png or .svg" in refused("law", "check", "qeds", "acids", "--plot", "x.pdf", "--ledger", url)
    assert "--file" in refused("predict", "--law", "qeds", "--ledger", url)
    assert "name a law or a campaign" in refused("predict", "CCO", "--ledger", url)
