"""Families group prototypes, and `same` finds copies with noise but not strained or swapped ones."""

from __future__ import annotations

import numpy as np
import pytest
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystal import Crystal, crystal_from_structure
from sciagent.chemistry.crystals.family import family, same
from sciagent.chemistry.crystals.prototypes import crystal_from_shorthand

TEXTS = (
    "rocksalt: Na Cl", "perovskite: Cs Sn I", "rutile: Ti O", "quartz: Si O", "baddeleyite: Zr O", "spinel: Mg Al O",
    "olivine-phosphate: Li Fe P O", "chalcopyrite: Cu Fe S", "orthorhombic-perovskite: Ca Ti O", "corundum: Al O",
)  # fmt: skip


def noisy(crystal: Crystal, seed: int, sigma: float = 1e-3) -> Crystal:
    """The crystal with a displacement of sigma angstrom on every atom."""
    rng, structure = np.random.default_rng(seed), crystal.structure.copy()
    moves = rng.normal(size=(len(structure), 3))
    moves *= sigma / np.linalg.norm(moves, axis=1, keepdims=True)
    for site, move in enumerate(moves):
        structure.translate_sites([site], move, frac_coords=False)
    return crystal_from_structure(structure)


def strained(crystal: Crystal, kind: int) -> Crystal:
    """The crystal with 3 % more length: along one axis, in all directions, or as shear."""
    shapes = (np.diag([1.03, 1, 1]), np.eye(3) * 1.03, np.array([[1, 0.06, 0], [0, 1, 0], [0, 0, 1]]))
    lattice = Lattice(crystal.structure.lattice.matrix @ shapes[kind])
    return crystal_from_structure(Structure(lattice, crystal.structure.species, crystal.structure.frac_coords))


def test_families_ignore_elements_and_volumes() -> None:
    salts = [crystal_from_shorthand(f"rocksalt: {pair}") for pair in ("Na Cl", "Mg O", "Pb Te")]
    assert {family(salt) for salt in salts} == {"AB_cF8_225_a_b"}
    assert family(crystal_from_shorthand("zincblende: Na Cl")) != "AB_cF8_225_a_b"


@pytest.mark.parametrize("text", TEXTS)
def test_copies_with_noise_are_the_same_and_strained_ones_are_not(text: str) -> None:
    crystal = crystal_from_shorthand(text)
    assert all(same(crystal, noisy(crystal, seed)) for seed in range(3))
    assert not any(same(crystal, strained(crystal, kind)) for kind in range(3))


def test_a_swapped_cation_is_another_structure() -> None:
    spinel = crystal_from_shorthand("spinel: Mg Al O")
    structure = spinel.structure.copy()
    places = {site.specie.symbol: i for i, site in enumerate(structure)}
    structure[places["Mg"]], structure[places["Al"]] = "Al", "Mg"
    assert not same(spinel, crystal_from_structure(structure))
