"""One drawing for each molecule: charge-separated and hypervalent spellings are made alike, tautomers are left alone.

RDKit's own list of normalisations moves protons ("bad amide tautomer"), which gives two tautomers the same key; the
list here holds only rules that move electrons. Raise STANDARDISER_VERSION when a rule changes: it is a column of the
ledger, and old keys stay as they were.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rdkit import Chem
from rdkit.Chem.MolStandardize import rdMolStandardize

from sciagent.chemistry.rdkit_log import rdkit_messages

STANDARDISER_VERSION = "1"

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
    """Its atoms in order; RDKit's own iterator is five times slower."""
    return list(map(mol.GetAtomWithIdx, range(mol.GetNumAtoms())))


@cache
def _normaliser() -> Any:
    data = "\n".join(f"{name}\t{smirks}" for name, smirks in RULES)
    return rdMolStandardize.NormalizerFromData(data, rdMolStandardize.CleanupParameters())


@cache
def _parent_tools() -> tuple[Any, Any]:
    return rdMolStandardize.LargestFragmentChooser(preferOrganic=True), rdMolStandardize.Uncharger()


def normalise(mol: Any) -> Any:
    """The molecule with hydrogens implicit and electrons where RULES put them. Atom map numbers are dropped."""
    for atom in atoms_of(mol):
        if atom.GetAtomMapNum():
            atom.SetAtomMapNum(0)
    if not mol.HasSubstructMatch(_may_change()):
        return mol
    with rdkit_messages():
        return Chem.RemoveHs(_normaliser().normalize(mol))


@cache
def _may_change() -> Any:
    """Where a rule may match: every one of RULES has a charged atom or a nitrogen, phosphorus, arsenic or antimony with
    more than three bonds in it. Written-out hydrogens, of which some become implicit, count too."""
    crowded = ",".join(f"#{number}v{valence}" for number in (7, 15, 33, 51) for valence in range(4, 9))
    return Chem.MolFromSmarts(f"[!+0,#1,{crowded}]")


def parent(mol: Any) -> Any:
    """The largest organic fragment, neutralised by protons where it can be; quaternary nitrogen keeps its charge."""
    choose, uncharge = _parent_tools()
    with rdkit_messages():
        return normalise(uncharge.uncharge(choose.choose(mol)))
