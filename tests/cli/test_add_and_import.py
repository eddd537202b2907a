"""`sciagent add` and `sciagent import`, as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.typed import call, refused


def test_molecules_come_from_the_command_line_and_from_a_file(folder: Path) -> None:
    (folder / "more.csv").write_text("smiles\nCCN\nCO\n")
    result = call("add", "CCC", "--file", "more.csv", "-c", "small", "--reason", "our own", "--json")
    assert '"new": 2' in result.stdout and '"duplicate": 1' in result.stdout and result.exit_code == 0
    assert "give molecules as SMILES or crystals as files" in refused("add", "-c", "small", "--reason", "our own")


def test_an_import_without_a_unit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "g.csv").write_text("smiles,gap\nC,10.1\n")
    monkeypatch.chdir(tmp_path)
    assert "say the unit" in refused("import", "g.csv", "--value", "gap=homo_lumo_gap", "--method", "PBE0")


def test_an_import_knows_the_derived_properties_of_campaigns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lab.csv").write_text("smiles,x\nC,10.1\n")
    words = ("import", "lab.csv", "--value", "x=logp_by_import", "--method", "experiment")
    message = refused(*words)
    assert 'unknown property "logp_by_import"' in message and "--campaign FILE.yaml" in message
    (tmp_path / "none.csv").write_text("smiles\nC\n")
    (tmp_path / "derived.yaml").write_text(
        "campaign: derived\nsubject: molecule\nderived: [{property: logp_by_import, formula: 2 * logp}]\n"
        "objectives: [{property: logp_by_import, max: 2}]\nladder: [{verifier: molecule.checks}]\n"
        "goal: {kind: hits}\nbudget: {proposals: 5}\nproposer: {kind: screen, file: none.csv}\n"
    )
    assert "1 recorded" in call(*words, "--campaign", "derived.yaml").output
    assert "missing" in refused(*words, "--campaign", "missing")
