"""The smallest root mean square distance of two conformers over proper rotations and symmetries of the graph.

Hydrogens on carbon are ignored: exchanging them (as in a methyl group) gives no new conformer, and heavy atoms with
the hydrogens on heteroatoms identify a conformer. Reflections are not allowed, so gauche+ and gauche- are different.

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
    """The permutations of atoms that leave a molecular graph unchanged."""

    atoms: Indices
    """(k,), indices of the atoms that are compared."""
    permutations: Indices
    """(m, k), positions in `atoms`; the identity is the first."""
    complete: bool
    """Whether the permutations are all that exist."""

    def distance(self, positions: Array, other: Array) -> float:
        """Returns the smallest root mean square distance, angstrom. positions, other: (n, 3), all atoms."""
        return float(self.distances(positions, other).min())

    def distances(self, positions: Array, other: Array) -> Array:
        """Returns the distance for each permutation of `other`, smallest over proper rotations, (m,), angstrom."""
        a, b = positions[self.atoms], other[self.atoms]
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
        # sum |R a - b|^2 depends on the rotation R only through the trace of R times this covariance, (m, 3, 3).
        covariance = np.einsum("ki,mkj->mij", a, b[self.permutations])
        singular = np.linalg.svd(covariance, compute_uv=False)
        singular[:, 2] *= np.where(np.linalg.det(covariance) < 0, -1.0, 1.0)
        residual = (a**2).sum() + (b**2).sum() - 2 * singular.sum(axis=1)
        distances: Array = np.sqrt(np.maximum(residual, 0.0) / len(a))
        return distances

    def copies(self, positions: Array, tolerance: float) -> float:
        """Returns the number of equivalent wells of this conformer, up to a factor that all conformers share.

        It is m over the number of permutations equal to a rotation (the rotational symmetry number): pentane has
        anti-gauche twice and anti-anti once. It is 1 if not all permutations are known.
        """
        if not self.complete:
            return 1.0
        return len(self.permutations) / int((self.distances(positions, positions) < tolerance).sum())


def symmetry(mol: Any) -> Symmetry:
    """Returns the symmetry of an RDKit molecule with implicit hydrogens; atoms are numbered as in `geometry.embed`.

    Equivalence depends on element, hydrogens on carbon and neighbours, but not on formal charge and bond order: the
    oxygens of a carboxylate are equivalent.
    """
    from rdkit import Chem

    full = Chem.AddHs(mol)
    on_carbon = {
        a.GetIdx()
        for a in full.GetAtoms()
        if a.GetAtomicNum() == 1 and {n.GetAtomicNum() for n in a.GetNeighbors()} == {6}
    }
    kept = [a for a in full.GetAtoms() if a.GetIdx() not in on_carbon] or list(full.GetAtoms())
    place = {atom.GetIdx(): k for k, atom in enumerate(kept)}
    graph = Chem.RWMol()
    for atom in kept:
        copy = Chem.Atom(atom.GetAtomicNum())
        copy.SetIsotope(1 + sum(n.GetIdx() in on_carbon for n in atom.GetNeighbors()))  # label used by the matching
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
