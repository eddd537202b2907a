"""The graph of several cells as CHGNet defines it, with each kind of atom, bond, pair and angle only once.

The graph has pairs of neighbours, their bonds, and angles between short bonds. CHGNet's own converter makes an object
for each bond, which takes a fifth of the time of a batch of small cells. Here all cells of a batch are in one array.

Atoms, bonds and angles that no convolution can tell apart are of one kind, which is computed once.

In a crystal with symmetry most atoms, bonds and angles have the same surroundings as others. A graph network gives
these the same features and the same derivatives, whatever its weights. They are found as it sees them, by colours: each
atom, bond and angle takes a colour from what it is, then again and again one from the colours around it, until no
colour splits. Colours are random numbers of 64 bits, so two kinds share one in fewer than 1 of 1e10 batches.

Source: Weisfeiler and Leman, Nauchno-Technicheskaya Informatsia 2 (9), 12 (1968).
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
        left = self.directions[self.left]
        right = self.directions[self.right]
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
    first = first + before
    second = second + before
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


Colours = NDArray[np.uint64]
Tensor = Any
EQUAL = 1e-4
"""Lengths in angstrom, and angles in radian, that differ by less may be of one kind, and then have its mean. Atoms of
32 crystals displaced by up to so much changed energies by 3e-6 eV/atom and forces by 0.0014 eV/angstrom."""


@dataclass(frozen=True)
class Kinds:
    """The kinds of some things."""

    of: Indices
    """(things,) the kind of each."""
    example: Indices
    """(kinds,) one thing of each."""
    sizes: Indices
    """(kinds,) number of things."""

    def mean(self, values: Numbers) -> Numbers:
        """Returns (kinds,) means of (things,) values."""
        found: Numbers = np.bincount(self.of, values, len(self.sizes)) / self.sizes
        return found

    def shared(self, sums: Numbers) -> Numbers:
        """Returns (things,) the part of each in the (kinds,) sums."""
        found: Numbers = (sums / self.sizes)[self.of]
        return found


@dataclass(frozen=True)
class GraphKinds:
    """The kinds in a graph. No kind belongs to two cells."""

    atoms: Kinds
    bonds: Kinds
    pairs: Kinds
    angles: Kinds

    def owners(self, graph: BatchGraph) -> tuple[Indices, Indices]:
        """Returns the cells of the (pairs,) and (angles,) kinds."""
        pairs = self.pairs.example
        angles = graph.left[self.angles.example]
        return graph.owners[graph.first[pairs]], graph.owners[graph.first[angles]]


def kinds_of(graph: BatchGraph) -> GraphKinds:
    """Returns the coarsest kinds that a network cannot tell apart."""
    owners = graph.owners[graph.first]
    lengths = _classes(graph.lengths[graph.pair_of], owners[graph.pair_of])
    corners = _random(_classes(np.arccos(np.clip(graph.cosines, -1, 1)), owners[graph.left]), 1)
    atoms = _random(graph.numbers + 1000 * graph.owners, 2)
    bonds = _random(lengths, 3)
    n_atoms = len(atoms)
    n_bonds = len(bonds)
    left_bond = graph.bond_of[graph.left]
    found = 0
    while True:
        pairs = _mixed(_mixed(atoms[graph.first] + _mixed(bonds[graph.bond_of])) + atoms[graph.second])
        angles = _mixed(_mixed(pairs[graph.left] + corners) + pairs[graph.right])
        count = sum(len(np.unique(colours)) for colours in (atoms, bonds, angles))
        if count == found:
            break
        found = count
        atoms = _mixed(
            atoms + _colour_sums(pairs, graph.first, n_atoms) + _colour_sums(angles, graph.first[graph.left], n_atoms)
        )
        bonds = _mixed(bonds + _colour_sums(pairs, graph.bond_of, n_bonds) + _colour_sums(angles, left_bond, n_bonds))
    return GraphKinds(*(_kinds(colours) for colours in (atoms, bonds, pairs, angles)))


@dataclass(frozen=True)
class KindGraph:
    """One atom, bond, pair and angle of each kind, as tensors on the model's device."""

    numbers: Tensor
    """(atoms,) atomic numbers."""
    owners: Tensor
    """(atoms,) cell of each."""
    atom_counts: Tensor
    """(atoms,) number of each in its cell."""
    sizes: Tensor
    """(cells,) numbers of atoms of the whole cells."""
    first: Tensor
    """(pairs,) atom in the centre of each."""
    second: Tensor
    """(pairs,) its neighbour."""
    bond_of: Tensor
    """(pairs,) bond of each."""
    pair_counts: Tensor
    """(pairs,) number of each around its centre."""
    left: Tensor
    """(angles,) one bond of each."""
    right: Tensor
    """(angles,) the other bond."""
    centre: Tensor
    """(angles,) atom between them."""
    angle_counts: Tensor
    """(angles,) number of each at its left bond."""

    @classmethod
    def of(cls, graph: BatchGraph, kinds: GraphKinds, device: str) -> KindGraph:
        import torch

        atoms = kinds.atoms
        bonds = kinds.bonds
        pairs = kinds.pairs.example
        angles = kinds.angles.example
        left = graph.left[angles]
        right = graph.right[angles]
        first = atoms.of[graph.first[pairs]]
        left_bond = bonds.of[graph.bond_of[left]]
        whole = {
            "numbers": graph.numbers[atoms.example],
            "owners": graph.owners[atoms.example],
            "first": first,
            "second": atoms.of[graph.second[pairs]],
            "bond_of": bonds.of[graph.bond_of[pairs]],
            "left": left_bond,
            "right": bonds.of[graph.bond_of[right]],
            "centre": atoms.of[graph.first[left]],
        }
        real = {
            "sizes": graph.sizes,
            "atom_counts": atoms.sizes,
            "pair_counts": kinds.pairs.sizes / atoms.sizes[first],
            "angle_counts": kinds.angles.sizes / bonds.sizes[left_bond],
        }
        tensors = {name: torch.from_numpy(values.astype(np.int64)).to(device) for name, values in whole.items()}
        tensors |= {name: torch.from_numpy(values.astype(np.float32)).to(device) for name, values in real.items()}
        return cls(**tensors)

    def summed(self, features: Tensor) -> Tensor:
        """Returns (cells, width) sums of (atoms, width) features over all atoms of the cells."""
        sums = features.new_zeros(len(self.sizes), features.shape[1])
        return sums.index_add(0, self.owners, features * self.atom_counts[:, None])


def _classes(values: Numbers, owners: Indices) -> Indices:
    """Returns a number for each value; in one cell, values with steps below EQUAL between them have the same."""
    keys = values + 100.0 * owners
    order = np.argsort(keys)
    classes = np.empty(len(keys), np.int64)
    classes[order] = np.cumsum(np.diff(keys[order], prepend=-np.inf) > EQUAL)
    return classes


def _kinds(colours: Colours) -> Kinds:
    _, example, of, sizes = np.unique(colours, return_index=True, return_inverse=True, return_counts=True)
    return Kinds(of, example, sizes)


def _colour_sums(colours: Colours, rows: Indices, n: int) -> Colours:
    """Returns (n,) the sums of the colours in each row, which do not depend on their order."""
    sums = np.zeros(n, np.uint64)
    np.add.at(sums, rows, colours)
    return sums


def _random(numbers: Indices, salt: int) -> Colours:
    return _mixed(numbers.astype(np.uint64) * np.uint64(4) + np.uint64(salt))


def _mixed(colours: Colours) -> Colours:
    """Returns random numbers that depend on the given ones: the finaliser of SplitMix64 (Steele et al., 2014)."""
    colours = colours + np.uint64(0x9E3779B97F4A7C15)
    colours = (colours ^ (colours >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    colours = (colours ^ (colours >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return colours ^ (colours >> np.uint64(31))
