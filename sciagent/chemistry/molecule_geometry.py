"""Adds a molecule's bonds to the coordinates that a simulation engine returned."""

from __future__ import annotations

from typing import Any

from sciagent.chemistry.molecule import Molecule

# allowed bond lengths, as multiples of the sum of covalent radii; a little wider than the engines' limits
LONGEST, SHORTEST = 1.45, 0.55


def placed(molecule: Molecule, xyz: str) -> Any | None:
    """Returns the RDKit molecule with explicit hydrogens and a conformer from XYZ text (angstrom).

    Returns None if the text is no geometry of this molecule in the order of its atoms: wrong number of atoms, other
    elements, or bond lengths that do not fit the graph.
    """
    import numpy as np
    from rdkit import Chem
    from rdkit.Chem.rdMolTransforms import GetBondLength

    mol = Chem.AddHs(molecule.mol)
    lines = xyz.splitlines()
    try:
        rows = [line.split() for line in lines[2 : 2 + int(lines[0])]]
        symbols, positions = [row[0].capitalize() for row in rows], np.array([row[1:4] for row in rows], dtype=float)
    except (IndexError, ValueError):
        return None
    if symbols != [atom.GetSymbol() for atom in mol.GetAtoms()] or positions.shape != (len(symbols), 3):
        return None
    conformer = Chem.Conformer(len(symbols))
    conformer.Set3D(True)
    conformer.SetPositions(positions)
    mol.AddConformer(conformer, assignId=True)
    radius = Chem.GetPeriodicTable().GetRcovalent
    for bond in mol.GetBonds():
        a, b = bond.GetBeginAtom(), bond.GetEndAtom()
        length = GetBondLength(mol.GetConformer(), a.GetIdx(), b.GetIdx())
        if not SHORTEST <= length / (radius(a.GetAtomicNum()) + radius(b.GetAtomicNum())) <= LONGEST:
            return None
    return mol
