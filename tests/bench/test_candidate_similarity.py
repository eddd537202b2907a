"""Formulas as people write them, and that no likeness breaks a covariance."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.core import Composition

from sciagent_bench.candidate_similarity import composition, of_features, of_identifiers


@pytest.mark.parametrize(
    ("text", "fractions"),
    [
        ("NaCl", {"Na": 0.5, "Cl": 0.5}),
        ("AgBrO3", {"Ag": 0.2, "Br": 0.2, "O": 0.6}),
        ("Ca(OH)2", {"Ca": 0.2, "O": 0.4, "H": 0.4}),
        ("La0.5Sr0.5MnO3", {"La": 0.1, "Sr": 0.1, "Mn": 0.2, "O": 0.6}),
        ("K[Al(SO4)2]", {"K": 1 / 12, "Al": 1 / 12, "S": 2 / 12, "O": 8 / 12}),
    ],
)
def test_a_formula_is_read(text: str, fractions: dict[str, float]) -> None:
    assert composition(text) == pytest.approx(fractions)


@pytest.mark.parametrize("text", ["", "Xy2", "X", "nacl", "Ca(OH", "CaOH)2", "2(", "(2CO)", "Na Cl", "Na0", "Cu+"])
def test_what_is_no_formula_is_none(text: str) -> None:
    assert composition(text) is None


def test_formulas_agree_with_pymatgen() -> None:
    for text in ("Mg3(PO4)2", "Fe2(SO4)3", "Ba0.25Sr0.75TiO3", "Al2Si2O5(OH)4"):
        expected = Composition(text).fractional_composition.get_el_amt_dict()
        assert composition(text) == pytest.approx(expected, rel=1e-6)


def test_likenesses_are_positive_semidefinite_and_within_one() -> None:
    rng = np.random.default_rng(0)
    places = np.arange(30)
    labels = [[str(x) for x in rng.integers(0, 3, 30)] for _ in range(2)]
    for similarity in (
        of_features([rng.standard_normal(30), rng.standard_normal(30), np.ones(30)], labels),
        of_identifiers(["C" * (1 + i % 7) + "ON"[i % 2] + "C" * (i % 5) for i in places]),
        of_identifiers([f"Na{1 + i % 4}Cl{1 + i % 3}" for i in places]),
    ):
        found = similarity.between(places, places)
        assert np.diag(found) == pytest.approx(1)
        assert found.min() >= 0
        assert np.linalg.eigvalsh(found).min() > -1e-8
