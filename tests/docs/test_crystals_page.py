"""The campaigns of the page on crystals run by the lines that stand below them; small ones stand for those of minutes.

The run of the whole ladder with GPAW is in tests/integration/test_perovskite_gap.py.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from sciagent.campaign.file.campaign_spec import load_spec
from tests.docs.pages import ROOT, block_with, lines
from tests.support.typed import data, told

PAGE = ROOT / "docs" / "crystals.md"
FILES = ROOT / "campaigns"


@pytest.fixture(autouse=True)
def _empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines are typed in an empty folder, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)


@pytest.mark.long
def test_salts_are_bred_listed_exported_and_verified() -> None:
    """The budget is smaller than on the page."""
    shown = block_with("campaign: salts", "yaml", PAGE).text
    assert shown.count("proposals: 100") == 1
    Path("salts.yaml").write_text(shown.replace("proposals: 100", "proposals: 12"), encoding="utf-8")
    Path("salts.csv").write_text(block_with("halite", "csv", PAGE).text, encoding="utf-8")
    assert "\thit\t" in typed("salts.yaml")["best"]
    assert Path("salts.cif").read_text(encoding="utf-8").count("data_") >= 10
    [verify] = re.findall(r"`sciagent (verify my\.cif .*?)`", PAGE.read_text(encoding="utf-8"))
    Path("my.cif").write_text(cells("periclase"), encoding="utf-8")
    found = data(*verify.split())
    assert (found["formula"], found["smiles"], found["verdict"]) == ("MgO", None, "pass")


def test_a_powder_is_found_among_the_structures_of_a_folder() -> None:
    Path("powder.yaml").write_text(block_with("campaign: powder", "yaml", PAGE).text, encoding="utf-8")
    Path("structures").mkdir()
    Path("structures/oxides.cif").write_text(cells("rutile", "anatase", "periclase"), encoding="utf-8")
    shutil.copy(FILES / "identify_powder_pattern.xy", "my-powder.xy")
    first = typed("powder.yaml")["best"].splitlines()[1]
    assert "anatase" in first and "hit" in first


@pytest.mark.long
def test_the_ladder_with_force_fields_relaxes_a_crystal() -> None:
    file = written("mlff.relax", "property: formation_energy, max: -1, unit: eV/atom", "rocksalt: Na Cl")
    told("run", str(file))
    [best] = data("best", "one")
    assert best["hit"] and (values := best["values"])
    assert values["formation_energy"]["value"] == pytest.approx(-2.1, abs=0.15)
    assert values["energy_above_known_phases"]["value"] == pytest.approx(0, abs=0.02)
    assert 0 < values["energy_spread"]["value"] < 0.05


def test_the_ladder_with_gpaw_loads() -> None:
    """It runs, with recorded gaps, in tests/integration/test_perovskite_gap.py."""
    spec = load_spec(written("gpaw.bands", "property: band_gap, min: 1.8, unit: eV", "perovskite: Sr Ti O"))
    assert [rung.verifier for rung in spec.ladder][-3:] == ["crystal.checks", "gpaw.bands", "gpaw.bands"]


@pytest.mark.long
def test_the_whole_ladder_is_planned_and_the_example_of_a_powder_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last line of the ladder runs in tests/integration/test_perovskite_gap.py."""
    [example] = re.findall(r"`sciagent (init powder .*?)`", PAGE.read_text(encoding="utf-8"))
    told(*example.split())
    assert {file.name for file in Path("powder").iterdir()} >= {"identify_powder.yaml", "identify_powder.cif"}
    init, cd, plan, _ = lines(block_with("perovskite_gap", "sh", PAGE))
    told(*init[1:])
    monkeypatch.chdir(cd[1])
    assert "fast pays for itself" in told(*plan[1:])


def typed(file: str) -> dict[str, str]:
    """Types the lines that the page has for a campaign file; returns what each command printed."""
    block = block_with(f"sciagent run {file}", "sh", PAGE)
    return {words[1]: told(*words[1:]) for words in lines(block)}


def written(verifier: str, objective: str, crystal: str) -> Path:
    """Writes a campaign on one crystal with the ladder that the page shows with a verifier; returns its file."""
    ladder = block_with(f"verifier: {verifier}", "yaml", PAGE).text
    Path("one.csv").write_text(f"structure\n{crystal}\n", encoding="utf-8")
    (file := Path("one.yaml")).write_text(
        f"campaign: one\nsubject: crystal\nobjectives:\n  - {{{objective}}}\n{ladder}goal: {{kind: hits}}\n"
        "budget: {proposals: 1}\nproposer: {kind: screen, file: one.csv}\n",
        encoding="utf-8",
    )
    return file


def cells(*names: str) -> str:
    """Returns blocks of campaigns/identify_powder.cif."""
    _, *found = re.split(r"^(?=data_)", (FILES / "identify_powder.cif").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return "".join(block for block in found if block.split()[0].removeprefix("data_") in names)
