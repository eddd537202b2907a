"""The ± of molecules with rings, OH, amines and open stereo covers what its committed measurement found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.repeatability import flexible
from benchmarks.repeatability.run import VERIFIERS
from sciagent_simulators.low_conformers_and_search_spread import SearchFreedom

FOLDER = Path(__file__).parents[2] / "benchmarks" / "repeatability"


def committed(name: str) -> Any:
    return json.loads((FOLDER / name).read_text())


def test_no_molecule_is_tested_on_which_a_spread_was_set() -> None:
    flexible.check_pool()
    fit = flexible.drawn(fit=True)
    tested = flexible.drawn(fit=False)
    assert len(tested) == 24 and len(fit) == 96 and not set(fit) & set(tested)
    assert {row["smiles"] for row in committed("flexible_fit.json")["rows"]} == set(fit)
    assert {row["smiles"] for row in committed("flexible.json")["rows"]} == set(tested)


def test_68_percent_lies_in_the_interval_of_the_coverage_of_each_property() -> None:
    result = committed("flexible.json")
    again = flexible.summary(result["rows"], fit=False)
    assert again["by_class"] == result["by_class"] and again["by_molecule"] == result["by_molecule"]
    assert len(again["by_class"]) == 3 and all(line["holds"] for line in again["by_class"].values())
    assert result["seeds"] == 6


def test_the_stated_spreads_are_the_fitted_ones() -> None:
    fitted = flexible.fitted(committed("flexible_fit.json")["rows"])
    assert set(fitted) == {"TURNING", "POLAR", "OPEN"}
    for verifier in VERIFIERS.values():
        for name, widths in fitted.items():
            stated = verifier.spreads[SearchFreedom[name]]
            assert {prop.name: width for prop, width in stated.items()} == pytest.approx(
                {prop.name: widths[prop.name] for prop in stated}, rel=0.15
            )


def test_pairs_that_repeat_exactly_need_no_spread_and_others_need_their_distance() -> None:
    exact = {"smiles": "C", "property": "dipole", "values": [1.0, 1.0, 1.0]}
    two_ends = {"smiles": "C", "property": "dipole", "values": [0.0, 0.0, 1.0]}
    assert flexible.smallest_covering([exact]) == 0.0
    assert flexible.coverage_of_molecule(two_ends, [0.1] * 3) == pytest.approx(1 / 3)
    assert flexible.coverage_of_molecule(two_ends, [1.001 * flexible.smallest_covering([two_ends])] * 3) == 1.0


def test_the_interval_of_equal_molecules_is_a_point() -> None:
    assert flexible.interval([0.5] * 10) == (0.5, 0.5)
    low, high = flexible.interval([0.0, 1.0] * 12)
    assert low < 0.5 < high and high - low == pytest.approx(2 * 1.96 * 0.5 / 24**0.5, abs=0.05)
