"""Families of molecules by scaffold or by ring system, in which no other drawing of a compound passes for another one.

Stereoisomers, isotopologues and tautomers have keys of their own, and their rings may be drawn differently: a chiral
ring fusion, a labelled ring atom, 2-hydroxypyridine and 2-pyridone. The standard InChI without stereochemistry is the
same for all of them, since it leaves mobile hydrogens open. So the scaffold is taken from the structure that it stands
for, and so are the ring systems. Tautomers by a moved C-H, such as ketone and enol, stay different.

Sources: Bemis and Murcko, J. Med. Chem. 39, 2887 (1996), scaffolds; Heller et al., J. Cheminf. 7, 23 (2015), InChI.
"""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdinchi

from sciagent.chemistry.editing.parts import ring_systems
from sciagent.chemistry.rdkit_log import rdkit_messages
from sciagent.chemistry.standardise import atoms_of

REMEMBERED_FAMILIES = 1 << 14


@lru_cache(maxsize=REMEMBERED_FAMILIES)
def family(smiles: str) -> str:
    """Returns the Murcko scaffold of a compound as SMILES, the same for its stereoisomers, isotopologues and tautomers.

    It is empty for a molecule without rings. Where RDKit cannot process the text, the text is a family of its own.
    """
    mol = _read(smiles)
    return smiles if mol is None else _scaffold(mol)


@lru_cache(maxsize=REMEMBERED_FAMILIES)
def ring_families(smiles: str) -> tuple[str, ...]:
    """Returns the ring systems of a compound, sorted: fused, bridged and spiro rings with their elements and bonds.

    Charges, hydrogens and substituents play no part, so that N-methylpyrrole has the ring of pyrrole. A molecule
    without rings has the family `""`. Where RDKit cannot process the text, the text is a family of its own.
    """
    mol = _read(smiles)
    if mol is None:
        return (smiles,)
    symbols = [atom.GetSymbol().lower() if atom.GetIsAromatic() else atom.GetSymbol() for atom in atoms_of(mol)]
    systems = {str(Chem.MolFragmentToSmiles(mol, sorted(s), atomSymbols=symbols)) for s in ring_systems(mol)}
    return tuple(sorted(systems)) or ("",)


def _read(smiles: str) -> Any:
    """Returns the molecule without isotopes and stereochemistry, as one of its tautomers; None if it cannot be read."""
    with rdkit_messages(), suppress(RuntimeError, ValueError):
        mol: Any = Chem.MolFromSmiles(smiles)
        if mol is not None:
            return _plain(mol) if mol.GetRingInfo().NumRings() else mol
    return None


def _plain(mol: Any) -> Any:
    for atom in atoms_of(mol):
        atom.SetIsotope(0)
    read: Any = rdinchi.InchiToMol(rdinchi.MolToInchi(mol, "/SNon")[0])[0]
    if read is None:  # InChI does not describe it, or RDKit cannot read what it says
        Chem.RemoveStereochemistry(mol)
        return mol
    return read


def _scaffold(mol: Any) -> str:
    from rdkit.Chem.Scaffolds import MurckoScaffold

    frame: Any = MurckoScaffold.GetScaffoldForMol
    return str(Chem.MolToSmiles(frame(mol))) if mol.GetRingInfo().NumRings() else ""
