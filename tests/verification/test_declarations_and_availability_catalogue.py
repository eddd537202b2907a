"""What `sciagent verifiers` tells of a verifier."""

from __future__ import annotations

import pytest

from sciagent.chemistry.molecule import parse_molecule
from sciagent.errors import UnknownNameError
from sciagent.verification.declarations_and_availability import catalogue, entry


def test_an_entry_holds_what_a_verifier_measures_takes_and_costs() -> None:
    found = entry("pyscf.scf", {"ethanol": parse_molecule("CCO")})
    assert (found["error"], found["tier"], found["kind"]) == (None, "high_fidelity", "molecule")
    assert "homo_lumo_gap" in {measured["property"] for measured in found["measures"]}
    assert "functional" in {setting["name"] for setting in found["settings"]}
    assert [cost["candidate"] for cost in found["cost"]] == ["ethanol"]


def test_settings_without_a_default_are_named() -> None:
    found = entry("molecule.novelty", {})
    assert (found["error"], found["needs"], found["measures"]) == (None, ["references"], [])


def test_a_package_that_does_not_load_is_listed_last_with_its_error(misbehaving: object) -> None:
    tiers = [found["tier"] for found in catalogue({})]
    broken = [found for found in catalogue({}) if found["error"]]
    assert broken and tiers[-len(broken) :] == [""] * len(broken)
    with pytest.raises(UnknownNameError):
        entry("pyscf.scff", {})
