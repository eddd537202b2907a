"""The benchmark of conformers: its statistics on made rows, and the rows that are committed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.conformers import run


def made(name: str, reference: list[float], **errors: list[float]) -> dict[str, Any]:
    """Returns a row whose methods err by so much."""
    energies = {method: list(reference) for method in (*run.METHODS, run.REFERENCE)}
    for method, error in errors.items():
        energies[method] = [energy + one for energy, one in zip(reference, error, strict=True)]
    return {"name": name, "energies": energies}


def test_a_perfect_method_has_no_error_and_a_wrong_one_the_error_of_its_pairs() -> None:
    rows = [
        made("a", [0.0, 1.0, 2.0], **{"GFN2-xTB": [0.0, -1.5, 0.0]}),
        made("b", [0.0, 0.5], **{"GFN2-xTB": [0.0, 0.5]}),
    ]
    result = run.summary(rows, resamples=50)
    assert (result["molecules"], result["pairs"]) == (2, 4)
    assert result["SO3LR"]["mean_absolute_error"] == [0.0, 0.0, 0.0]
    assert result["SO3LR"]["right_order"][0] == result["SO3LR"]["rank_correlation"][0] == 1.0
    # differences of the pairs: -1.5, 0, 1.5 and 0.5
    assert result["GFN2-xTB"]["mean_absolute_error"][0] == pytest.approx(3.5 / 4)
    assert result["GFN2-xTB"]["mean_error"] == pytest.approx(0.5 / 4)
    assert result["GFN2-xTB"]["right_order"][0] == pytest.approx(3 / 4)
    assert result["SO3LR minus GFN2-xTB"]["mean_absolute_error"][0] == pytest.approx(-3.5 / 4)


def test_pairs_that_the_reference_does_not_tell_apart_have_no_order() -> None:
    assert run.right_order(np.array([-1.0, 1.0]), np.array([0.1, 1.0])) == 1.0


def test_committed_rows_are_of_the_list_and_lowest_of_two_geometries() -> None:
    for row in run.read_rows(run.FOLDER / "rows.jsonl"):
        assert run.MOLECULES[row["name"]] == row["smiles"]
        lengths = {len(energies) for energies in row["energies"].values()} or {0}  # no start kept its shape
        assert len(lengths) == 1 and len(row["so3lr_geometry_above_gfn2"]) in lengths
