"""Substitutes have the charge of the ion and are those that mineralogists name."""

from __future__ import annotations

import pytest

from sciagent.chemistry.crystals.edits import substitutes
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand


@pytest.mark.parametrize(
    ("text", "symbol", "likely", "never"),
    [
        ("perovskite: Cs Sn I", "I", {"Br", "Cl"}, {"O", "S"}),
        ("perovskite: Cs Sn I", "Cs", {"Rb", "K"}, {"Ca", "Al"}),
        ("spinel: Mg Al O", "Al", {"Ga", "Cr"}, {"Si", "Na"}),
        ("rutile: Ti O", "O", {"S", "Se"}, {"F", "N"}),
        ("half-Heusler: Ti Ni Sn", "Ti", {"Zr"}, {"O"}),
    ],
)
def test_substitutes_are_isovalent(text: str, symbol: str, likely: set[str], never: set[str]) -> None:
    weights = substitutes(crystal_from_shorthand(text), symbol)
    assert likely <= set(list(weights)[:6])
    assert not never & set(weights)
    assert sum(weights.values()) == pytest.approx(1)
    assert not set(weights) & set(crystal_from_shorthand(text).species)
