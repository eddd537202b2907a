"""Orbits and labels do not depend on the cell."""

from __future__ import annotations

import random

import pytest
from pymatgen.core import Structure

from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import expanded, symmetry_of
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand


def test_spinel_has_its_three_orbits() -> None:
    symmetry = symmetry_of(crystal_from_shorthand("spinel: Mg Al O").structure, 0.01)
    assert symmetry is not None
    assert {(o.element, o.letter, o.multiplicity, len(o.sites)) for o in symmetry.orbits} == {
        ("Mg", symmetry.orbits[0].letter, 8, 2), ("Al", symmetry.orbits[1].letter, 16, 4), ("O", "e", 32, 8),
    }  # fmt: skip
    assert symmetry.label == "AB2C4_cF56_227_a_d_e"


@pytest.mark.parametrize("text", ["spinel: Mg Al O", "perovskite: Cs Sn I", "quartz: Si O", "baddeleyite: Zr O"])
def test_the_label_is_one_for_every_origin_and_cell(text: str) -> None:
    structure, rng = crystal_from_shorthand(text).structure, random.Random(text)
    labels = set()
    for _ in range(6):
        other = structure.copy()
        other.make_supercell([[1, rng.randint(-1, 1), 0], [0, 1, rng.randint(-1, 1)], [0, 0, rng.randint(1, 2)]])
        other.translate_sites(list(range(len(other))), [rng.random() for _ in range(3)])
        sites = rng.sample(list(other), len(other))
        drawn = Structure(other.lattice, [s.specie for s in sites], [s.frac_coords for s in sites])
        found = symmetry_of(drawn, 0.01)
        assert found is not None
        labels.add(found.label)
    assert len(labels) == 1


def test_a_general_position_of_the_largest_group_has_all_its_images() -> None:
    assert len(expanded(523, (0.11, 0.23, 0.37))) == 192
    assert len(expanded(523, (0, 0, 0))) == 4
