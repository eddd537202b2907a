"""Families group prototypes; relaxed cells of one structure are found. `same` is tested with `test_rewritings`."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.prototypes_and_same_structures import (
    crystal_from_shorthand,
    family,
    relaxed_distance,
    same,
)


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


def perovskite(a: float, c: float, elements: str = "Cs Ca Cl", shift: float = 0.0) -> Crystal:
    """A tetragonal perovskite with edges in angstrom. shift: of the two cations along c, in parts of it."""
    from pymatgen.core import Lattice, Structure

    first, second, anion = elements.split()
    places = [[0.5, 0.5, 0.5 + shift / 2], [0, 0, shift], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5 - shift / 2]]
    return crystal_from_structure(Structure(Lattice.tetragonal(a, c), [first, second, *[anion] * 3], places))


CUBIC = perovskite(5.4801, 5.4801)
"""As CHGNet relaxes it; the cells of the next test are those that it makes of distorted ones."""


@pytest.mark.parametrize(
    ("relaxed", "largest"), [(perovskite(5.474, 5.5), 0.0), (perovskite(5.4971, 5.4681, shift=0.012), 0.1)]
)
def test_a_distorted_cell_that_relaxes_back_is_its_parent(relaxed: Crystal, largest: float) -> None:
    distance = relaxed_distance(CUBIC, relaxed)
    assert distance is not None and 0 <= distance <= largest + 1e-9
    assert relaxed_distance(relaxed, CUBIC) == pytest.approx(distance, rel=0.01)


def test_a_strain_that_a_relaxation_leaves_is_no_other_structure() -> None:
    """CHGNet leaves it in ZrNiSn, where it costs 0.4 meV an atom."""
    parent = crystal_from_shorthand("half-Heusler: Zr Ni Sn")
    strained = parent.structure.copy()
    strained.apply_strain([0.014, 0.003, -0.014])
    assert relaxed_distance(parent, crystal_from_structure(strained)) is not None


def test_a_supercell_that_relaxes_back_is_its_parent() -> None:
    cells: Any = CUBIC.structure.copy()
    cells.make_supercell([2, 2, 2])
    cells.perturb(0.02)
    larger = crystal_from_structure(cells)
    assert larger.n_atoms == 40
    assert relaxed_distance(CUBIC, larger) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    "other",
    [
        perovskite(5.52, 5.52),  # 2 % more volume
        perovskite(5.37, 5.71),  # 6 % longer along one axis
        perovskite(5.4801, 5.4801, "Cs Ca Br"),
        perovskite(5.4801, 5.4801, "Ca Cs Cl"),
        perovskite(5.4801, 5.4801, shift=0.03),
    ],
)
def test_other_cells_stay_apart(other: Crystal) -> None:
    assert relaxed_distance(CUBIC, other) is None


def test_the_phases_of_barium_titanate_stay_apart() -> None:
    """CHGNet, trained on r2SCAN, relaxes BaTiO3 to four structures; the polar ones differ by 1 meV an atom at most."""
    from pymatgen.core import Lattice, Structure

    orthorhombic = Lattice([[3.976, 0, 0], [0, 4.075, 0.0117], [0, 0.0117, 4.075]])
    phases = (
        (Lattice.cubic(4.009), (0, 0, 0), ((0.5, 0, 0), (0, 0.5, 0), (0, 0, 0.5))),
        (Lattice.tetragonal(3.984, 4.149), (0, 0, 0.015), ((0.5, 0, -0.0284), (0, 0.5, -0.0284), (0, 0, 0.4532))),
        (orthorhombic, (0, 0.0136, 0.0136), ((0.5, -0.0222, -0.0222), (0, 0.4664, -0.017), (0, -0.017, 0.4664))),
        (
            Lattice.from_parameters(4.041, 4.041, 4.041, 89.8, 89.8, 89.8),
            (0.0119, 0.0119, 0.0119),
            ((0.4738, -0.0158, -0.0158), (-0.0158, 0.4738, -0.0158), (-0.0158, -0.0158, 0.4738)),
        ),
    )
    crystals = [
        crystal_from_structure(Structure(cell, ["Ba", "Ti", "O", "O", "O"], [(0.5, 0.5, 0.5), titanium, *oxygen]))
        for cell, titanium, oxygen in phases
    ]
    assert [relaxed_distance(*pair) for pair in combinations(crystals, 2)] == [None] * 6
    assert [relaxed_distance(crystal, crystal) for crystal in crystals] == pytest.approx([0] * 4, abs=1e-6)
