"""Families group prototypes. What `same` finds is tested with `test_rewritings`."""

from __future__ import annotations

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.crystals.family import family, same
from sciagent.chemistry.crystals.prototypes import crystal_from_shorthand


def test_families_ignore_elements_and_volumes() -> None:
    salts = [crystal_from_shorthand(f"rocksalt: {pair}") for pair in ("Na Cl", "Mg O", "Pb Te")]
    assert {family(salt) for salt in salts} == {"AB_cF8_225_a_b"}
    assert family(crystal_from_shorthand("zincblende: Na Cl")) != "AB_cF8_225_a_b"


def test_a_swapped_cation_is_another_structure() -> None:
    spinel = crystal_from_shorthand("spinel: Mg Al O")
    structure = spinel.structure.copy()
    places = {site.specie.symbol: i for i, site in enumerate(structure)}
    structure[places["Mg"]], structure[places["Al"]] = "Al", "Mg"
    assert not same(spinel, crystal_from_structure(structure))
