"""`sciagent verifiers` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_a_verifier_that_does_not_load_is_shown_and_hides_no_other(misbehaving: Path) -> None:
    result = call("verifiers", "--json")
    found = {one["name"]: one for one in json.loads(result.stdout)}
    broken = [one for one in found.values() if one["error"]]
    assert broken and result.exit_code == 0 and found["xtb.singlepoint"]["error"] is None
    assert call("verifiers", broken[0]["name"]).exit_code == 1
