"""The committed solids are as close to all-electron PBE as the documents say, with both versions of GPAW."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.crystals import solids

FOUND = json.loads((Path(solids.__file__).parent / "solids.json").read_text(encoding="utf-8"))


def test_cells_are_those_of_all_electron_pbe() -> None:
    for version, found in FOUND.items():
        errors = {name: solid["error_percent"] for name, solid in found["solids"].items()}
        assert abs(errors.pop("Cu")) < 0.6, version
        assert {name for name, error in errors.items() if abs(error) < 0.3} == {"Si", "Al", "NaCl", "MgO"}, version


def test_two_versions_of_gpaw_agree() -> None:
    old, new = FOUND["22.8.0"], FOUND["26.7.0"]
    for name in solids.SOLIDS:
        assert new["solids"][name]["a"] == pytest.approx(old["solids"][name]["a"], abs=1e-3), name
    for name in solids.GAPS:
        assert new["gaps"][name]["standard"] == pytest.approx(old["gaps"][name]["standard"], abs=1e-3), name
