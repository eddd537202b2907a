"""A crate is opened elsewhere, its commands are typed, and the same campaign comes out of another ledger."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

import pytest

from sciagent.report.export.ro_crate_and_rerun_files import InputFile, rerun_spec
from tests.docs.pages import blocks
from tests.support.campaigns import sciagent

SPEC = """\
campaign: small-gaps
subject: molecule
objectives:
  - {property: homo_lumo_gap, min: 5000, unit: meV}
ladder:
  - verifier: molecule.checks
  - verifier: xtb.singlepoint
    settings: {geometry: {method: gfn2, conformers: 1}}
goal: {kind: hits}
budget: {core_seconds: 60}
proposer: {kind: screen, file: data/molecules.csv}
scheduler: {kind: exhaustive}
workers: 1
"""
MOLECULES = "id,smiles\nCPD-1,O\nCPD-2,C\nCPD-3,C=O\n"
MEASURED = "smiles,mu\nO,1.855\nC=O,< 2.5\nO,1.85\n"


@pytest.fixture(scope="module")
def crate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folder of a campaign that has run, with imported values, and the folder of its unpacked crate."""
    home, away = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("away")
    (home / "data").mkdir()
    (home / "data" / "molecules.csv").write_text(MOLECULES)
    (home / "small.yaml").write_text(SPEC)
    (home / "lab.csv").write_text(MEASURED)
    value = ("--value", "mu=dipole[D]", "--uncertainty", "mu=0.01", "--method", "experiment", "--phase", "gas")
    sciagent("import", "lab.csv", *value, cwd=home)
    sciagent("run", "small.yaml", "--quiet", "--no-report", cwd=home)
    sciagent("export", "small-gaps", "-o", "crate.zip", "--author", "Ada", "--license", "CC0-1.0", cwd=home)
    zipfile.ZipFile(home / "crate.zip").extractall(away)
    return home, away


@pytest.mark.long
def test_a_crate_holds_its_inputs_with_their_hashes(crate: tuple[Path, Path]) -> None:
    _, away = crate
    assert (away / "campaign.yaml").read_text() == SPEC and (away / "data" / "molecules.csv").read_text() == MOLECULES
    graph = json.loads((away / "ro-crate-metadata.json").read_text())["@graph"]
    [hashed] = [entity for entity in graph if entity["@id"] == "data/molecules.csv"]
    assert len(hashed["sha256"]) == 64 and hashed["sha256"] in (away / "README.md").read_text()
    assert json.loads((away / "versions.json").read_text())["rungs"]["xtb_singlepoint"]["engines"]["tblite"]


@pytest.mark.long
def test_the_commands_of_its_readme_make_the_same_campaign_again(crate: tuple[Path, Path]) -> None:
    _, away = crate
    for command in (line for block in blocks("sh", away / "README.md") for line in block.text.splitlines()):
        sciagent(*shlex.split(command)[1:], cwd=away)
    first, again = (sciagent("best", "small-gaps", "--json", cwd=folder) for folder in crate)
    assert [c["smiles"] for c in again] == [c["smiles"] for c in first] and len(again) == 3
    for one, other in zip(first, again, strict=True):
        assert other["names"] == one["names"] and other["hit"] == one["hit"]
        for name, value in one["values"].items():
            assert other["values"][name]["value"] == pytest.approx(value["value"], abs=1e-4)
        fields = ("property", "value", "unit", "uncertainty", "censoring", "level")
        mine, theirs = ([[v[f] for f in fields] for v in c["imported"]] for c in (one, other))
        assert theirs == mine
    assert sum(len(c["imported"]) for c in again) == 3


def test_a_file_outside_the_folder_gets_a_path_in_the_crate() -> None:
    files = [InputFile("/data/a.csv", "0" * 64, b""), InputFile("seeds/b.csv", "1" * 64, None)]
    assert [file.inside for file in files] == ["inputs/a.csv", "seeds/b.csv"]
    assert rerun_spec("file: /data/a.csv\nseeds: seeds/b.csv\n", files) == "file: inputs/a.csv\nseeds: seeds/b.csv\n"
    assert rerun_spec("seeds: seeds/b.csv\n", files[1:]) is None
