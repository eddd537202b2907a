"""Calls are counted once a molecule, and the area is the one that PMO defines."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from rdkit import Chem

from benchmarks.proposers.oracle import BudgetSpentError, Oracle, auc, start_set


def length(smiles: str) -> float:
    return Chem.MolFromSmiles(smiles).GetNumAtoms() / 1000


def test_a_molecule_is_counted_once_however_it_is_written() -> None:
    oracle = Oracle(length, budget=3)
    assert oracle.score("OCC") == oracle.score("CCO") == 0.003
    assert oracle.calls == 1 and oracle.known("CCO") and not oracle.known("OCC")
    assert oracle.score("nonsense") == 0.0 and oracle.calls == 1
    oracle.score("C")
    oracle.score("CC")
    assert oracle.score("CCO") == 0.003
    with pytest.raises(BudgetSpentError):
        oracle.score("CCC")
    assert oracle.calls == 3 and oracle.trace == [0.003, 0.001, 0.002]


def test_the_curve_is_the_mean_of_the_best_ten_every_hundred_calls() -> None:
    oracle = Oracle(length, budget=250)
    with pytest.raises(BudgetSpentError):
        for n in range(1, 300):
            oracle.score("C" * n)
    assert oracle.curve == pytest.approx([0.0955, 0.1955])  # of 91..100 and of 191..200 carbons
    assert [s for s, _ in oracle.best(2)] == ["C" * 250, "C" * 249]


def test_the_area_by_hand() -> None:
    assert auc([0.5, 1.0], budget=200) == pytest.approx((0.25 + 0.75) / 2)  # triangle, then trapezium
    assert auc([1.0] * 100, budget=10_000) == pytest.approx(0.995)  # starts at (0, 0)
    assert auc([0.5, 1.0], budget=400) == pytest.approx((0.25 + 0.75 + 1 + 1) / 4)  # ended early: the last value stays
    assert auc([], budget=100) == 0.0


def test_start_sets_are_drawn_by_the_seed(tmp_path: Path) -> None:
    plain, zipped = tmp_path / "a.smi", tmp_path / "a.csv.gz"
    plain.write_text("\n".join("C" * n for n in range(1, 40)) + "\nnonsense\nOCC\n")
    with gzip.open(zipped, "wt") as stream:
        stream.write("smiles,name\n" + "\n".join("C" * n + ",x" for n in range(1, 40)))
    drawn = start_set(plain, 1, 20)
    assert drawn == start_set(plain, 1, 20) != start_set(plain, 2, 20)
    assert len(set(drawn)) == 20 and "nonsense" not in drawn and "OCC" not in drawn
    assert len(start_set(zipped, 0, 39)) == 39
    with pytest.raises(ValueError, match="39 molecules; 40 are needed"):
        start_set(zipped, 0, 40)
