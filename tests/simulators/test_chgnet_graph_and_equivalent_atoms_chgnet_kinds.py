"""Kinds are those of the symmetry, where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ase.build import bulk
from ase.spacegroup import crystal

from sciagent_simulators.potentials.chgnet_graph_and_equivalent_atoms import GraphKinds, batch_graph, kinds_of


def kinds(*cells: Any) -> GraphKinds:
    return kinds_of(batch_graph(cells, 6.0, 3.0))


def perovskite() -> Any:
    return crystal(("Sr", "Ti", "O"), [(0, 0, 0), (0.5, 0.5, 0.5), (0.5, 0.5, 0)], spacegroup=221, cellpar=[3.905] * 3)


def corundum() -> Any:
    return crystal(
        ("Al", "O"), [(0, 0, 0.3522), (0.3064, 0, 0.25)], spacegroup=167, cellpar=[4.759, 4.759, 12.991, 90, 90, 120]
    )


@pytest.mark.parametrize(
    ("atoms", "orbits"),
    [
        (bulk("MgO", "rocksalt", a=4.2, cubic=True), 2),
        (perovskite(), 3),
        (perovskite().repeat((2, 2, 1)), 3),
        (corundum(), 2),
    ],
)
def test_atoms_of_an_orbit_are_one_kind(atoms: Any, orbits: int) -> None:
    assert len(kinds(atoms).atoms.sizes) == orbits


def test_kinds_of_one_cell_do_not_depend_on_the_others() -> None:
    alone, both = kinds(perovskite()), kinds(corundum(), perovskite(), perovskite())
    assert len(both.angles.sizes) == len(kinds(corundum()).angles.sizes) + 2 * len(alone.angles.sizes)


def test_an_atom_out_of_its_place_splits_the_kinds() -> None:
    atoms = perovskite().repeat((2, 1, 1))
    atoms.positions[0, 0] += 5e-5
    assert len(kinds(atoms).atoms.sizes) == 3  # of one place, within the tolerance
    atoms.positions[0, 0] += 0.01
    assert len(kinds(atoms).atoms.sizes) == 8  # the axis of order 4 along x is left
    atoms.rattle(0.01, seed=1)
    found = kinds(atoms)
    assert len(found.atoms.sizes) == len(atoms) and (found.angles.sizes == 1).all()


def test_what_one_kind_surrounds_is_equal_for_all_its_atoms() -> None:
    graph = batch_graph([corundum()], 6.0, 3.0)
    found = kinds_of(graph)
    around = np.zeros((len(graph.numbers), len(found.pairs.sizes) + len(found.angles.sizes)), dtype=int)
    np.add.at(around, (graph.first, found.pairs.kind_of), 1)
    np.add.at(around, (graph.first[graph.left], len(found.pairs.sizes) + found.angles.kind_of), 1)
    assert (around == around[found.atoms.example][found.atoms.kind_of]).all()
