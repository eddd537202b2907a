"""Places are the elements, orbits, cell and voids of a crystal."""

from __future__ import annotations

from sciagent.chemistry.crystals.edits import children, sites
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand


def test_the_places_of_a_perovskite() -> None:
    found = sites(crystal_from_shorthand("perovskite: Cs Sn I"))
    assert [place.number for place in found] == list(range(1, len(found) + 1))
    assert [(p.kind, p.element, p.multiplicity) for p in found[:7]] == [
        ("element", "Cs", 1), ("element", "I", 3), ("element", "Sn", 1),
        ("orbit", "Cs", 1), ("orbit", "Sn", 1), ("orbit", "I", 3), ("cell", "", 0),
    ]  # fmt: skip
    assert {place.kind for place in found[7:]} == {"void"}


def test_the_void_of_rhenium_trioxide_is_the_place_of_the_large_cation() -> None:
    oxide = crystal_from_shorthand("ReO3: W O")
    void = next(place for place in sites(oxide) if place.kind == "void")
    assert len(void.positions) == 1
    assert children(oxide, "fill void", "Na", void.number) == [crystal_from_shorthand("perovskite: Na W O")]
