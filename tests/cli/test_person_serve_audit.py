"""`sciagent person` and `sciagent audit`, as an administrator types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.typed import call, data, refused, told

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)


def test_accounts_are_made_and_closed_and_the_trail_says_so() -> None:
    made = data("person", "add", "anna", "--name", "Anna Berg", "--role", "lab", "--url", "https://lab.example.org/")
    assert made["link"].startswith("https://lab.example.org/welcome/") and len(made["link"]) > 70
    assert "an account anna already" in refused("person", "add", "anna", "--name", "Anna")
    told("person", "change", "anna", "--role", "chemist")
    assert "is no role" in refused("person", "change", "anna", "--role", "boss")
    assert data("person", "change", "anna", "--reset")["link"] != made["link"]
    assert len(data("person", "token", "anna", "--label", "balance", "--scope", "work")["token"]) > 30
    assert "nothing" in refused("person", "token", "anna", "--label", "balance", "--campaign", "nothing")
    told("person", "change", "anna", "--disable")
    assert data("person", "list") == [{"login": "anna", "name": "Anna Berg", "state": "disabled", "roles": "chemist"}]
    told("person", "change", "anna", "--enable")
    assert data("person", "list")[0]["state"] == "invited"
    head = data("audit", "--head")
    assert data("audit")["head"] == head["hash"] and head["entry"] == 8
    assert data("audit", "--since", head["hash"])["entries"] == 1
    assert "was rewritten" in refused("audit", "--since", "0" * 64)
    told("audit", "--export", "-o", "trail.jsonl")
    lines = [json.loads(line) for line in Path("trail.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["what"] for line in lines[:3]] == ["added", "gave a role", "opened"]


def test_a_changed_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlite3

    from tests.cli.test_lab import CAMPAIGN

    Path("molecules.csv").write_text("smiles\nOc1ccccc1\nCCO\n", encoding="utf-8")
    Path("gaps.yaml").write_text(CAMPAIGN, encoding="utf-8")
    assert call("run", "gaps.yaml", "--quiet", "--no-report").exit_code == 0
    number = str(data("lab", "list")[0]["task"])
    data("lab", "enter", number, "--value", "homo_lumo_gap=4.31 eV", "--who", "anna")
    assert data("audit")["fault"] is None
    with sqlite3.connect("sciagent.db") as ledger:
        ledger.execute("DROP TRIGGER submission_no_update")
        ledger.execute("UPDATE submission SET said = replace(said, '4.31', '4.13')")
    done = call("audit")
    assert done.exit_code == 1 and "submission 1" in done.stdout and "was changed" in done.stdout
