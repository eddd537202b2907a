"""The graph of several cells as CHGNet defines it: pairs of neighbours, their bonds, and angles between short bonds.

CHGNet's own converter makes an object for each bond, which takes a fifth of the time of a batch of small cells. Here
all cells of a batch are in one array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.potentials.potential import Numbers

Indices = NDArray[np.int64]
SELF = 1e-8  # angstrom between an atom and itself


@dataclass(frozen=True)
class BatchGraph:
    """The graph of all cells of a batch. Atoms and pairs are numbered through all cells."""

    numbers: Indices
    """(atoms,) atomic numbers."""
    owners: Indices
    """(atoms,) cell of each atom."""
    sizes: Indices
    """(cells,) numbers of atoms."""
    first: Indices
    """(pairs,) the atom in the centre of each pair. Each two neighbours are two pairs."""
    second: Indices
    """(pairs,) its neighbour."""
    images: Indices
    """(pairs, 3) lattice vectors by which the neighbour is shifted."""
    lengths: Numbers
    """(pairs,) angstrom."""
    directions: Numbers
    """(pairs, 3) from the centre to the neighbour, of length 1."""
    bond_of: Indices
    """(pairs,) the bond of each pair; a pair and its reverse have one."""
    pair_of: Indices
    """(bonds,) one of the two pairs of each bond."""
    left: Indices
    """(angles,) one pair of each angle."""
    right: Indices
    """(angles,) the other pair, with the same centre."""

    @cached_property
    def cosines(self) -> Numbers:
        """(angles,) of the angles."""
        found: Numbers = np.einsum("ni,ni->n", self.directions[self.left], self.directions[self.right])
        return found

    def forces_and_strain_derivatives(self, by_length: Numbers, by_cosine: Numbers) -> tuple[Numbers, Numbers]:
        """Returns (atoms, 3) forces and (cells, 3, 3) derivatives by the strain of the cell.

        by_length: (bonds,) derivatives of the energy by the lengths; by_cosine: (angles,) by the cosines."""
        left, right = self.directions[self.left], self.directions[self.right]
        by_vector = (by_length / 2)[self.bond_of, None] * self.directions  # half for a pair, half for its reverse
        for one, other, pairs in ((left, right, self.left), (right, left, self.right)):
            turned = (by_cosine / self.lengths[pairs])[:, None] * (other - self.cosines[:, None] * one)
            by_vector += _sums(turned, pairs, len(self.first))
        n = len(self.numbers)
        forces = _sums(by_vector, self.first, n) - _sums(by_vector, self.second, n)
        strained = (self.lengths[:, None] * self.directions)[:, :, None] * by_vector[:, None, :]
        owners = self.owners[self.first]
        return forces, _sums(strained.reshape(-1, 9), owners, len(self.sizes)).reshape(-1, 3, 3)


def batch_graph(batch: Sequence[Any], cutoff: float, near: float) -> BatchGraph:
    """Returns the graph of several ase.Atoms. cutoff, near: angstrom, for pairs and for those that form angles."""
    sizes = np.array([len(atoms) for atoms in batch])
    found = [_neighbours(atoms, cutoff) for atoms in batch]
    counts = [len(vectors) for *_, vectors in found]
    before = np.repeat(np.cumsum(sizes) - sizes, counts)
    first, second, images, vectors = (np.concatenate(parts) for parts in zip(*found, strict=True))
    first, second = first + before, second + before
    lengths = np.linalg.norm(vectors, axis=1)
    bond_of, pair_of = _bonds(first, second, images, int(sizes.sum()))
    left, right = _angles(first, lengths < near)
    return BatchGraph(
        numbers=np.concatenate([atoms.numbers for atoms in batch]),
        owners=np.repeat(np.arange(len(sizes)), sizes),
        sizes=sizes,
        first=first,
        second=second,
        images=images,
        lengths=lengths,
        directions=vectors / lengths[:, None],
        bond_of=bond_of,
        pair_of=pair_of,
        left=left,
        right=right,
    )


def _neighbours(atoms: Any, cutoff: float) -> tuple[Indices, Indices, Indices, Numbers]:
    """Returns (pairs,) atoms, their neighbours, (pairs, 3) shifts of these, and (pairs, 3) vectors in angstrom."""
    from pymatgen.optimization.neighbors import find_points_in_spheres

    positions, cell = (np.ascontiguousarray(values, dtype=float) for values in (atoms.positions, atoms.cell.array))
    found = find_points_in_spheres(positions, positions, cutoff, np.ones(3, dtype=np.int64), cell, SELF)
    others = (found[0] != found[1]) | (found[3] > SELF)
    first, second, images, _ = (values[others] for values in found)
    return first, second, images.astype(np.int64), positions[second] + images @ cell - positions[first]


def _bonds(first: Indices, second: Indices, images: Indices, atoms: int) -> tuple[Indices, Indices]:
    """Returns (pairs,) the bond of each pair, and (bonds,) one of its pairs. atoms: number of atoms."""
    reach = int(np.abs(images).max(initial=0))

    def key(one: Indices, other: Indices, shifts: Indices) -> Indices:
        number = one * atoms + other
        for axis in range(3):
            number = number * (2 * reach + 1) + shifts[:, axis] + reach
        return number

    both = np.minimum(key(first, second, images), key(second, first, -images))
    _, pair_of, bond_of = np.unique(both, return_index=True, return_inverse=True)
    return bond_of, pair_of


def _angles(first: Indices, is_near: NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """Returns (angles,) the two pairs of each angle: any two different near pairs with one centre, in both orders."""
    near = np.flatnonzero(is_near)
    near = near[np.argsort(first[near], kind="stable")]
    counts = np.bincount(first[near], minlength=1)
    partners = counts[first[near]]
    left = np.repeat(np.arange(len(near)), partners)
    start = np.cumsum(counts) - counts  # of the pairs with each centre
    place = np.arange(len(left)) - np.repeat(np.cumsum(partners) - partners, partners)
    right = start[first[near[left]]] + place
    others = left != right
    return near[left[others]], near[right[others]]


def _sums(values: Numbers, rows: Indices, n: int) -> Numbers:
    """Returns (n, columns) the sums of the values in each row."""
    return np.stack([np.bincount(rows, column, n) for column in values.T], axis=1)
