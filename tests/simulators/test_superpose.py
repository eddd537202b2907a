"""Against RDKit's GetBestRMS on the molecule without the hydrogens of carbon."""

from __future__ import annotations

import numpy as np
import pytest
from rdkit import Chem
from rdkit.Chem import rdMolAlign

from sciagent_simulators.geometry import embed
from sciagent_simulators.superpose import symmetry


def reduced(smiles, geometries):
    """The molecule with a conformer for each geometry, hydrogens of carbon removed."""
    full = Chem.AddHs(Chem.MolFromSmiles(smiles))
    for geometry in geometries:
        conformer = Chem.Conformer(full.GetNumAtoms())
        for i, position in enumerate(geometry.positions):
            conformer.SetAtomPosition(i, position.tolist())
        full.AddConformer(conformer, assignId=True)
    editable = Chem.RWMol(full)
    for atom in sorted(full.GetAtoms(), key=lambda a: -a.GetIdx()):
        if atom.GetAtomicNum() == 1 and atom.GetNeighbors()[0].GetAtomicNum() == 6:
            editable.RemoveAtom(atom.GetIdx())
    mol = editable.GetMol()
    Chem.SanitizeMol(mol)
    return mol


@pytest.mark.parametrize("smiles", ["CCCC", "OCC(C)CO", "Cc1ccccc1CCN", "CC(=O)NCC(=O)O"])
def test_distances_are_those_of_rdkit(smiles):
    alike, (geometries, *_) = symmetry(Chem.MolFromSmiles(smiles)), embed(smiles, 0, 1, 5, seed=3)
    mol = reduced(smiles, geometries)
    for i, one in enumerate(geometries):
        for j, other in enumerate(geometries[:i]):
            expected = rdMolAlign.GetBestRMS(Chem.Mol(mol), Chem.Mol(mol), i, j)
            assert alike.distance(one.positions, other.positions) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    ("smiles", "permutations"),
    [("CC(=O)[O-]", 2), ("CC(=O)O", 1), ("CC=C", 1), ("c1ccccc1", 12), ("CC(C)(C)C", 24), ("C12C3C4C1C5C2C3C45", 48)],
    ids=["acetate", "acetic acid", "propene", "benzene", "neopentane", "cubane"],
)
def test_permutations_are_those_of_the_graph(smiles, permutations):
    alike = symmetry(Chem.MolFromSmiles(smiles))
    assert len(alike.permutations) == permutations and alike.complete
    assert np.array_equal(alike.permutations[0], np.arange(len(alike.atoms)))


def test_a_mirror_image_is_not_the_same():
    """Hydrogen peroxide, twisted by 112 degrees; flat, it is its own mirror image."""
    alike = symmetry(Chem.MolFromSmiles("OO"))
    twist = np.radians(112.0)
    twisted = np.array([[0, 0, 0], [1.45, 0, 0], [-0.1, 0.96, 0], [1.55, 0.96 * np.cos(twist), 0.96 * np.sin(twist)]])
    assert alike.distance(twisted, twisted * [1, 1, -1]) > 0.5
    flat = twisted * [1, 1, 0]
    assert alike.distance(flat, flat * [1, 1, -1]) < 1e-6


def test_copies_are_permutations_over_the_rotational_symmetry_number():
    """Benzene: 12 permutations, symmetry number 12. Water counts its hydrogens: 2 and 2."""
    for smiles, copies in (("c1ccccc1", 1), ("O", 1), ("CO", 1)):
        (geometry, *_), *_ = embed(smiles, 0, 1, 1, seed=1)
        assert symmetry(Chem.MolFromSmiles(smiles)).copies(geometry.positions, 0.1) == copies
