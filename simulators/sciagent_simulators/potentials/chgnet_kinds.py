"""The kinds of atoms, bonds, pairs and angles in a graph: those that no convolution can tell apart are computed once.

In a crystal with symmetry most atoms, bonds and angles have the same surroundings as others. A graph network gives
these the same features and the same derivatives, whatever its weights. They are found as it sees them, by colours: each
atom, bond and angle takes a colour from what it is, then again and again one from the colours around it, until no
colour splits. Colours are random numbers of 64 bits, so two kinds share one in fewer than 1 of 1e10 batches.

Source: Weisfeiler and Leman, Nauchno-Technicheskaya Informatsia 2 (9), 12 (1968).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.potentials.chgnet_graph import BatchGraph, Indices
from sciagent_simulators.potentials.potential import Numbers

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
        pairs, angles = self.pairs.example, graph.left[self.angles.example]
        return graph.owners[graph.first[pairs]], graph.owners[graph.first[angles]]


def kinds_of(graph: BatchGraph) -> GraphKinds:
    """Returns the coarsest kinds that a network cannot tell apart."""
    owners = graph.owners[graph.first]
    lengths = _classes(graph.lengths[graph.pair_of], owners[graph.pair_of])
    corners = _random(_classes(np.arccos(np.clip(graph.cosines, -1, 1)), owners[graph.left]), 1)
    atoms, bonds = _random(graph.numbers + 1000 * graph.owners, 2), _random(lengths, 3)
    n_atoms, n_bonds, left_bond = len(atoms), len(bonds), graph.bond_of[graph.left]
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

        atoms, bonds, pairs, angles = kinds.atoms, kinds.bonds, kinds.pairs.example, kinds.angles.example
        left, right = graph.left[angles], graph.right[angles]
        first, left_bond = atoms.of[graph.first[pairs]], bonds.of[graph.bond_of[left]]
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
