"""The lines of README and of the chemist's page are typed in their order, in a folder that is empty at first.

Campaigns of the same names, with few and small molecules, run instead of those that take minutes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, commands
from tests.support.campaigns import environment, sciagent, write_campaign
from tests.support.typed import call

CHEMIST = [arguments for where, arguments in commands() if where.startswith("docs/chemist.md")]
README = [arguments for where, arguments in commands() if where.startswith("README.md")]
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
@pytest.mark.parametrize("page", [README, CHEMIST], ids=["README", "chemist"])
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
