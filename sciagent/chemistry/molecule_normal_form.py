"""One drawing for each molecule: charge-separated and hypervalent forms become the same; tautomers stay different.

RDKit's own normalisations move protons ("bad amide tautomer"), which gives two tautomers the same key. The rules here
move only electrons. Raise STANDARDISER_VERSION when a rule changes: the version is a column of the ledger, and old keys
are kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from sciagent.chemistry.rdkit_messages import rdkit_messages

STANDARDISER_VERSION = "1"

# (name, reaction SMARTS)
RULES: tuple[tuple[str, str], ...] = (
    ("nitro", "[N,P,As,Sb;X3:1](=[O,S,Se,Te:2])=[O,S,Se,Te:3]>>[*+1:1]([*-1:2])=[*:3]"),
    ("pyridine oxide", "[n:1]=[O:2]>>[n+:1][O-:2]"),
    ("azide", "[*:1][N:2]=[N:3]#[N:4]>>[*:1][N:2]=[N+:3]=[N-:4]"),
    ("terminal azide anion", "[*:1][N-:2][N+:3]#[N+0:4]>>[*:1][N+0:2]=[N+:3]=[N-:4]"),
    ("diazo", "[*:1]=[N:2]#[N:3]>>[*:1]=[N+:2]=[N-:3]"),
    ("sulfoxide, sulfone", "[S,Se,Te;+1;X3,X4:1]([#6:3])([*:4])-[O-:2]>>[*+0:1]([*:3])([*:4])=[O+0:2]"),
    ("sulfone dication", "[S,Se,Te;+2:1]([O-:2])[O-:3]>>[*+0:1](=[O+0:2])=[O+0:3]"),
    ("phosphine oxide", "[P+;D4:1][O,S,Se,Te;-1:2]>>[P+0:1]=[*+0:2]"),
    ("1,3-separated charges", "[N,P,O,S;-1:1]-[A;+0:2]=[N,P,O,S;+1:3]>>[*+0:1]=[*:2]-[*+0:3]"),
    ("1,3-separated aromatic charges", "[N,O,S;-1:1]-[a:2]:[n;+1;!$([n]~[O-]):3]>>[*+0:1]=[*:2]:[*+0:3]"),
)


def atoms_of(mol: Any) -> list[Any]:
    """Returns the atoms in order; RDKit's own iterator is five times slower."""
    return list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))


@cache
def _normaliser() -> Any:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    data = "\n".join(f"{name}\t{smirks}" for name, smirks in RULES)
    return rdMolStandardize.NormalizerFromData(data, rdMolStandardize.CleanupParameters())


@cache
def _parent_tools() -> tuple[Any, Any]:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    return rdMolStandardize.LargestFragmentChooser(preferOrganic=True), rdMolStandardize.Uncharger()


def normalise(mol: Any) -> Any:
    """Returns the molecule with implicit hydrogens and the rules applied. Atom map numbers are removed."""
    for atom in atoms_of(mol):
        if atom.GetAtomMapNum():
            atom.SetAtomMapNum(0)
    if not mol.HasSubstructMatch(_may_change()):
        return mol
    from rdkit import Chem

    with rdkit_messages():
        return Chem.RemoveHs(_normaliser().normalize(mol))


@cache
def _may_change() -> Any:
    """Returns a pattern for molecules that a rule may change: each rule needs a charged atom, or N, P, As or Sb with
    more than three bonds. Explicit hydrogens are included, since some become implicit."""
    from rdkit import Chem

    # the atomic numbers of N, P, As and Sb, with four to eight bonds
    crowded = ",".join(f"#{number}v{valence}" for number in (7, 15, 33, 51) for valence in range(4, 9))
    return Chem.MolFromSmarts(f"[!+0,#1,{crowded}]")


def parent(mol: Any) -> Any:
    """Returns the largest organic fragment, neutralised by protons if possible; quaternary N keeps its charge."""
    chooser, uncharger = _parent_tools()
    with rdkit_messages():
        return normalise(uncharger.uncharge(chooser.choose(mol)))
