"""The graph of several cells as CHGNet defines it (`BatchGraph`), and its kinds of atoms, bonds, pairs and angles.

The graph has pairs of neighbours, their bonds, and angles between short bonds. CHGNet's own converter makes an object
for each bond, which takes a fifth of the time of a batch of small cells. Here all cells of a batch are in one array.

Atoms, bonds and angles that no convolution can tell apart are of one kind (`kinds_of`), which is computed once
(`KindGraph`).

In a crystal with symmetry most atoms, bonds and angles have the same surroundings as others. A graph network gives two
atoms with the same surroundings the same features and derivatives, whatever its weights; likewise two bonds or angles.
Colours find them: each atom, bond and angle takes a first colour from what it is. Then it takes a new colour from the
colours around it, again and again, until no more colours appear. Colours are random numbers of 64 bits, so two kinds
share a colour in fewer than 1 of 1e10 batches.

Source: Weisfeiler and Leman, Nauchno-Technicheskaya Informatsia 2 (9), 12 (1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.potentials.potential_base_and_registry import Numbers

Indices = NDArray[np.int64]
SAME_ATOM = 1e-8  # angstrom; at a smaller distance a neighbour in the same cell is the atom itself


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
    """(pairs,) the atom in the centre of each pair. Two neighbours are two pairs, with each of them in the centre."""
    second: Indices
    """(pairs,) the neighbour of the atom in the centre."""
    images: Indices
    """(pairs, 3) lattice vectors by which the neighbour is shifted."""
    lengths: Numbers
    """(pairs,) distances between the two atoms, angstrom."""
    directions: Numbers
    """(pairs, 3) from the centre to the neighbour, of length 1."""
    bond_of: Indices
    """(pairs,) the bond of each pair; a pair and its reverse have the same bond."""
    pair_of: Indices
    """(bonds,) one of the two pairs of each bond."""
    left: Indices
    """(angles,) one pair of each angle."""
    right: Indices
    """(angles,) the other pair, with the same centre."""

    @cached_property
    def cosines(self) -> Numbers:
        """(angles,) the cosines of the angles."""
        cosines: Numbers = np.einsum("ni,ni->n", self.directions[self.left], self.directions[self.right])
        return cosines

    def forces_and_strain_derivatives(self, by_length: Numbers, by_cosine: Numbers) -> tuple[Numbers, Numbers]:
        """Returns (atoms, 3) forces, eV/angstrom, and (cells, 3, 3) derivatives by the strain of the cell, eV.

        by_length: (bonds,) derivatives of the energy by the lengths; by_cosine: (angles,) by the cosines."""
        left = self.directions[self.left]
        right = self.directions[self.right]
        # (pairs, 3) derivatives by the vectors from centre to neighbour; a pair and its reverse take half each
        by_vector = (by_length / 2)[self.bond_of, None] * self.directions
        for one, other, pairs in ((left, right, self.left), (right, left, self.right)):
            across = other - self.cosines[:, None] * one  # the part of `other` at right angles to `one`
            by_rotation = (by_cosine / self.lengths[pairs])[:, None] * across
            by_vector += _sums(by_rotation, pairs, len(self.first))
        n_atoms = len(self.numbers)
        forces = _sums(by_vector, self.first, n_atoms) - _sums(by_vector, self.second, n_atoms)
        vectors = self.lengths[:, None] * self.directions
        pair_by_strain = vectors[:, :, None] * by_vector[:, None, :]
        owners = self.owners[self.first]
        by_strain = _sums(pair_by_strain.reshape(-1, 9), owners, len(self.sizes)).reshape(-1, 3, 3)
        return forces, by_strain


def batch_graph(batch: Sequence[Any], cutoff: float, near: float) -> BatchGraph:
    """Returns the graph of several ase.Atoms.

    cutoff: largest distance of neighbours, angstrom. near: distance below which two neighbours of an atom form angles,
    angstrom."""
    sizes = np.array([len(atoms) for atoms in batch])
    cells = [_neighbours(atoms, cutoff) for atoms in batch]
    n_pairs = [len(vectors) for _, _, _, vectors in cells]
    first_atom_of_cell = np.cumsum(sizes) - sizes
    offsets = np.repeat(first_atom_of_cell, n_pairs)
    first = np.concatenate([cell_first for cell_first, _, _, _ in cells]) + offsets
    second = np.concatenate([cell_second for _, cell_second, _, _ in cells]) + offsets
    images = np.concatenate([cell_images for _, _, cell_images, _ in cells])
    vectors = np.concatenate([cell_vectors for _, _, _, cell_vectors in cells])
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
    """Returns the pairs of neighbours in one cell: centres, neighbours, shifts and vectors.

    Centres and neighbours are (pairs,) indices of atoms. The shifts of the neighbours are (pairs, 3) lattice vectors;
    the vectors from centre to neighbour are (pairs, 3), angstrom."""
    from pymatgen.optimization.neighbors import find_points_in_spheres

    positions = np.ascontiguousarray(atoms.positions, dtype=float)
    cell = np.ascontiguousarray(atoms.cell.array, dtype=float)
    is_periodic = np.ones(3, dtype=np.int64)
    centres, neighbours, shifts, distances = find_points_in_spheres(
        positions, positions, cutoff, is_periodic, cell, SAME_ATOM
    )
    is_pair = (centres != neighbours) | (distances > SAME_ATOM)
    first = centres[is_pair]
    second = neighbours[is_pair]
    images = shifts[is_pair]
    vectors = positions[second] + images @ cell - positions[first]
    return first, second, images.astype(np.int64), vectors


def _bonds(first: Indices, second: Indices, images: Indices, n_atoms: int) -> tuple[Indices, Indices]:
    """Returns (pairs,) the bond of each pair, and (bonds,) one pair of each bond."""
    reach = int(np.abs(images).max(initial=0))

    def key(one: Indices, other: Indices, shifts: Indices) -> Indices:
        """Returns (pairs,) a number for each pair, which no other pair has."""
        number = one * n_atoms + other
        for axis in range(3):
            number = number * (2 * reach + 1) + shifts[:, axis] + reach
        return number

    bond_keys = np.minimum(key(first, second, images), key(second, first, -images))
    _, pair_of, bond_of = np.unique(bond_keys, return_index=True, return_inverse=True)
    return bond_of, pair_of


def _angles(first: Indices, is_near: NDArray[np.bool_]) -> tuple[Indices, Indices]:
    """Returns (angles,) the two pairs of each angle: any two different near pairs with one centre, in both orders."""
    near = np.flatnonzero(is_near)
    near = near[np.argsort(first[near], kind="stable")]  # near pairs, those with the same centre side by side
    centres = first[near]
    n_pairs_of_atom = np.bincount(centres, minlength=1)
    first_pair_of_atom = np.cumsum(n_pairs_of_atom) - n_pairs_of_atom  # index in `near`
    # each near pair is combined with all near pairs of its centre, itself included
    n_partners = n_pairs_of_atom[centres]
    left = np.repeat(np.arange(len(near)), n_partners)
    first_angle_of_pair = np.cumsum(n_partners) - n_partners
    partner_number = np.arange(len(left)) - np.repeat(first_angle_of_pair, n_partners)  # 0, 1, … for each pair
    right = first_pair_of_atom[centres[left]] + partner_number
    is_angle = left != right
    return near[left[is_angle]], near[right[is_angle]]


def _sums(values: Numbers, rows: Indices, n: int) -> Numbers:
    """Returns (n, columns) the sums of the values that go to each row. rows: the row of each value."""
    return np.stack([np.bincount(rows, column, n) for column in values.T], axis=1)


Colours = NDArray[np.uint64]
Tensor = Any
SAME_KIND = 1e-4
"""Lengths in angstrom, and angles in radian, that differ by less may be of one kind, which has their mean.

Displacements of atoms by up to SAME_KIND changed energies by 3e-6 eV/atom and forces by 0.0014 eV/angstrom, in 32
crystals."""


@dataclass(frozen=True)
class Kinds:
    """The kinds of the atoms of a graph, or of its bonds, pairs or angles, which are called members here."""

    kind_of: Indices
    """(members,) the kind of each member."""
    example: Indices
    """(kinds,) one member of each kind."""
    sizes: Indices
    """(kinds,) number of members of each kind."""

    def mean(self, values: Numbers) -> Numbers:
        """Returns (kinds,) the mean of the values of a kind's members. values: (members,)."""
        means: Numbers = np.bincount(self.kind_of, values, len(self.sizes)) / self.sizes
        return means

    def shared(self, sums: Numbers) -> Numbers:
        """Returns (members,) each member's equal part of the sum of its kind. sums: (kinds,)."""
        parts: Numbers = (sums / self.sizes)[self.kind_of]
        return parts


@dataclass(frozen=True)
class GraphKinds:
    """The kinds in a graph. No kind belongs to two cells."""

    atoms: Kinds
    bonds: Kinds
    pairs: Kinds
    angles: Kinds

    def owners(self, graph: BatchGraph) -> tuple[Indices, Indices]:
        """Returns (pair kinds,) the cell of each kind of pairs, and (angle kinds,) that of each kind of angles."""
        example_pairs = self.pairs.example
        example_angles = graph.left[self.angles.example]
        return graph.owners[graph.first[example_pairs]], graph.owners[graph.first[example_angles]]


def kinds_of(graph: BatchGraph) -> GraphKinds:
    """Returns the kinds of the graph: two members are of one kind if a network cannot tell them apart."""
    pair_owners = graph.owners[graph.first]
    length_classes = _classes(graph.lengths[graph.pair_of], pair_owners[graph.pair_of])
    angle_classes = _classes(np.arccos(np.clip(graph.cosines, -1, 1)), pair_owners[graph.left])
    corners = _random(angle_classes, salt=1)
    numbers_by_cell = graph.numbers + 1000 * graph.owners  # atomic numbers are below 1000, so cells stay apart
    atoms = _random(numbers_by_cell, salt=2)
    bonds = _random(length_classes, salt=3)
    n_atoms = len(atoms)
    n_bonds = len(bonds)
    centre = graph.first[graph.left]
    left_bond = graph.bond_of[graph.left]
    n_colours_before = 0
    while True:
        # colours are mixed between two additions, so that exchanged colours give another sum
        pairs = _mixed(atoms[graph.first] + _mixed(bonds[graph.bond_of]))
        pairs = _mixed(pairs + atoms[graph.second])
        angles = _mixed(pairs[graph.left] + corners)
        angles = _mixed(angles + pairs[graph.right])
        n_colours = sum(len(np.unique(colours)) for colours in (atoms, bonds, angles))
        if n_colours == n_colours_before:
            break
        n_colours_before = n_colours
        atoms = _mixed(atoms + _colour_sums(pairs, graph.first, n_atoms) + _colour_sums(angles, centre, n_atoms))
        bonds = _mixed(bonds + _colour_sums(pairs, graph.bond_of, n_bonds) + _colour_sums(angles, left_bond, n_bonds))
    return GraphKinds(atoms=_kinds(atoms), bonds=_kinds(bonds), pairs=_kinds(pairs), angles=_kinds(angles))


@dataclass(frozen=True)
class KindGraph:
    """One atom, bond, pair and angle of each kind, as tensors on the model's device."""

    numbers: Tensor
    """(atoms,) atomic numbers."""
    owners: Tensor
    """(atoms,) cell of each."""
    atom_counts: Tensor
    """(atoms,) number of atoms of each kind in its cell."""
    sizes: Tensor
    """(cells,) numbers of atoms of the whole cells."""
    first: Tensor
    """(pairs,) atom in the centre of each."""
    second: Tensor
    """(pairs,) its neighbour."""
    bond_of: Tensor
    """(pairs,) bond of each."""
    pair_counts: Tensor
    """(pairs,) number of pairs of each kind around one centre."""
    left: Tensor
    """(angles,) one bond of each."""
    right: Tensor
    """(angles,) the other bond."""
    centre: Tensor
    """(angles,) the atom between the two bonds."""
    angle_counts: Tensor
    """(angles,) number of angles of each kind at one left bond."""

    @classmethod
    def from_graph(cls, graph: BatchGraph, kinds: GraphKinds, device: str) -> KindGraph:
        """Returns the graph of the kinds, on the device `cpu` or `cuda`."""
        import torch

        atoms = kinds.atoms
        bonds = kinds.bonds
        pairs = kinds.pairs.example
        angles = kinds.angles.example
        left = graph.left[angles]
        right = graph.right[angles]
        first = atoms.kind_of[graph.first[pairs]]
        left_bond = bonds.kind_of[graph.bond_of[left]]
        integers = {
            "numbers": graph.numbers[atoms.example],
            "owners": graph.owners[atoms.example],
            "first": first,
            "second": atoms.kind_of[graph.second[pairs]],
            "bond_of": bonds.kind_of[graph.bond_of[pairs]],
            "left": left_bond,
            "right": bonds.kind_of[graph.bond_of[right]],
            "centre": atoms.kind_of[graph.first[left]],
        }
        reals = {
            "sizes": graph.sizes,
            "atom_counts": atoms.sizes,
            "pair_counts": kinds.pairs.sizes / atoms.sizes[first],
            "angle_counts": kinds.angles.sizes / bonds.sizes[left_bond],
        }
        tensors: dict[str, Tensor] = {}
        for name, indices in integers.items():
            tensors[name] = torch.from_numpy(indices.astype(np.int64)).to(device)
        for name, numbers in reals.items():
            tensors[name] = torch.from_numpy(numbers.astype(np.float32)).to(device)
        return cls(**tensors)

    def summed(self, features: Tensor) -> Tensor:
        """Returns (cells, width) sums of (atoms, width) features over all atoms of the cells."""
        sums = features.new_zeros(len(self.sizes), features.shape[1])
        return sums.index_add(0, self.owners, features * self.atom_counts[:, None])


def _classes(values: Numbers, owners: Indices) -> Indices:
    """Returns the number of the class of each value. Classes of two cells differ.

    In the sorted values of one cell a new class begins where the step to the next value exceeds SAME_KIND."""
    keys = values + 100.0 * owners  # lengths and angles are far below 100, so cells stay apart
    order = np.argsort(keys)
    begins_class = np.diff(keys[order], prepend=-np.inf) > SAME_KIND
    classes = np.empty(len(keys), np.int64)
    classes[order] = np.cumsum(begins_class)
    return classes


def _kinds(colours: Colours) -> Kinds:
    """Returns a kind for each colour."""
    _, example, kind_of, sizes = np.unique(colours, return_index=True, return_inverse=True, return_counts=True)
    return Kinds(kind_of, example, sizes)


def _colour_sums(colours: Colours, rows: Indices, n: int) -> Colours:
    """Returns (n,) the sums of the colours that go to each row. A sum does not depend on the order of the colours."""
    sums = np.zeros(n, np.uint64)
    np.add.at(sums, rows, colours)
    return sums


def _random(numbers: Indices, salt: int) -> Colours:
    """Returns a random number for each number. salt: 1 to 3; another salt gives other random numbers."""
    return _mixed(numbers.astype(np.uint64) * np.uint64(4) + np.uint64(salt))


def _mixed(colours: Colours) -> Colours:
    """Returns random numbers that depend on the given ones: the finaliser of SplitMix64 (Steele et al., 2014)."""
    colours = colours + np.uint64(0x9E3779B97F4A7C15)
    colours = (colours ^ (colours >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    colours = (colours ^ (colours >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return colours ^ (colours >> np.uint64(31))
