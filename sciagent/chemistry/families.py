"""Families of molecules by scaffold, in which other drawings of a compound cannot pass for another family.

Stereoisomers, isotopologues and tautomers have keys of their own, and their rings may be drawn differently: a chiral
ring fusion, a labelled ring atom, 2-hydroxypyridine and 2-pyridone. The standard InChI without stereochemistry is the
same for all of them, since it leaves mobile hydrogens open. So the scaffold is taken from the structure that it stands
for. Tautomers by a moved C-H, such as ketone and enol, stay different.

Sources: Bemis and Murcko, J. Med. Chem. 39, 2887 (1996), scaffolds; Heller et al., J. Cheminf. 7, 23 (2015), InChI.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdinchi

from sciagent.chemistry.rdkit_log import rdkit_messages
from sciagent.chemistry.standardise import atoms_of

REMEMBERED = 1 << 14


@lru_cache(maxsize=REMEMBERED)
def family(smiles: str) -> str:
    """Returns the Murcko scaffold of a compound as SMILES, the same for its stereoisomers, isotopologues and tautomers.

    It is empty for a molecule without rings. Where RDKit cannot process the text, the text is a family of its own.
    """
    with rdkit_messages():
        mol: Any = Chem.MolFromSmiles(smiles)
        if mol is None:
            return smiles
        if not mol.GetRingInfo().NumRings():
            return ""
        try:
            return _scaffold(_plain(mol))
        except (RuntimeError, ValueError):
            return smiles


def _plain(mol: Any) -> Any:
    """Returns the molecule without isotopes and stereochemistry, as one of its tautomers."""
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
    return str(Chem.MolToSmiles(frame(mol)))
