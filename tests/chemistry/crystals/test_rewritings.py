"""Keys survive rewritings, and `same` finds near copies but no different structures of one formula."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure
from pymatgen.io.cif import CifWriter

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.bonds import is_metal
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand, prototypes, same

NAMES = [name for name in prototypes() if name not in ("garnet", "bixbyite")][:50]
SAMPLE = NAMES[::7]
IODIDES = [
    "perovskite: Cs Sn I", "perovskite: Sn Cs I", "tetragonal-perovskite: Cs Sn I", "hexagonal-perovskite: Cs Sn I",
    "ilmenite: Cs Sn I", "LiNbO3: Cs Sn I", "calcite: Cs Sn I", "orthorhombic-perovskite: Cs Sn I",
]  # fmt: skip
REWRITINGS = 20
"""Rewritings of each of the 50 structures: 1,000 in all."""


def crystal_of(name: str) -> Crystal:
    return crystal_from_shorthand(f"{name}: {prototypes()[name].example}")


def rewritten(structure: Any, rng: random.Random) -> str:
    """A CIF with eight decimals of the structure relabelled, shifted, turned, and in another cell of up to three."""
    matrix = np.zeros((3, 3))
    while not 1 <= round(np.linalg.det(matrix)) <= 3:  # a negative determinant would mirror it
        matrix = np.array([[rng.randint(-1, 2) for _ in range(3)] for _ in range(3)])
    other = structure.copy()
    other.make_supercell(matrix)
    other.translate_sites(list(range(len(other))), [rng.random() for _ in range(3)])
    sites = rng.sample(list(other), len(other))
    turned = Lattice.from_parameters(*other.lattice.parameters)
    drawn = Structure(turned, [s.specie for s in sites], [s.frac_coords for s in sites])
    return str(CifWriter(drawn, significant_figures=8))


def lost_keys(names: list[str], times: int) -> list[str]:
    lost = []
    for name in names:
        crystal, rng = crystal_of(name), random.Random(name)
        for _ in range(times):
            if read_crystal(rewritten(crystal.structure, rng)).key != crystal.key:
                lost.append(name)
    return lost


def test_rewritings_without_noise_keep_the_key() -> None:
    assert lost_keys(SAMPLE, 2) == []


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 50, 10))
def test_a_thousand_rewritings_of_fifty_structures_keep_the_key(start: int) -> None:
    assert len(NAMES) == 50
    assert lost_keys(NAMES[start : start + 10], REWRITINGS) == []


def of_one_formula(distortions: int) -> list[Crystal]:
    """Structures of CsSnI3 that differ: eight types, and random distortions of 0.2 angstrom of each."""
    rng, found = np.random.default_rng(5), list[Crystal]()
    for text in IODIDES:
        crystal = crystal_from_shorthand(text)
        found.append(crystal)
        found += [noisy(crystal, rng, 0.2) for _ in range(distortions)]
    return found


def collisions(crystals: list[Crystal]) -> list[tuple[str, str]]:
    """Pairs that `same` takes for one structure."""
    return [(a.text, b.text) for a, b in itertools.combinations(crystals, 2) if same(a, b)]


def test_structures_of_equal_formula_do_not_collide() -> None:
    crystals = of_one_formula(2)
    assert len({crystal.key for crystal in crystals}) == 24
    assert {crystal.formula for crystal in crystals} == {"CsSnI3"}
    assert collisions(crystals) == []


@pytest.mark.long
def test_two_hundred_structures_of_equal_formula_do_not_collide() -> None:
    crystals = of_one_formula(24)
    assert len({crystal.key for crystal in crystals}) == 200
    assert collisions(crystals) == []


def noisy(crystal: Crystal, rng: np.random.Generator, length: float = 1e-3) -> Crystal:
    """The crystal with a displacement of so many angstrom on every atom, in a random direction."""
    structure = crystal.structure.copy()
    moves = rng.normal(size=(len(structure), 3))
    moves *= length / np.linalg.norm(moves, axis=1, keepdims=True)
    for site, move in enumerate(moves):
        structure.translate_sites([site], move, frac_coords=False)
    return crystal_from_structure(structure)


def altered(crystal: Crystal) -> Iterator[Crystal]:
    """The crystal with 3 % of strain in three ways, and with a cation in the place of another one."""
    shapes = (np.diag([1.03, 1, 1]), np.eye(3) * 1.03, np.array([[1, 0.06, 0], [0, 1, 0], [0, 0, 1]]))
    for shape in shapes:
        lattice = Lattice(crystal.structure.lattice.matrix @ shape)
        yield crystal_from_structure(Structure(lattice, crystal.structure.species, crystal.structure.frac_coords))
    elements = sorted(set(crystal.species))
    cations = [symbol for symbol in elements if is_metal(symbol)] if len(elements) > 2 else []
    for first, second in itertools.combinations(cations, 2):
        swapped = crystal.structure.copy()
        places = [crystal.species.index(symbol) for symbol in (first, second)]
        swapped.replace(places[0], second)
        swapped.replace(places[1], first)
        yield crystal_from_structure(swapped)


def check_near_copies(names: list[str], times: int) -> None:
    found, total, wrong = 0, 0, list[str]()
    for name in names:
        crystal, rng = crystal_of(name), np.random.default_rng(len(name))
        found += sum(same(crystal, noisy(crystal, rng)) for _ in range(times))
        total += times
        wrong += [f"{name} {other.text}" for other in altered(crystal) if same(crystal, other) and crystal != other]
    assert found >= 0.95 * total, f"{found} of {total}"
    assert wrong == []


def test_near_copies_are_the_same_and_altered_ones_are_not() -> None:
    check_near_copies(SAMPLE, 2)


@pytest.mark.long
@pytest.mark.parametrize("start", range(0, 50, 10))
def test_near_copies_of_fifty_structures_are_the_same_and_altered_ones_are_not(start: int) -> None:
    check_near_copies(NAMES[start : start + 10], 6)
