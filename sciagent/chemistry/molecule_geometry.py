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
    from rdkit import Chem
    from rdkit.Geometry import Point3D

    atoms = _read(xyz)
    mol = Chem.AddHs(molecule.mol)
    if atoms is None or [a.GetSymbol() for a in mol.GetAtoms()] != [symbol for symbol, _ in atoms]:
        return None
    conformer = Chem.Conformer(mol.GetNumAtoms())
    conformer.Set3D(True)
    for i, (_, position) in enumerate(atoms):
        conformer.SetAtomPosition(i, Point3D(*position))
    mol.AddConformer(conformer, assignId=True)
    return mol if _bonds_fit(mol, conformer) else None


def _read(xyz: str) -> list[tuple[str, tuple[float, float, float]]] | None:
    lines = xyz.splitlines()
    try:
        n = int(lines[0])
        rows = [line.split() for line in lines[2 : 2 + n]]
        atoms = [(r[0].capitalize(), (float(r[1]), float(r[2]), float(r[3]))) for r in rows]
    except (IndexError, ValueError):
        return None
    return atoms if len(atoms) == n else None


def _bonds_fit(mol: Any, conformer: Any) -> bool:
    from rdkit import Chem

    radius = Chem.GetPeriodicTable().GetRcovalent
    for bond in mol.GetBonds():
        a, b = bond.GetBeginAtom(), bond.GetEndAtom()
        length = conformer.GetAtomPosition(a.GetIdx()).Distance(conformer.GetAtomPosition(b.GetIdx()))
        ratio = length / (radius(a.GetAtomicNum()) + radius(b.GetAtomicNum()))
        if not SHORTEST <= ratio <= LONGEST:
            return False
    return True
