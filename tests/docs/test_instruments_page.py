"""The examples of the page for instruments are run as they stand, by curl and by Python, against a server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sciagent.store.database.ledger import Ledger
from sciagent.web.page_server import PageServer
from sciagent.web.problem_answers import API, PROBLEM_KINDS
from sciagent.web.route_rules_and_request_guards import rules_of
from tests.docs.pages import ROOT, blocks, campaigns, lines
from tests.support.served_pages import every_page
from tests.support.typed import data, told

PAGE = ROOT / "docs" / "instruments.md"
TEXT = PAGE.read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8080"


def run(command: list[str], token: str, folder: Path) -> str:
    environment = {**os.environ, "TOKEN": token, "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_do_what_the_page_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    [campaign] = campaigns(ROOT / "docs" / "lab.md")
    Path("soluble.yaml").write_text(campaign.text, encoding="utf-8")
    Path("molecules.csv").write_text("smiles\nOc1ccccc1\nCc1ccccc1O\n", encoding="utf-8")
    Path("run7.csv").write_text("minutes,absorbance\n0.1,0.02\n", encoding="utf-8")
    told("run", "soluble.yaml", "--submit")
    told("resume", "soluble")
    [shell] = blocks("sh", PAGE)
    _, token = [told(*words[1:]).strip() for words in lines(shell)]
    [python] = blocks("python", PAGE)
    ask_and_post, with_file = blocks("bash", PAGE)
    server = PageServer(every_page(Ledger("sciagent.db")), "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        text = python.text.replace(ADDRESS, server.url)
        assert run([sys.executable, "-c", text], token, tmp_path) == "answered\n"
        [second] = [str(task["task"]) for task in data("lab", "list")]
        for block, parts in ((ask_and_post, 2), (with_file, 1)):
            command = block.text.replace(ADDRESS, server.url).replace("4713", second)
            answers = run(["bash", "-ec", command], token, tmp_path).replace("}{", "}\n{").splitlines()
            assert len(answers) == parts
            assert json.loads(answers[-1])["task"] == int(second)
    finally:
        server.stop()
        thread.join(timeout=30)
    explained = told("explain", "Cc1ccccc1O", "--verbose")
    assert "log_molar_solubility = -1.348" in explained, "the decimal logarithm of 0.0449"
    assert "the blank was not subtracted" in explained


def test_its_table_has_every_route_with_its_scope(tmp_path: Path) -> None:
    rules = rules_of(every_page(Ledger(str(tmp_path / "l.db"))))
    served = {
        f"{method} {path.removeprefix(API)}": str(rule.right) for (method, path), rule in rules.items() if API in path
    }
    assert dict(re.findall(r"^\| `((?:GET|POST) [^`]+)` \| `(\w+)` \|", TEXT, flags=re.MULTILINE)) == served


def test_it_names_every_kind_of_conflict() -> None:
    for kind in PROBLEM_KINDS.values():
        assert f"`{kind.rpartition(':')[2]}`" in TEXT
