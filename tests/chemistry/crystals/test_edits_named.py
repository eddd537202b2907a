"""Edits by name give the crystals that a chemist means, and a search stays within its limits."""

from __future__ import annotations

import random

import pytest
from pymatgen.core import Structure

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.edits import (
    NAMED,
    OPERATIONS,
    SHARES,
    CrystalLimits,
    children,
    choices,
    edited,
    mutate,
    places_without_voids,
)
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand, family

IODIDE = crystal_from_shorthand("perovskite: Cs Sn I")


def number(name: str, of: Crystal = IODIDE) -> int:
    return next(place.number for place in places_without_voids(of) if place.name == name)


def test_a_named_substitution_is_the_decorated_prototype() -> None:
    assert children(IODIDE, "substitute", "Rb", number("all Cs")) == [crystal_from_shorthand("perovskite: Rb Sn I")]
    assert children(IODIDE, "substitute", "Br", number("all I")) == [crystal_from_shorthand("perovskite: Cs Sn Br")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("substitute", "Rb", "all Cs"), ("tilt", "a+b-b-", "cell")),
        (("substitute", "Br", "all I"), ("strain", "longer z", "cell")),
        (("substitute", "Ge", "all Sn"), ("polar shift", "xyz", "all Cs")),
        (("substitute", "K", "all Cs"), ("substitute", "Cl", "all I")),
        (("substitute", "K", "all Cs"), ("change prototype", "ilmenite", "cell")),
    ],
)
def test_two_routes_give_one_key(first: tuple[str, str, str], second: tuple[str, str, str]) -> None:
    found = []
    for route in ((first, second), (second, first)):
        at = [IODIDE]
        for edit, what, place in route:
            at = [child for one in at for child in children(one, edit, what, number(place, one))]
        found.append({child.key for child in at})
    assert found[0] & found[1]
    assert len(found[0]) == len(found[1])


def test_every_other_tin_makes_the_ordered_double_perovskite() -> None:
    made = children(IODIDE, "substitute half", "Ge", number("all Sn"))
    ordered = next(child for child in made if child.space_group == "Fm-3m")
    assert family(ordered) == family(crystal_from_shorthand("double-perovskite: Cs Ge Sn I"))
    assert {child.formula for child in made} == {"Cs2SnGeI6"}
    assert {child.n_atoms for child in made} == {10}


def test_every_edit_that_applies_to_a_perovskite_makes_something() -> None:
    few, rng = CrystalLimits(max_sites=20), random.Random(3)
    options = {name: choices(IODIDE, name) for name in OPERATIONS}
    assert {name for name, pairs in options.items() if not pairs} == {"substitute orbit"}  # one orbit an element
    for name in options.keys() - {"substitute orbit"}:
        child = edited(IODIDE, name, None, None, rng, few)
        assert child is not None and child.n_atoms <= 20, name


def test_one_orbit_of_several_is_substituted_alone() -> None:
    olivine = crystal_from_shorthand("olivine: Mg Si O")
    made = children(olivine, "substitute orbit", "Fe", number("Mg 4a", olivine))
    assert [(child.formula, child.space_group) for child in made] == [("MgFeSiO4", "Pnma")]


def test_a_seed_gives_one_walk_and_limits_hold() -> None:
    limits = CrystalLimits(elements=("Cs", "Rb", "K", "Sn", "Ge", "Pb", "I", "Br", "Cl"), max_sites=20, max_elements=4)
    walks = []
    for _ in range(2):
        rng, at, walk = random.Random(7), IODIDE, []
        for _ in range(6):
            step = mutate(at, rng, limits=limits)
            assert step is not None
            at, name = step
            assert name in NAMED
            assert set(at.species) <= set(limits.elements or ()) and at.n_atoms <= 20 and len(set(at.species)) <= 4
            walk.append(at.key)
        walks.append(walk)
    assert walks[0] == walks[1]


def test_what_does_not_fit_gives_nothing() -> None:
    rng = random.Random(1)
    assert children(IODIDE, "substitute", "Xx", 1) == []
    assert children(IODIDE, "substitute", "Rb", number("cell")) == []
    assert children(IODIDE, "substitute", "Rb", 1, CrystalLimits(elements=("K",))) == []
    assert children(crystal_from_shorthand("fcc: Cu"), "tilt") == []
    assert edited(crystal_from_shorthand("fcc: Cu"), "remove orbit", None, None, rng) is None
    assert mutate(crystal_from_shorthand("fcc: Cu"), rng, operations=("tilt", "remove orbit", "swap orbits")) is None
    with pytest.raises(KeyError):
        children(IODIDE, "nothing")
    assert set(SHARES) == set(OPERATIONS)


def test_what_cannot_fit_is_built_once_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five sites would become ten. With an own element the doubled cell may reduce: it is built."""
    built: list[int] = []

    def count(structure: Structure, parent: Crystal, limits: CrystalLimits) -> None:
        built.append(len(structure))

    monkeypatch.setattr("sciagent.chemistry.crystals.edits.accepted", count)
    assert mutate(IODIDE, random.Random(1), operations=("substitute half",), limits=CrystalLimits(max_sites=9)) is None
    assert built == []
    tin = next(
        place.number for place in places_without_voids(IODIDE) if (place.kind, place.element) == ("element", "Sn")
    )
    assert children(IODIDE, "substitute half", "I", tin, CrystalLimits(max_sites=9)) == []
    assert len(built) == 7 and set(built) == {10}
    built.clear()
    assert mutate(IODIDE, random.Random(1), operations=("substitute",)) is None
    options = choices(IODIDE, "substitute")
    assert 12 < len(built) <= len(options), "144 draws of a few dozen substitutes"
