"""Moves make the structures that textbooks describe."""

from __future__ import annotations

import numpy as np
import pytest

from sciagent.chemistry.crystal import crystal_from_structure
from sciagent.chemistry.crystals import edit_operations
from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import rescaled
from sciagent.chemistry.crystals.prototypes_and_same_structures import crystal_from_shorthand

IODIDE = crystal_from_shorthand("perovskite: Cs Sn I").structure


@pytest.mark.parametrize(
    ("tilt", "group"),
    [
        ("a0a0c+", "P4/mbm"),
        ("a0a0c-", "I4/mcm"),
        ("a0b-b-", "Imma"),
        ("a-a-a-", "R-3c"),
        ("a+a+a+", "Im-3"),
        ("a+b-b-", "Pnma"),
    ],
)
def test_tilts_have_the_space_groups_of_glazer(tilt: str, group: str) -> None:
    """Howard and Stokes, Acta Cryst. B 54, 782 (1998), table 1."""
    tilted = edit_operations.tilted(IODIDE, tilt)
    assert crystal_from_structure(tilted).space_group == group
    tin = next(i for i, site in enumerate(tilted) if site.specie.symbol == "Sn")
    near = sorted(site.nn_distance for site in tilted.get_neighbors(tilted[tin], 0.6 * IODIDE.lattice.a))
    assert len(near) == 6
    assert near[-1] / near[0] < 1.02  # the octahedra stay nearly regular


def test_only_cubic_perovskites_tilt() -> None:
    for text in ("rocksalt: Na Cl", "ilmenite: Fe Ti O", "tetragonal-perovskite: Pb Ti O"):
        assert edit_operations.tilted(crystal_from_shorthand(text).structure, "a0a0c+") is None


def test_a_strain_keeps_the_symmetry_that_it_can() -> None:
    groups = {
        name: crystal_from_structure(edit_operations.strained(IODIDE, name)).space_group
        for name in (*edit_operations.STRAINS, *edit_operations.SHEARS)
    }
    assert {groups[name] for name in edit_operations.STRAINS} == {"P4/mmm"}
    assert {groups[name] for name in edit_operations.SHEARS} == {"Cmmm"}


def test_a_polar_shift_is_the_same_at_every_volume() -> None:
    large = IODIDE.copy()
    large.scale_lattice(2 * IODIDE.volume)
    moved = [rescaled(edit_operations.shifted(one, [1], "z")) for one in (IODIDE, large)]
    assert np.allclose(moved[0].frac_coords, moved[1].frac_coords)
    assert crystal_from_structure(moved[0]).space_group == "P4mm"


def test_swapped_orbits_exchange_their_elements() -> None:
    spinel = crystal_from_shorthand("spinel: Mg Al O").structure
    places = {s: [i for i, site in enumerate(spinel) if site.specie.symbol == s] for s in ("Mg", "Al")}
    assert edit_operations.swapped(spinel, places["Mg"], places["Al"]).composition.reduced_formula == "Mg2AlO4"
