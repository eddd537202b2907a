"""Whether two conformers are the same: root mean square distance over proper rotations and the graph's symmetry.

Hydrogens on carbon are left out: what exchanges them (a methyl group) makes no new conformer, and every
conformer is recognised by its heavy atoms and the hydrogens on heteroatoms. Reflections are not allowed, so gauche+ and
gauche- are two.

Source: superposition by singular value decomposition: Kabsch, Acta Cryst. A 34, 827 (1978).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

MOST_SYMMETRIES = 2000


@dataclass(frozen=True, eq=False)
class Symmetry:
    """atoms: (k,), which count. permutations: (m, k), into `atoms`, the identity first. complete: m is all of them."""

    atoms: Indices
    permutations: Indices
    complete: bool

    def distance(self, positions: Array, other: Array) -> float:
        """Smallest root mean square distance in angstrom. positions, other: (n, 3), all atoms."""
        return float(self.distances(positions, other).min())

    def distances(self, positions: Array, other: Array) -> Array:
        """(m,), angstrom: for each permutation of `other`, over proper rotations."""
        a, b = positions[self.atoms], other[self.atoms]
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
        # of sum |R a - b|^2 only the trace of R with this (m, 3, 3) covariance depends on the rotation
        covariance = np.einsum("ki,mkj->mij", a, b[self.permutations])
        singular = np.linalg.svd(covariance, compute_uv=False)
        singular[:, 2] *= np.where(np.linalg.det(covariance) < 0, -1.0, 1.0)
        residual = (a**2).sum() + (b**2).sum() - 2 * singular.sum(axis=1)
        distances: Array = np.sqrt(np.maximum(residual, 0.0) / len(a))
        return distances

    def copies(self, positions: Array, tolerance: float) -> float:
        """How many wells of labelled atoms this conformer has, up to a factor that all conformers share.

        The permutations over those that a rotation undoes (all m over the rotational symmetry number): of pentane's
        conformers anti-gauche counts twice, anti-anti once. 1 where not all permutations are known.
        """
        if not self.complete:
            return 1.0
        return len(self.permutations) / int((self.distances(positions, positions) < tolerance).sum())


def symmetry(mol: Any) -> Symmetry:
    """The symmetry of an RDKit molecule with hydrogens implicit; atoms are numbered as `geometry.embed` numbers them.

    Atoms are alike by element, hydrogens on carbon and neighbours, not by formal charge and bond order: the oxygens of
    a carboxylate are.
    """
    from rdkit import Chem

    full = Chem.AddHs(mol)
    on_carbon = {a.GetIdx() for a in full.GetAtoms() if a.GetAtomicNum() == 1 and _only_on_carbon(a)}
    kept = [a for a in full.GetAtoms() if a.GetIdx() not in on_carbon] or list(full.GetAtoms())
    place = {atom.GetIdx(): k for k, atom in enumerate(kept)}
    graph = Chem.RWMol()
    for atom in kept:
        copy = Chem.Atom(atom.GetAtomicNum())
        copy.SetIsotope(1 + sum(n.GetIdx() in on_carbon for n in atom.GetNeighbors()))  # a label that matching heeds
        copy.SetNoImplicit(True)
        graph.AddAtom(copy)
    for bond in full.GetBonds():
        begin, end = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        if begin in place and end in place:
            graph.AddBond(place[begin], place[end], Chem.BondType.SINGLE)
    matches = graph.GetSubstructMatches(graph, uniquify=False, maxMatches=MOST_SYMMETRIES)
    return Symmetry(
        np.array(list(place), dtype=np.intp), np.array(matches, dtype=np.intp), len(matches) < MOST_SYMMETRIES
    )


def _only_on_carbon(hydrogen: Any) -> bool:
    neighbours = hydrogen.GetNeighbors()
    return bool(neighbours) and all(a.GetAtomicNum() == 6 for a in neighbours)


def principal_moments(masses: Array, positions: Array) -> Array:
    """(3,), ascending, in mass unit times angstrom squared."""
    centred = positions - masses @ positions / masses.sum()
    tensor = (
        masses[:, None, None]
        * ((centred**2).sum(axis=1)[:, None, None] * np.eye(3) - centred[:, :, None] * centred[:, None, :])
    ).sum(axis=0)
    moments: Array = np.linalg.eigvalsh(tensor)
    return moments
