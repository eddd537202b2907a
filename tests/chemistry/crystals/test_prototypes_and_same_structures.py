"""The shorthand of prototypes makes the crystals that it names."""

from __future__ import annotations

import pytest

from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand, family, prototypes
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError


@pytest.mark.parametrize("name", prototypes())
def test_a_prototype_has_the_space_group_and_the_family_of_its_label(name: str) -> None:
    prototype = prototypes()[name]
    crystal = crystal_from_shorthand(f"{name}: {prototype.example}")
    assert family(crystal) == prototype.family
    assert sorted(prototype.family.split("_")[1:3]) == sorted(prototype.label.split("_")[1:3])
    assert prototype.fits([crystal.species.count(element) for element in prototype.example.split()])


@pytest.mark.parametrize(
    ("text", "formula", "group"),
    [
        ("rocksalt: Na Cl", "NaCl", "Fm-3m"),
        ("perovskite: Cs Sn I", "CsSnI3", "Pm-3m"),
        ("antiperovskite: Li O Cl", "Li3ClO", "Pm-3m"),
        ("spinel: Mg Al O", "MgAl2O4", "Fd-3m"),
        ("half-heusler: Ti, Ni, Sn", "TiNiSn", "F-43m"),
        ("B1: Na Cl", "NaCl", "Fm-3m"),
        ("AB3_oC8_65_a_bf: Cd Pt", "CdPt3", "Cmmm"),
    ],
)
def test_elements_are_in_the_order_of_the_formula(text: str, formula: str, group: str) -> None:
    crystal = crystal_from_shorthand(text)
    assert (crystal.formula, crystal.space_group) == (formula, group)


def test_a_name_and_its_label_give_one_key() -> None:
    for text, other in [
        ("rocksalt: Na Cl", "AB_cF8_225_a_b: Na Cl"),
        ("rutile: Ti O", "A2B_tP6_136_f_a: O Ti"),
        ("antifluorite: Li O", "fluorite: O Li"),
        ("half-Heusler: Ti Ni Sn", "half-Heusler: Sn Ni Ti"),
    ]:
        assert crystal_from_shorthand(text).key == crystal_from_shorthand(other).key


def test_nickel_is_at_the_tetrahedral_place_of_a_half_heusler() -> None:
    structure = crystal_from_shorthand("half-Heusler: Ti Ni Sn").structure
    near = structure.get_neighbors(next(site for site in structure if site.specie.symbol == "Ni"), 3.0)
    assert sorted(site.specie.symbol for site in near) == ["Sn"] * 4 + ["Ti"] * 4


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("rocksal: Na Cl", Reason.UNPARSABLE, 'did you mean "rocksalt"'),
        ("rocksalt: Na", Reason.UNPARSABLE, "takes 2 elements"),
        ("rocksalt: Na Na", Reason.UNPARSABLE, "named twice"),
        ("rocksalt: Na Xx", Reason.UNKNOWN_ELEMENT, "Xx"),
        ("nothing: Na Cl", Reason.UNPARSABLE, "perovskite"),
        ("AB3_oC8_65_a_bg: Cd Pt", Reason.UNPARSABLE, "AB3_oC8_65_a_bf"),
    ],
)
def test_a_wrong_shorthand_is_refused_with_what_would_be_right(text: str, reason: Reason, words: str) -> None:
    with pytest.raises(InvalidCandidateError, match=words) as caught:
        crystal_from_shorthand(text)
    assert caught.value.reason is reason


def test_titanium_has_six_neighbours_in_both_oxides() -> None:
    """Rutile and anatase are made of octahedra."""
    for name in ("rutile", "anatase"):
        structure = crystal_from_shorthand(f"{name}: Ti O").structure
        neighbours = {site.specie.symbol: len(structure.get_neighbors(site, 2.4)) for site in structure}
        assert neighbours == {"Ti": 6, "O": 3}, name
