"""Likeness does not depend on the cell, and orders crystals as a chemist would."""

from __future__ import annotations

import math

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.crystals.crystal_similarity import nearest, structure_of
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand


def test_a_copy_in_another_cell_has_the_same_fingerprint() -> None:
    salt = crystal_from_shorthand("spinel: Mg Al O")
    other = crystal_from_structure(salt.structure * (1, 2, 1))
    assert structure_of(other).counts == structure_of(salt).counts
    assert all(map(math.isclose, structure_of(other).traits, structure_of(salt).traits))


def test_related_crystals_are_nearer() -> None:
    one = crystal_from_shorthand("perovskite: Cs Sn I")
    related, farther, other = (
        crystal_from_shorthand("perovskite: Cs Pb I"),
        crystal_from_shorthand("perovskite: K Mg F"),
        crystal_from_shorthand("fcc: Cu"),
    )
    values = [nearest(one, [c]) for c in (one, related, farther, other)]
    assert values[0] == 1 and values[3] == 0
    assert values[0] > values[1] > values[2] >= values[3]
    assert nearest(one, []) is None
    assert nearest(one, [other, related]) == values[1]


def test_coordination_numbers_are_those_of_the_textbook() -> None:
    import zlib

    counts = structure_of(crystal_from_shorthand("rocksalt: Na Cl")).counts
    assert counts[zlib.crc32(b"Na/6")] == counts[zlib.crc32(b"Na")] == 12
    assert zlib.crc32(b"Ca/8") in structure_of(crystal_from_shorthand("fluorite: Ca F")).counts
