"""Bonds are those that a chemist draws."""

from __future__ import annotations

import pytest
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystals.bonds import contacts, electronegativity, shortest_contact
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("rocksalt: Na Cl", {"Na": 6, "Cl": 6}),
        ("CsCl: Cs Cl", {"Cs": 8, "Cl": 8}),
        ("zincblende: Zn S", {"Zn": 4, "S": 4}),
        ("fluorite: Ca F", {"Ca": 8, "F": 4}),
        ("quartz: Si O", {"Si": 4, "O": 2}),
        ("fcc: Cu", {"Cu": 12}),
        ("hcp: Mg", {"Mg": 12}),
        ("diamond: C", {"C": 4}),
        ("calcite: Ca C O", {"C": 3}),
    ],
)
def test_coordination_numbers(text: str, numbers: dict[str, int]) -> None:
    structure = crystal_from_shorthand(text).structure
    found = contacts(structure, 1.1)
    for symbol, number in numbers.items():
        site = next(i for i, one in enumerate(structure) if one.specie.symbol == symbol)
        own = found.ratios[found.first == site]
        assert (own <= 1.1 * own.min()).sum() == number


def test_metals_in_a_compound_are_not_bonded_to_each_other() -> None:
    structure = crystal_from_shorthand("perovskite: Sr Ti O").structure
    found = contacts(structure, 1.5)
    symbols = [site.specie.symbol for site in structure]
    pairs = {frozenset((symbols[i], symbols[j])) for i, j in zip(found.first, found.second, strict=True)}
    assert frozenset(("Sr", "Ti")) not in pairs and frozenset(("Ti", "O")) in pairs


def test_the_shortest_contact_counts_like_atoms_and_images() -> None:
    chain = Structure(Lattice.orthorhombic(1.0, 9, 9), ["O"], [[0, 0, 0]])
    assert shortest_contact(chain) == pytest.approx(1.0 / 1.2)
    assert shortest_contact(crystal_from_shorthand("rocksalt: Na Cl").structure) == pytest.approx(1)


def test_noble_gases_have_no_electronegativity() -> None:
    assert electronegativity("Ne") is None
    assert electronegativity("O") == pytest.approx(3.44)
