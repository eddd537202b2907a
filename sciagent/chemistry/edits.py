"""Graph edits of molecules: the moves of an evolutionary search, made for conjugated organics.

An edit is a reaction SMARTS, except for those that no SMARTS writes well (bond orders, contraction, crossover). Which
edit, where, and with what is drawn from the caller's generator in the order of the canonical SMILES, so that a seed
gives the same child everywhere. Children are sanitised, of one fragment, with the parent's charge and no new radicals;
an edit that gives anything else is tried again elsewhere.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from rdkit import Chem
from rdkit.Chem import rdChemReactions

from sciagent.chemistry.messages import rdkit_messages

MAX_HEAVY_ATOMS = 60  # of a child, unless the caller says otherwise
TRIES = 12

SUBSTITUENTS: tuple[str, ...] = (
    "F", "Cl", "Br", "O", "OC", "N", "N(C)C", "NC", "S", "SC", "C", "CC", "C(C)C", "C(F)(F)F", "C#N", "C=O", "C(C)=O",
    "C(=O)OC", "C(N)=O", "[N+](=O)[O-]", "S(C)(=O)=O", "C=C", "C#C", "OC(F)(F)F", "C=C(C#N)C#N",
)  # fmt: skip
ARYLS: tuple[str, ...] = (
    "c9ccccc9", "c9ccncc9", "c9cccnc9", "c9ccccn9", "c9cccs9", "c9ccsc9", "c9ccco9", "c9ccc[nH]9", "n9cccc9",
    "c9cnccn9", "c9nccs9", "c9ccc(N(C)C)cc9", "c9ccc(C#N)cc9",
)  # fmt: skip
_SITE = "[$([cH]),$([CX3;H1,H2]=C),$([CX2H]#C),$([nH]):1]"
_GROUP = "[a,$(C=C):1]-!@[!#1;D1,$([CX4;D2]-[D1]),$([CX2]#[ND1]),$([CX3](=O)[D1]),$([NX3](C)C),$([N+](=O)[O-])]"

TEMPLATES: dict[str, tuple[str, ...]] = {
    "aza swap": ("[c;H1;D2:1]>>[n;H0:1]", "[n;H0;D2;r6;+0:1]>>[c:1]"),
    "five-ring swap": (
        "[o;r5:1]>>[s:1]", "[s;r5:1]>>[o:1]", "[o,s;r5:1]>>[nH:1]", "[nH;r5:1]>>[o;H0:1]", "[nH;r5:1]>>[s;H0:1]",
    ),
    "ring resize": (
        "[c;H1;r6:1]:[c;H1;r6]:[c:3]>>[s;H0:1]:[c:3]", "[c;H1;r6:1]:[c;H1;r6]:[c:3]>>[o;H0:1]:[c:3]",
        "[s,o;r5;D2:1]:[c:2]>>[c:1]:c:[c:2]", "[nH;r5:1]:[c:2]>>[c;H1:1]:c:[c:2]",
    ),
    "chain swap": (
        "[CX4;H2;!R:1]>>[O;H0:1]", "[CX4;H2;!R:1]>>[N;H1:1]", "[OX2;H0;!R:1]>>[S:1]", "[OX2;H0;!R:1]>>[N;H1:1]",
        "[NX3;H1;!R:1]>>[O;H0:1]", "[CX3:1]=[OX1:2]>>[C:1]=[S:2]", "[CX3:1]=[SX1:2]>>[C:1]=[O:2]",
        "[CX3;H1;!R:1]=[C;!R:2]>>[N;H0:1]=[C:2]",
    ),
    "add substituent": tuple(f"{_SITE}>>[*:1]-{group}" for group in SUBSTITUENTS),
    "remove substituent": (f"{_GROUP}>>[*:1]",),
    "replace substituent": tuple(f"{_GROUP}>>[*:1]-{group}" for group in SUBSTITUENTS),
    "annelate": (
        "[cH:1]:[cH:2]>>[c:1]9:[c:2]cccc9", "[cH:1]:[cH:2]>>[c:1]9:[c:2]nccc9", "[cH:1]:[cH:2]>>[c:1]9:[c:2]cncc9",
        "[cH:1]:[cH:2]>>[c:1]9:[c:2]nccn9", "[cH:1]:[cH:2]>>[c:1]9:[c:2]scc9", "[cH:1]:[cH:2]>>[c:1]9:[c:2]occ9",
    ),
    "insert linker": (
        "[a,$(C=*):1]-!@[*;!#1:2]>>[*:1]/C=C/[*:2]", "[a,$(C=*):1]-!@[*;!#1:2]>>[*:1]C#C[*:2]",
        "[a:1]-!@[#6:2]>>[*:1]/C=N/[*:2]", "[a:1]-!@[#6:2]>>[*:1]/N=N/[*:2]", "[a:1]-!@[#6:2]>>[*:1]C(=O)[*:2]",
        "[#6:1]-!@[#6:2]>>[*:1]C[*:2]", "[#6:1]-!@[#6:2]>>[*:1]O[*:2]", "[a:1]-!@[#6:2]>>[*:1]N[*:2]",
    ),
    "append aryl": tuple(f"{_SITE}>>[*:1]-{aryl}" for aryl in ARYLS),
    "delete atom": ("[*:1]-[!#1;D1;+0:2]>>[*:1]",),
}  # fmt: skip
_NOT_A_CHILD = (
    "[OX2,SX2;!a]-[OX2;!a]", "[N,O,S;!a;!$(S(=O)=O)]-[F,Cl,Br,I]", "[NX3;!$(N-C=O);!a]-[NX3;!a]-[NX3;!a]",
    "[NX3]-[OX2]", "[#6]#[#6;r3,r4,r5,r6,r7]", "*=[*;r3,r4,r5,r6,r7;X2]=*", "[C;r3,r4]=[C;r3,r4]",
    "[NX3;H2,H1;!$(N-C=[O,S,N])]-[CX3;H1]=[CX3;H2]",
    "[OX2H]-[CX2,CX3;!$(C=[O,S]);!$(C=C-C=[O,N]);!$(C-,=a)]", "C=[C;R0]=[C,N]", "[N;!$([N+]-[N-])]=[N;R0]-[N;R0]=N",
    "[n;r5]1[n;r5][n;r5][n;r5][n;r5]1", "n:n:n:n", "[OX2H]-[CX4]-[OX2,NX3,SX2]", "[F,Cl,Br,I;D2]", "C#C-[N,O]",
    "[O,S;H1]-[N,O,S]",
)  # fmt: skip


def mutate(
    smiles: str,
    rng: random.Random,
    *,
    operations: Sequence[str] | None = None,
    max_heavy_atoms: int = MAX_HEAVY_ATOMS,
) -> tuple[str, str] | None:
    """A child of the molecule and the operation that made it, or None where nothing fits.

    operations: names to draw from, by default all of OPERATIONS. Raises KeyError for a name that is none.
    """
    mol = _canonical(smiles)
    if mol is None:
        return None
    with rdkit_messages():
        for _ in range(TRIES):
            name = rng.choice(operations or OPERATIONS)
            child = _templated(mol, TEMPLATES[name], rng) if name in TEMPLATES else _WRITTEN[name](mol, rng)
            text = _accepted(child, mol, max_heavy_atoms)
            if text is not None:
                return text, name
    return None


def crossover(first: str, second: str, rng: random.Random, *, max_heavy_atoms: int = MAX_HEAVY_ATOMS) -> str | None:
    """A piece of one molecule bonded to a piece of the other, or None where nothing fits.

    Molecules are cut at single bonds outside rings; one without such a bond lends itself whole, from an aromatic CH.
    """
    a, b = _canonical(first), _canonical(second)
    if a is None or b is None:
        return None
    parents = (Chem.MolToSmiles(a), Chem.MolToSmiles(b))
    with rdkit_messages():
        for _ in range(TRIES):
            left, right = _piece(a, rng), _piece(b, rng)
            if left is None or right is None:
                return None
            joined = Chem.RWMol(Chem.CombineMols(left[0], right[0]))
            joined.AddBond(left[1], left[0].GetNumAtoms() + right[1], Chem.BondType.SINGLE)
            text = _accepted(joined, a, max_heavy_atoms, charges=False)
            if text is not None and text not in parents:
                return text
    return None


def _canonical(smiles: str) -> Any:
    """The molecule with its atoms in canonical order: the same start whatever the spelling."""
    with rdkit_messages():
        mol = Chem.MolFromSmiles(smiles)
        return None if mol is None or mol.GetNumAtoms() == 0 else Chem.MolFromSmiles(Chem.MolToSmiles(mol))


@cache
def _reaction(template: str) -> Any:
    reaction = rdChemReactions.ReactionFromSmarts(template)
    reaction.Initialize()
    return reaction


@cache
def _patterns() -> tuple[Any, ...]:
    return tuple(Chem.MolFromSmarts(smarts) for smarts in _NOT_A_CHILD)


def _templated(mol: Any, templates: Sequence[str], rng: random.Random) -> Any:
    products = _reaction(rng.choice(templates)).RunReactants((mol,), maxProducts=200)
    return rng.choice(products)[0] if products else None


def _accepted(child: Any, parent: Any, max_heavy_atoms: int, *, charges: bool = True) -> str | None:
    """Canonical SMILES of a child that is a molecule anybody could want, and is not its parent."""
    if child is None:
        return None
    try:
        child = Chem.Mol(child)
        Chem.SanitizeMol(child)
        text = Chem.MolToSmiles(_trans(Chem.MolFromSmiles(Chem.MolToSmiles(child))))
        again = Chem.MolFromSmiles(text)
    except (ValueError, RuntimeError, TypeError):  # TypeError: what was written cannot be read
        return None
    if again is None or "." in text or again.GetNumHeavyAtoms() > max_heavy_atoms or text == Chem.MolToSmiles(parent):
        return None
    if charges and Chem.GetFormalCharge(again) != Chem.GetFormalCharge(parent):
        return None
    if any(atom.GetNumRadicalElectrons() for atom in again.GetAtoms()):
        return None
    if any(again.HasSubstructMatch(p) and not parent.HasSubstructMatch(p) for p in _patterns()):
        return None
    return text


def _trans(mol: Any) -> Any:
    """Double bonds of undefined geometry outside rings get their highest-ranked neighbours on opposite sides."""
    ranks = Chem.CanonicalRankAtoms(mol)
    for found in Chem.FindPotentialStereo(mol):
        if found.type != Chem.StereoType.Bond_Double or found.specified != Chem.StereoSpecified.Unspecified:
            continue
        bond = mol.GetBondWithIdx(found.centeredOn)
        ends = [
            max((n.GetIdx() for n in end.GetNeighbors() if n.GetIdx() != other.GetIdx()), key=lambda i: ranks[i])
            for end, other in (_ends(bond), _ends(bond)[::-1])
        ]
        if not bond.IsInRing():
            bond.SetStereoAtoms(*ends)
            bond.SetStereo(Chem.BondStereo.STEREOTRANS)
    return mol


def _change_bond_order(mol: Any, rng: random.Random) -> Any:
    orders = (Chem.BondType.SINGLE, Chem.BondType.DOUBLE, Chem.BondType.TRIPLE)
    changes = [
        (bond.GetIdx(), order)
        for bond in mol.GetBonds()
        for place, order in enumerate(orders, start=1)
        if bond.GetBondType() in orders
        and 0 != place - bond.GetBondTypeAsDouble() <= min(a.GetTotalNumHs() for a in _ends(bond))
    ]
    if not changes:
        return None
    child = Chem.RWMol(mol)
    index, order = rng.choice(changes)
    bond = child.GetBondWithIdx(index)
    bond.SetBondType(order)
    bond.SetStereo(Chem.BondStereo.STEREONONE)
    for atom in _ends(bond):
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)
    return child


def _ends(bond: Any) -> tuple[Any, Any]:
    return bond.GetBeginAtom(), bond.GetEndAtom()


def _contract(mol: Any, rng: random.Random) -> Any:
    """Take one atom out of a chain or a saturated ring and join its two neighbours."""
    inner = [a.GetIdx() for a in mol.GetAtoms() if a.GetDegree() == 2 and not a.GetIsAromatic()]
    if not inner:
        return None
    child = Chem.RWMol(mol)
    atom = child.GetAtomWithIdx(rng.choice(inner))
    left, right = (n.GetIdx() for n in atom.GetNeighbors())
    if child.GetBondBetweenAtoms(left, right) is not None:
        return None
    child.AddBond(left, right, Chem.BondType.SINGLE)
    child.RemoveAtom(atom.GetIdx())
    return child


def _piece(mol: Any, rng: random.Random) -> tuple[Any, int] | None:
    """One side of a cut, and the index of its open atom."""
    cuts = mol.GetSubstructMatches(Chem.MolFromSmarts("[#6,#7;!$(*#*):1]-!@[!#1;!$(*#*):2]"))
    if not cuts:
        open_atoms = [a.GetIdx() for a in mol.GetAtoms() if a.GetIsAromatic() and a.GetTotalNumHs() == 1]
        return (mol, rng.choice(open_atoms)) if open_atoms else None
    keep, drop = rng.choice(cuts)[:: rng.choice((1, -1))]
    cut = Chem.RWMol(mol)
    cut.RemoveBond(keep, drop)
    cut.GetAtomWithIdx(keep).SetIntProp("open", 1)
    for fragment in Chem.GetMolFrags(cut, asMols=True, sanitizeFrags=False):
        for atom in fragment.GetAtoms():
            if atom.HasProp("open"):
                return fragment, atom.GetIdx()
    return None


_WRITTEN: dict[str, Callable[[Any, random.Random], Any]] = {
    "change bond order": _change_bond_order,
    "contract": _contract,
}
OPERATIONS: tuple[str, ...] = (*TEMPLATES, *_WRITTEN)
