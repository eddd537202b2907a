"""`sciagent verifiers` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from tests.support.typed import call, data, refused, told


def test_verifiers_tell_what_they_measure_cost_and_take() -> None:
    found = {one["name"]: one for one in data("verifiers")}
    xtb = found["xtb.singlepoint"]
    assert {"homo_lumo_gap", "dipole"} <= {m["property"] for m in xtb["measures"]}
    assert xtb["priors"][0]["source"] and xtb["cost"][0]["core_seconds"] > 0
    settings = {s["name"]: s for s in xtb["settings"]}
    assert settings["max_atoms"]["default"] == 200 and settings["geometry.conformers"]["default"] == 10
    assert not any(one["error"] for one in found.values() if one["package"].startswith("sciagent "))
    text = told("verifiers", "pyscf.scf")
    assert "functional: " in text and "default PBE0" in text and "Costs, as declared" in text
    assert 'did you mean "pyscf.scf"' in refused("verifiers", "pyscf.scv")


def test_the_cost_of_a_structure_is_told_before_it_is_paid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCIAGENT_LEDGER", raising=False)
    [ethanol, acetate] = data("verifiers", "md.liquid", "--cost", "CCO", "--cost", "CC(=O)[O-]")
    assert ethanol["core_seconds"] == ethanol["expected_core_seconds"] > 1000 and ethanol["atoms"] == 9
    assert acetate["refused"].startswith("charge: ") and acetate["expected_core_seconds"] is None
    [longer] = data("verifiers", "md.liquid", "--cost", "CCO", "--set", "nanoseconds=2")
    assert 5 < longer["core_seconds"] / ethanol["core_seconds"] < 7, "2.1 ns instead of 0.3"
    assert "declared; no earlier job" in told("verifiers", "md.liquid", "--cost", "CCO")
    assert "name a verifier" in refused("verifiers", "--cost", "CCO")
    assert "belongs to --cost" in refused("verifiers", "md.liquid", "--set", "box=30")
    assert not list(tmp_path.iterdir()), "nothing is written"
    decorated("rocksalt", ("Mg", "O")).structure.to(filename=tmp_path / "mgo.cif")
    assert told("verifiers", "mlff.md", "--cost", "mgo.cif").startswith("  mgo.cif (2 atoms): ")


def test_a_verifier_that_does_not_load_is_shown_and_hides_no_other(misbehaving: Path) -> None:
    result = call("verifiers", "--json")
    found = {one["name"]: one for one in json.loads(result.stdout)}
    broken = [one for one in found.values() if one["error"]]
    assert broken and result.exit_code == 0 and found["xtb.singlepoint"]["error"] is None
    assert call("verifiers", broken[0]["name"]).exit_code == 1
