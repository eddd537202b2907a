"""AM1-BCC charges of a molecule, from conformers without strong internal attraction.

The charges of a folded conformer with an internal hydrogen bond are biased, so the conformers are ranked by the sum of
|q_i q_j| / r_ij over pairs of atoms three bonds apart or more, with MMFF94's charges, and the lowest are taken: one for
a molecule with up to two rotatable bonds, else three, whose charges are averaged. Atoms that the molecular graph cannot
tell apart, whichever resonance structure is drawn, get the mean of their charges, and the sum is the formal charge.

Sources: Jakalian, Jack, Bayly, J. Comput. Chem. 23, 1623 (2002); the ranking of conformers: Bayly, as in OpenEye's
"ELF" selection.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.programs.ambertools import antechamber
from sciagent_simulators.starting_geometry import embed

CONFORMERS = 10  # that are embedded
STIFF = 2  # rotatable bonds up to which one conformer is enough
AVERAGED = 3  # conformers whose charges are averaged for other molecules


def am1bcc_charges(molecule: Any, folder: Path, seed: int) -> NDArray[np.float64]:
    """Returns the charges, (n,) elementary charges, of an RDKit molecule whose hydrogens are explicit.

    folder: a new one, in which AmberTools runs. seed: of the conformers.
    Raises SimulatorError as `starting_geometry.embed` and `ambertools.antechamber` do.
    """
    from rdkit import Chem
    from rdkit.Chem import rdMolDescriptors

    formal_charge = Chem.GetFormalCharge(molecule)
    geometries, _, _ = embed(molecule, formal_charge, 1, CONFORMERS, seed)
    wanted = 1 if rdMolDescriptors.CalcNumRotatableBonds(molecule) <= STIFF else AVERAGED
    order = np.argsort(interactions(molecule, geometries), kind="stable")
    folder.mkdir(parents=True)
    found = []
    for place in order[:wanted]:
        typed = antechamber(molecule, geometries[place].positions, folder / f"conformer_{place}", charges=True)
        found.append(typed.charges)
    return symmetrised(molecule, np.mean(np.array(found), axis=0))


def symmetrised(molecule: Any, charges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the charges, (n,), averaged over equivalent atoms, with the molecule's formal charge as their sum."""
    from rdkit import Chem

    classes = np.array(equivalent_atoms(molecule))
    means = np.zeros(len(charges))
    for each in np.unique(classes):
        means[classes == each] = charges[classes == each].mean()
    excess = means.sum() - Chem.GetFormalCharge(molecule)
    result: NDArray[np.float64] = means - excess / len(means)
    return result


def equivalent_atoms(molecule: Any) -> list[int]:
    """Returns a number for each atom, equal for atoms that elements and connections alone cannot tell apart.

    Bond orders and formal charges are left out, so that both oxygen atoms of a carboxylate are equivalent.
    """
    from rdkit import Chem

    graph = Chem.RWMol()
    for atom in molecule.GetAtoms():
        bare = Chem.Atom(atom.GetAtomicNum())
        bare.SetNoImplicit(True)
        graph.AddAtom(bare)
    for bond in molecule.GetBonds():
        graph.AddBond(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), Chem.BondType.SINGLE)
    plain = graph.GetMol()
    plain.UpdatePropertyCache(strict=False)
    return list(Chem.CanonicalRankAtoms(plain, breakTies=False))


def interactions(molecule: Any, geometries: list[Geometry]) -> NDArray[np.float64]:
    """Returns the sum of |q_i q_j| / r_ij (e^2/angstrom) of each conformer, over atoms three bonds apart or more.

    All are 0 for a molecule without MMFF94 parameters: then the order of the conformers stays.
    """
    from rdkit import Chem
    from rdkit.Chem import rdForceFieldHelpers

    properties = rdForceFieldHelpers.MMFFGetMoleculeProperties(molecule)
    if properties is None:
        return np.zeros(len(geometries))
    n = molecule.GetNumAtoms()
    charges = np.array([properties.GetMMFFPartialCharge(atom) for atom in range(n)])
    bonds_between = np.array(Chem.GetDistanceMatrix(molecule, force=True))
    pairs = np.triu(bonds_between >= 3)
    products = np.abs(np.outer(charges, charges))[pairs]
    sums = []
    for geometry in geometries:
        distances = np.linalg.norm(geometry.positions[:, None] - geometry.positions[None], axis=-1)
        sums.append(float((products / distances[pairs]).sum()))
    return np.array(sums)
