"""The graph of a batch is that of CHGNet's own converter, cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ase.build import bulk

from sciagent_simulators.potentials.chgnet_graph_and_equivalent_atoms import BatchGraph, batch_graph


def cells() -> list[Any]:
    made = [bulk("NaCl", "rocksalt", a=5.6), bulk("Ar", "sc", a=9.0), bulk("MgO", "rocksalt", a=4.2, cubic=True)]
    made.append(bulk("Ti", "hcp", a=2.9).repeat((1, 2, 1)))
    for seed, atoms in enumerate(made):
        atoms.rattle(0.05, seed=seed)
    made[0].positions += (7.0, -11.0, 3.0)  # outside the cell
    return made


@pytest.fixture(scope="module")
def graph() -> BatchGraph:
    return batch_graph(cells(), 6.0, 3.0)


def theirs(atoms: Any) -> Any:
    from chgnet.graph import CrystalGraphConverter
    from pymatgen.core import Lattice, Structure

    converter = CrystalGraphConverter(atom_graph_cutoff=6.0, bond_graph_cutoff=3.0, on_isolated_atoms="ignore")
    positions = atoms.get_scaled_positions(wrap=False)
    return converter(Structure(Lattice(atoms.cell.array), atoms.get_chemical_symbols(), positions))


def test_pairs_and_angles_are_those_of_chgnet(graph: BatchGraph) -> None:
    first, second, images, left, right = (
        getattr(graph, name).tolist() for name in ("first", "second", "images", "left", "right")
    )
    pairs = [(i, j, *image) for i, j, image in zip(first, second, images, strict=True)]
    found, wanted, before = {pairs[k] for k in range(len(pairs))}, set(), 0
    corners, wanted_corners = {(pairs[a], pairs[b]) for a, b in zip(left, right, strict=True)}, set()
    for atoms in cells():
        own = theirs(atoms)
        rows = zip(own.atom_graph.reshape(-1, 2).tolist(), own.neighbor_image.reshape(-1, 3).tolist(), strict=True)
        named = [(i + before, j + before, *map(int, image)) for (i, j), image in rows]
        wanted |= set(named)
        wanted_corners |= {(named[row[2]], named[row[4]]) for row in own.bond_graph.reshape(-1, 5).tolist()}
        before += len(atoms)
    assert len(found) == len(pairs) and found == wanted
    assert len(corners) == len(left) and corners == wanted_corners


def test_a_pair_and_its_reverse_are_one_bond(graph: BatchGraph) -> None:
    first, second, images, bond_of, pair_of = (
        getattr(graph, name) for name in ("first", "second", "images", "bond_of", "pair_of")
    )
    assert (np.bincount(bond_of) == 2).all() and (bond_of[pair_of] == np.arange(len(pair_of))).all()
    for bond in range(0, len(pair_of), 17):
        one, other = np.flatnonzero(bond_of == bond)
        assert (first[one], second[one]) == (second[other], first[other]) and (images[one] == -images[other]).all()


def test_forces_and_strains_follow_from_lengths_and_cosines() -> None:
    rng = np.random.default_rng(5)
    atoms = cells()[2]
    graph = batch_graph([atoms], 3.5, 3.0)
    by_length, by_cosine = rng.normal(size=len(graph.pair_of)), rng.normal(size=len(graph.left))
    forces, strained = graph.forces_and_strain_derivatives(by_length, by_cosine)
    move, strain = rng.normal(size=(len(atoms), 3)), rng.normal(size=(3, 3))

    def energy(step: float) -> float:
        deformed = np.eye(3) + step * strain
        positions, cell = (atoms.positions + step * move) @ deformed, atoms.cell.array @ deformed
        vectors = positions[graph.second] + graph.images @ cell - positions[graph.first]
        lengths = np.linalg.norm(vectors, axis=1)
        left, right = vectors[graph.left], vectors[graph.right]
        cosines = (left * right).sum(1) / lengths[graph.left] / lengths[graph.right]
        return float(by_length @ lengths[graph.pair_of] + by_cosine @ cosines)

    slope = (energy(1e-6) - energy(-1e-6)) / 2e-6
    assert slope == pytest.approx((strained[0] * strain).sum() - (forces * move).sum(), rel=1e-5)
