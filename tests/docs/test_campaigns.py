"""The campaigns that the pages show are campaigns."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from tests.docs.pages import ROOT, Block, blocks, campaigns, commands
from tests.support.campaigns import sciagent

OURS = [block for block in campaigns() if block.page.name != "verifiers.md"]  # that one needs its own verifier


def test_the_pages_show_campaigns() -> None:
    assert {block.page.name for block in OURS} >= {"README.md", "chemist.md", "campaign_files.md"}


@pytest.mark.parametrize("block", OURS, ids=str)
def test_a_campaign_on_a_page_loads(block: Block, tmp_path: Path) -> None:
    for name in (
        "seeds.csv",
        "solutes.csv",
        "library.csv",
        "my-molecules.csv",
        "amines.csv",
        "molecules.csv",
        "salts.csv",
    ):
        (tmp_path / name).write_text("smiles\nCCO\n")
    shutil.copy(ROOT / "campaigns" / "identify_powder_pattern.xy", tmp_path / "my-powder.xy")
    (tmp_path / "structures").mkdir()
    shutil.copy(ROOT / "campaigns" / "identify_powder.cif", tmp_path / "structures")
    for rubric in blocks("yaml", block.page):
        if name := re.match(r"# (\w+\.yml)\n", rubric.text):
            (tmp_path / name[1]).write_text(rubric.text, encoding="utf-8")
    file = tmp_path / "campaign.yaml"
    file.write_text(block.text, encoding="utf-8")
    spec = load_spec(file)
    assert spec.canonical()["schema"] == 1


def test_the_ready_campaigns_load_and_say_where_their_data_come_from() -> None:
    sources = (ROOT / "campaigns" / "SOURCES.md").read_text(encoding="utf-8")
    for file in (ROOT / "campaigns").glob("*.yaml"):
        load_spec(file)
    for data in (ROOT / "campaigns").glob("*.csv*"):
        assert f"`{data.name}`" in sources


def test_the_first_three_commands_of_the_chemist_fit_together(tmp_path: Path) -> None:
    typed = [arguments for where, arguments in commands() if "chemist.md" in where]
    begin = next(at for at, arguments in enumerate(typed) if arguments[0] == "init")
    init, run, report = typed[begin : begin + 3]
    sciagent(*init, cwd=tmp_path)
    assert (run[0], report[0]) == ("run", "report")
    assert load_spec(tmp_path / run[1]).campaign == report[1]
