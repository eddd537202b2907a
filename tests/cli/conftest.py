"""A small finished campaign for the commands of a chemist, copied for whoever changes it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.campaigns import sciagent, write_campaign
from tests.support.once import once

MOLECULES = ("C", "O", "CO", "C[CH2]")


def run_both(folder: Path) -> None:
    file = write_campaign(folder, molecules=MOLECULES, scheduler="thresholds", dft=2, window=(1.0, 9.0))
    sciagent("run", str(file), "--quiet", "--no-report", cwd=folder, expect=None)
    wide = write_campaign(
        folder / "wide", name="wide", molecules=("C", "O", "N"), scheduler="exhaustive", dft=2, window=(1.0, 40.0)
    )
    sciagent(
        "run", str(wide), "--quiet", "--no-report", "--ledger", str(folder / "sciagent.db"), cwd=folder, expect=None
    )
    (folder / "lab.csv").write_text("smiles,gap\nCO,9.1\n")
    value = ["--value", "gap=homo_lumo_gap[eV]", "--method", "experiment", "--uncertainty", "gap=0.2"]
    sciagent("import", "lab.csv", *value, cwd=folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a campaign that has ended (methane and water at DFT), and of another one with a wider window."""
    return once(tmp_path_factory, "people", run_both)


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to change; it is the working directory."""
    target = tmp_path / "copy"
    shutil.copytree(finished, target)
    monkeypatch.chdir(target)
    return target
