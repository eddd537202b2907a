"""Prototypes that compete with a crystal of some elements."""

from __future__ import annotations

import pytest

from sciagent_simulators.potentials.competing_prototypes import balanced, decorated_pairs, further_phases, not_compared


def test_pairs_are_decorated_as_oxidation_states_balance_them() -> None:
    assert balanced(("Cs", "I")) == ("rocksalt", "CsCl", "zincblende", "NiAs")
    assert balanced(("Ca", "Sn")) == ("antifluorite",)
    assert balanced(("Au", "Cu")) == ()
    assert "BiI3" not in balanced(("O", "Ti")) and "rutile" in balanced(("O", "Ti"))


@pytest.mark.parametrize(
    ("system", "pairs"),
    [
        (("Cs", "Sn", "I"), [("Cs", "I"), ("I", "Sn")]),
        (("Ca", "Sn", "O"), [("Ca", "O"), ("Ca", "Sn"), ("O", "Sn")]),
        (("Cu", "Au"), [("Au", "Cu")]),
    ],
)
def test_alloys_are_left_out_beside_a_non_metal(system: tuple[str, ...], pairs: list[tuple[str, str]]) -> None:
    assert decorated_pairs(system) == pairs


@pytest.mark.parametrize(
    ("system", "wanted"),
    [
        ("Zn O", ["wurtzite ZnO"]),
        ("Mo S", ["wurtzite MoS", "MoS2 MoS2"]),
        ("Ca F", []),
        ("Cu Au", []),
        ("Pb Zr O", ["orthorhombic-perovskite ZrPbO3"]),
        ("Mg Al O", ["spinel MgAl2O4"]),
        ("Na S Cl", []),
        ("La Al O", ["orthorhombic-perovskite LaAlO3"]),
        ("Li Co O", ["alpha-NaFeO2 LiCoO2"]),
        ("Au Cu Ni", []),
        ("Mn Sn O", [*(2 * ["orthorhombic-perovskite MnSnO3"]), "spinel Mn(SnO2)2", "spinel Mn2SnO4"]),
    ],
)
def test_further_phases_have_ions_of_the_right_charges(system: str, wanted: list[str]) -> None:
    found = [(label, structure.composition.reduced_formula) for label, structure in further_phases(system.split())]
    assert [" ".join(each) for each in found] == wanted


def test_ions_are_on_their_places() -> None:
    """Calcium, which has the smaller charge, has twelve neighbours, titanium six; lithium one state, cobalt three."""
    phases = dict(further_phases(["Ca", "O", "Ti"]))
    tilted = phases["orthorhombic-perovskite"]
    titanium = next(site for site in tilted if site.specie.symbol == "Ti")
    assert len([near for near in tilted.get_neighbors(titanium, 2.5) if near.specie.symbol == "O"]) == 6
    assert "alpha-NaFeO2" not in phases and "anatase" in dict(further_phases(["O", "Ti"]))
    delafossite = dict(further_phases(["Ag", "In", "O"]))["delafossite"]
    silver = next(site for site in delafossite if site.specie.symbol == "Ag")
    assert len([near for near in delafossite.get_neighbors(silver, 2.6) if near.specie.symbol == "O"]) == 2


@pytest.mark.parametrize("system", ["Cu Fe O", "Cu Al O", "Pd Co O"])
def test_delafossites_compete_whatever_the_usual_states(system: str) -> None:
    """CuFeO2 balances as Cu(II) Fe(II), too, but the mineral delafossite is Cu(I) Fe(III)."""
    first = system.split()[0]
    delafossite = dict(further_phases(system.split()))["delafossite"]
    linear = next(site for site in delafossite if site.specie.symbol == first)
    assert len([near for near in delafossite.get_neighbors(linear, 2.6) if near.specie.symbol == "O"]) == 2


def test_what_is_not_compared_is_said() -> None:
    assert not_compared(2) == "binaries in other prototypes"
    assert "tilted perovskites" in not_compared(3) and "four" not in not_compared(3)
    assert "four and more" in not_compared(4)
