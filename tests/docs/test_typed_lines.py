"""The lines of README and of the chemist's pages are typed in their order, in a folder that is empty at first.

In README and on the topic pages, campaigns of the same names, with few and small molecules, run instead of those that
take minutes. The tutorial runs as it stands, but for the search at its end.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks, commands
from tests.docs.pages import campaigns as campaigns_of
from tests.support.campaigns import environment, sciagent, write_campaign
from tests.support.typed import call


def typed_on(*pages: str) -> list[list[str]]:
    return [arguments for page in pages for where, arguments in commands() if where.startswith(f"{page}:")]


README = typed_on("README.md")
TOPICS = typed_on("docs/campaign_files.md", "docs/methods.md", "docs/numbers.md", "docs/results.md")
TUTORIAL = ROOT / "docs" / "chemist.md"
MINUTES = ("run", "resume", "verify")
"""Commands that compute a whole campaign or a DFT rung; the campaigns of the fixture stand for them."""
SERVICES = ("dispatcher", "worker", "db")
"""Commands on a server of a group, which docs/operations.md explains; their own tests start them."""
ALDEHYDES = ("C", "O=Cc1ccccc1", "O=Cc1ccco1")


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with the campaigns that the pages name."""
    folder = tmp_path_factory.mktemp("typed")
    for name, molecules in {"my-gaps": ALDEHYDES, "quickstart": ("C", "O"), "blue-gap": ("C", "N")}.items():
        file = write_campaign(
            folder / name / "small", name=name, molecules=molecules, scheduler="thresholds", dft=4, gfn1=True
        )
        sciagent(
            "run", str(file), "--quiet", "--no-report", "--ledger", str(folder / "sciagent.db"), cwd=folder, expect=None
        )
    return folder


@pytest.mark.long
@pytest.mark.parametrize("page", [README, TOPICS], ids=["README", "topics"])
def test_each_line_works_as_it_is_typed(
    page: list[list[str]], campaigns: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "empty"
    shutil.copytree(campaigns, folder)
    shutil.copytree(ROOT / "campaigns", folder / "campaigns")
    (folder / "gaps.csv").write_text("smiles,gap\nCCO,7.1\n")
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    typed = [arguments for arguments in page if arguments[0] not in (*MINUTES, *SERVICES)]
    assert len(typed) >= 3
    for arguments in typed:
        if arguments[0] == "doctor":  # in a process that does not see the broken verifiers of the tests
            command = [sys.executable, "-m", "sciagent", *arguments]
            subprocess.run(command, cwd=folder, env=environment(PYTHONPATH=""), check=True, capture_output=True)
            continue
        result = call(*(word for word in arguments if word != "--open"))
        if arguments[0] == "pause":  # it runs no more
            assert "there is nothing to pause" in str(result.exception)
        else:
            assert result.exit_code == 0, (arguments, result.output, result.exception)


@pytest.fixture(scope="module")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """{command: what it printed} of the tutorial, whose files stand in a folder that is empty at first."""
    folder = tmp_path_factory.mktemp("tutorial")
    first, fitted = campaigns_of(TUTORIAL)
    (folder / "hydration.yaml").write_text(first.text, encoding="utf-8")
    (folder / "hydration-fitted.yaml").write_text(fitted.text, encoding="utf-8")
    (folder / "solutes.csv").write_text(blocks("csv", TUTORIAL)[0].text, encoding="utf-8")
    printed: dict[str, str] = {}
    typed = [line for block in blocks("sh", TUTORIAL) for line in block.text.splitlines() if "pip install" not in line]
    clean = {name: value for name, value in environment().items() if not name.startswith("SCIAGENT_")}
    for line in typed:
        command = line.removeprefix(".venv/bin/")
        if "my-gaps" in command:  # the search takes minutes
            continue
        # `doctor` runs in a process that does not see the broken verifiers of the tests
        environ = {**clean, "PYTHONPATH": ""} if "doctor" in command else clean
        call_line = command.replace("sciagent ", f"{sys.executable} -m sciagent ", 1)
        done = subprocess.run(
            call_line, shell=True, cwd=folder, env=environ, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        printed[command] = " ".join((done.stdout + done.stderr).split())
    return printed


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("calc xtb.solvation", "-5.0 0.2 GFN1-xTB+ALPB(water)//GFN2-xTB//ETKDGv3x10"),
        ("verifiers xtb.solvation", "mean absolute 1.15 kcal/mol"),
        ("explain acetone", "(above_window)"),
        ("import", "16 rows: 13 recorded, 0 known already, 0 left out, 3 empty cells"),
        ("best hydration -n 7", "mean absolute error 1.3 kcal/mol"),
        ("best hydration -n 7", "contradicted by a measurement: CC#N (acetonitrile)"),
        ("best hydration -n 7", "contradicted by a measurement: Oc1ccccc1 (phenol)"),
        ("run hydration-fitted.yaml", "would not help: leave-one-out mean absolute error 1.41 kcal/mol against 1.34"),
        ("best hydration-gfn1", "mean absolute error 0.63 kcal/mol"),
        ("compare hydration hydration-gfn1", "not by the same calculation: these numbers are not to be compared"),
    ],
)
def test_the_tutorial_prints_what_its_text_says(tutorial: dict[str, str], command: str, words: str) -> None:
    answers = [text for typed, text in tutorial.items() if command in typed]
    assert any(words in text for text in answers), answers
