"""The parts of a molecule, such as ring systems and linkers, and the steps by which edits join and exchange them.

The steps add or remove a group, or exchange a ring, a linker or an element, at a given place; `graph_edits` checks the
results. Stereocentres that keep their neighbours keep their configuration. A new group takes the place of the hydrogen
or group that it replaces.

The tables have named substituents, rings, linkers, and edits written as reaction SMARTS.

Templates use ring closure 9, which parents do not use. `*` in a linker marks its two ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from rdkit import Chem

LinkerPath = tuple[int, tuple[int, ...], int]
"""Indices of one end, of the inner atoms, and of the other end."""
MAX_ARMS = 4  # most substituents of a ring that is replaced
MAX_ARRANGEMENTS = 24  # most children of one ring exchange


@cache
def fragment(smiles: str) -> Any:
    """Returns the molecule of a fragment; None if the text is no molecule by itself."""
    return Chem.MolFromSmiles(smiles)


@cache
def pattern(smarts: str) -> Any:
    """Returns the pattern of a SMARTS."""
    return Chem.MolFromSmarts(smarts)


def kekule(mol: Any) -> Any:
    """Returns an editable copy with explicit bond orders; hydrogens follow from the valences."""
    drawn = Chem.RWMol(mol)
    Chem.Kekulize(drawn, clearAromaticFlags=True)
    for atom in drawn.GetAtoms():
        let_hydrogens_follow(atom)
    return drawn


def let_hydrogens_follow(atom: Any) -> None:
    """Makes the number of an atom's hydrogens follow from its bonds, unless the atom is a radical."""
    if not atom.GetNumRadicalElectrons():
        atom.SetNoImplicit(False)
        atom.SetNumExplicitHs(0)


def with_loose_fragment(mol: Any, text: str) -> tuple[Any, int]:
    """Returns an editable copy with a fragment that is not bonded yet, and the index of the fragment's first atom."""
    if "*" in text or fragment(text) is not None:
        loose = kekule(fragment(text))
    else:
        loose = kekule(fragment(f"*{text}"))  # `n9cccc9`, for example, is no molecule by itself
        loose.RemoveAtom(0)
        let_hydrogens_follow(loose.GetAtomWithIdx(0))
    return Chem.RWMol(Chem.CombineMols(kekule(mol), loose)), mol.GetNumAtoms()


def without_atoms(child: Any, atoms: Iterable[int]) -> Any:
    """Removes atoms and returns the molecule."""
    for index in sorted(atoms, reverse=True):
        child.RemoveAtom(index)
    return child


def ring_systems(mol: Any) -> list[set[int]]:
    """Returns the ring systems. Rings that share an atom, as in fused, bridged and spiro rings, are one system."""
    systems: list[set[int]] = []
    for ring in mol.GetRingInfo().AtomRings():
        system = set(ring)
        for other in [known for known in systems if known & system]:
            system |= other
            systems.remove(other)
        systems.append(system)
    return sorted(systems, key=min)


def ring_arms(mol: Any, system: Collection[int]) -> tuple[list[tuple[int, int]], list[int]] | None:
    """Returns the arms of a ring system, its bonds (ring atom, outer atom) to substituents, and the single atoms on
    double bonds, such as =O, which are removed with the ring.

    Returns None if a larger group is on a double bond, or if there are more than MAX_ARMS arms.
    """
    arms = []
    removed = []
    for atom in sorted(system):
        for bond in mol.GetAtomWithIdx(atom).GetBonds():
            outer = bond.GetOtherAtom(mol.GetAtomWithIdx(atom))
            if outer.GetIdx() in system:
                continue
            if bond.GetBondType() == Chem.BondType.SINGLE:
                arms.append((atom, outer.GetIdx()))
            elif outer.GetDegree() == 1:
                removed.append(outer.GetIdx())
            else:
                return None
    return (arms, removed) if len(arms) <= MAX_ARMS else None


def connected_atoms(mol: Any, start: int, barred: int = -1) -> set[int]:
    """Returns the atoms that are connected to `start` by paths without the atom `barred`, `start` included."""
    reached = {start}
    stack = [start]
    while stack:
        for atom in mol.GetAtomWithIdx(stack.pop()).GetNeighbors():
            if atom.GetIdx() != barred and atom.GetIdx() not in reached:
                reached.add(atom.GetIdx())
                stack.append(atom.GetIdx())
    return reached


def linker_paths(mol: Any) -> list[LinkerPath]:
    """Returns the linkers as (end, inner atoms, end): first the single bonds outside rings, which have no inner atoms,
    then the chains of one to three inner atoms.

    An inner atom is in no ring. Its other substituents are single atoms, which belong to the linker.
    """
    paths = list[LinkerPath]()
    for bond in mol.GetBonds():
        is_single = bond.GetBondType() == Chem.BondType.SINGLE
        smaller_degree = min(bond.GetBeginAtom().GetDegree(), bond.GetEndAtom().GetDegree())
        if is_single and not bond.IsInRing() and smaller_degree > 1:
            paths.append((bond.GetBeginAtomIdx(), (), bond.GetEndAtomIdx()))
    for atom in mol.GetAtoms():
        paths.extend(_chains(mol, atom.GetIdx()))
    return paths


def _chains(mol: Any, start: int) -> Iterator[LinkerPath]:
    """Yields the chains from an atom to atoms of higher index, as `linker_paths` does."""
    stack: list[tuple[int, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        last = mol.GetAtomWithIdx(path[-1])
        for bond in last.GetBonds():
            neighbour = bond.GetOtherAtom(last)
            index = neighbour.GetIdx()
            if index in path or bond.IsInRing() or neighbour.GetDegree() < 2:
                continue
            inner = path[1:]
            is_counted_here = start < index  # each chain is found from both of its ends
            if inner and is_counted_here and _has_single_substituents(mol, inner, (*path, index)):
                yield start, inner, index
            if len(path) <= 3 and not neighbour.IsInRing():
                stack.append((*path, index))


def _has_single_substituents(mol: Any, inner: Sequence[int], chain: Sequence[int]) -> bool:
    """Returns whether all substituents of the inner atoms of a chain are single atoms."""
    for index in inner:
        for neighbour in mol.GetAtomWithIdx(index).GetNeighbors():
            if neighbour.GetIdx() not in chain and neighbour.GetDegree() != 1:
                return False
    return True


def add_group(mol: Any, place: int, group: str) -> Any:
    """Replaces a hydrogen by the group."""
    child, offset = with_loose_fragment(mol, group)
    child.AddBond(place, offset, Chem.BondType.SINGLE)
    return child


def replace_group(mol: Any, bearer: int, first: int, group: str = "") -> Any:
    """Replaces a group by another group, or by a hydrogen. bearer: the atom that bears it. first: its first atom."""
    if group:
        child, offset = with_loose_fragment(mol, group)
        _cut(child, bearer, first)
        child.AddBond(bearer, offset, Chem.BondType.SINGLE)
    else:
        child = kekule(mol)
        _cut(child, bearer, first)
    return without_atoms(child, connected_atoms(mol, first, bearer))


def replace_linker(mol: Any, left: int, inner: Sequence[int], right: int, linker: str, *, turned: bool) -> Any:
    """Joins two parts by a linker with ends `*` in place of the linker between them.

    left, inner, right: the place as in `linker_paths`; inner atoms are removed with their substituents. turned: whether
    the linker is used from its last end to its first.
    """
    new = fragment(linker)
    stars = [atom.GetIdx() for atom in new.GetAtoms() if atom.GetAtomicNum() == 0]
    if turned:
        stars.reverse()
    child, offset = with_loose_fragment(mol, linker)
    chain = [left, *inner, right]
    _cut(child, left, chain[1])
    _cut(child, right, chain[-2])
    if new.GetNumAtoms() == 2:  # the linker `**`, a bond
        child.AddBond(left, right, Chem.BondType.SINGLE)
    else:
        for end, star in zip((left, right), stars, strict=True):
            [bound] = new.GetAtomWithIdx(star).GetNeighbors()
            child.AddBond(end, offset + bound.GetIdx(), Chem.BondType.SINGLE)
    substituents = set[int]()
    for index in inner:
        substituents.update(neighbour.GetIdx() for neighbour in mol.GetAtomWithIdx(index).GetNeighbors())
    substituents -= {left, right}
    new_stars = [offset + star for star in stars]
    return without_atoms(child, {*inner, *substituents, *new_stars})


def replace_ring(mol: Any, system: Sequence[int], ring: str) -> Iterator[Any]:
    """Yields the molecules with another ring in place of a ring system. The distances between the arms stay the same if
    possible: para stays para.

    Yields nothing for a ring system without `ring_arms`.
    """
    arms_and_removed = ring_arms(mol, system)
    if arms_and_removed is None:
        return
    arms, removed = arms_and_removed
    distance = Chem.GetDistanceMatrix(mol)
    ring_atoms = [ring_atom for ring_atom, _ in arms]
    arm_distances = [[round(distance[a][b]) for a in ring_atoms] for b in ring_atoms]
    for places in _arrangements(fragment(ring), arm_distances):
        child, offset = with_loose_fragment(mol, ring)
        for (ring_atom, outer), place in zip(arms, places, strict=True):
            _cut(child, outer, ring_atom)
            child.AddBond(outer, offset + place, Chem.BondType.SINGLE)
        yield without_atoms(child, {*system, *removed})


def change_element(mol: Any, place: int, element: str) -> Any:
    """Changes the element of an atom. Its hydrogens follow from its bonds."""
    child = kekule(mol)
    atom = child.GetAtomWithIdx(place)
    atom.SetAtomicNum(Chem.GetPeriodicTable().GetAtomicNumber(element))
    atom.SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
    return child


def _cut(child: Any, kept: int, gone: int) -> None:
    """Removes a bond so that the next new neighbour of `kept` takes the place of `gone`.

    A chirality tag counts the neighbours in the order of their bonds, and the new bond comes last.
    """
    atom = child.GetAtomWithIdx(kept)
    neighbours = [bond.GetOtherAtomIdx(kept) for bond in atom.GetBonds()]
    if gone in neighbours:  # otherwise the bond was removed from its other end
        n_later = len(neighbours) - 1 - neighbours.index(gone)
        if n_later % 2:  # an odd permutation of the neighbours
            atom.InvertChirality()
        child.RemoveBond(kept, gone)


def _arrangements(ring: Any, arm_distances: list[list[int]]) -> list[tuple[int, ...]]:
    """Returns the arrangements of arms on a ring that change the distances between the arms least, at most
    MAX_ARRANGEMENTS.

    An arrangement is the tuple of the ring atoms that bear the arms. arm_distances: distances between the arms in the
    old ring, in bonds.
    """
    # arms are put in place of hydrogens, one after the other
    hydrogens = {atom.GetIdx(): atom.GetTotalNumHs() for atom in ring.GetAtoms() if atom.GetTotalNumHs()}
    ring_distances = Chem.GetDistanceMatrix(ring)
    best: list[tuple[int, ...]] = []
    least_change = float("inf")
    stack: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]  # (sum of changes, ring atoms of the first arms)
    while stack:
        total_change, places = stack.pop()
        if total_change > least_change:
            continue
        if len(places) == len(arm_distances):
            if total_change < least_change:
                least_change = total_change
                best = []
            best.append(places)
            continue
        wanted = arm_distances[len(places)]
        for place, n_free in hydrogens.items():
            if places.count(place) < n_free:
                added_change = 0
                for number, earlier_place in enumerate(places):
                    added_change += abs(round(ring_distances[place][earlier_place]) - wanted[number])
                stack.append((total_change + added_change, (*places, place)))
    return sorted(best)[:MAX_ARRANGEMENTS]


SUBSTITUENTS: dict[str, str] = {
    "fluoro": "F", "chloro": "Cl", "bromo": "Br", "hydroxy": "O", "methoxy": "OC", "ethoxy": "OCC", "amino": "N",
    "dimethylamino": "N(C)C", "methylamino": "NC", "sulfanyl": "S", "methylsulfanyl": "SC", "methyl": "C",
    "ethyl": "CC", "propyl": "CCC", "isopropyl": "C(C)C", "tert-butyl": "C(C)(C)C", "cyclopropyl": "C9CC9",
    "trifluoromethyl": "C(F)(F)F", "cyano": "C#N", "formyl": "C=O", "acetyl": "C(C)=O", "carboxy": "C(=O)O",
    "methoxycarbonyl": "C(=O)OC", "ethoxycarbonyl": "C(=O)OCC", "carbamoyl": "C(N)=O", "acetamido": "NC(C)=O",
    "nitro": "[N+](=O)[O-]", "methylsulfonyl": "S(C)(=O)=O", "sulfamoyl": "S(N)(=O)=O", "vinyl": "C=C",
    "ethynyl": "C#C", "trifluoromethoxy": "OC(F)(F)F", "dicyanovinyl": "C=C(C#N)C#N", "hydroxymethyl": "CO",
    "aminomethyl": "CN", "morpholino": "N9CCOCC9", "piperidino": "N9CCCCC9", "phenyl": "c9ccccc9",
}  # fmt: skip
# aryl groups; the name gives the ring and the binding atom
NAMED_ARYLS: dict[str, str] = {
    "phenyl": "c9ccccc9",
    "4-pyridyl": "c9ccncc9",
    "3-pyridyl": "c9cccnc9",
    "2-pyridyl": "c9ccccn9",
    "2-thienyl": "c9cccs9",
    "3-thienyl": "c9ccsc9",
    "2-furyl": "c9ccco9",
    "2-pyrrolyl": "c9ccc[nH]9",
    "1-pyrrolyl": "n9cccc9",
    "pyrazinyl": "c9cnccn9",
    "2-thiazolyl": "c9nccs9",
    "4-(dimethylamino)phenyl": "c9ccc(N(C)C)cc9",
    "4-cyanophenyl": "c9ccc(C#N)cc9",
}
ARYLS: tuple[str, ...] = tuple(NAMED_ARYLS.values())
NAMED_RINGS: dict[str, str] = {
    "benzene": "c1ccccc1", "pyridine": "c1ccncc1", "pyrimidine": "c1cncnc1", "pyrazine": "c1cnccn1",
    "pyridazine": "c1ccnnc1", "thiophene": "c1ccsc1", "furan": "c1ccoc1", "pyrrole": "c1cc[nH]c1",
    "imidazole": "c1c[nH]cn1", "pyrazole": "c1cn[nH]c1", "thiazole": "c1cscn1", "oxazole": "c1cocn1",
    "1,2,4-triazole": "c1nnc[nH]1", "1,3,4-oxadiazole": "c1nnco1", "cyclohexane": "C1CCCCC1",
    "cyclopentane": "C1CCCC1", "cyclobutane": "C1CCC1", "cyclopropane": "C1CC1", "piperidine": "C1CCNCC1",
    "piperazine": "C1CNCCN1", "morpholine": "C1COCCN1", "pyrrolidine": "C1CCNC1", "tetrahydropyran": "C1CCOCC1",
    "tetrahydrofuran": "C1CCOC1", "cyclohexene": "C1=CCCCC1", "2-pyrrolidinone": "O=C1CCCN1",
    "2-pyridone": "O=c1cccc[nH]1", "naphthalene": "c1ccc2ccccc2c1", "quinoline": "c1ccc2ncccc2c1",
    "quinoxaline": "c1ccc2nccnc2c1", "indole": "c1ccc2[nH]ccc2c1", "benzothiophene": "c1ccc2sccc2c1",
    "benzofuran": "c1ccc2occc2c1", "benzimidazole": "c1ccc2[nH]cnc2c1", "benzothiazole": "c1ccc2scnc2c1",
    "pyrazolo[1,5-a]pyrimidine": "c1cnc2ccnn2c1", "decalin": "C1CCC2CCCCC2C1", "tetralin": "C1CCc2ccccc2C1",
    "norbornane": "C1CC2CCC1C2",
}  # fmt: skip
RINGS: tuple[str, ...] = tuple(NAMED_RINGS.values())
LINKERS: tuple[str, ...] = (
    "**", "*C*", "*CC*", "*O*", "*N*", "*S*", "*C(=O)*", "*C(=O)N*", "*NC(=O)*", "*C(=O)O*", "*OC(=O)*", "*CO*", "*OC*",
    "*CN*", "*NC*", "*/C=C/*", "*C#C*", "*S(=O)(=O)*", "*S(=O)(=O)N*", "*NS(=O)(=O)*", "*/C=N/*", "*/N=N/*", "*CCC*",
    "*C(C)*", "*N(C)*", "*OCC*", "*CCO*",
)  # fmt: skip
# one direction of each linker; `direct bond` joins the two ends
NAMED_LINKERS: dict[str, str] = {
    "direct bond": "**", "methylene": "*C*", "ethylene": "*CC*", "propylene": "*CCC*", "ethylidene": "*C(C)*",
    "ether": "*O*", "amine": "*N*", "methylamine": "*N(C)*", "thioether": "*S*", "carbonyl": "*C(=O)*",
    "amide": "*C(=O)N*", "ester": "*C(=O)O*", "methyleneoxy": "*CO*", "ethyleneoxy": "*CCO*", "methyleneamino": "*CN*",
    "vinylene": "*/C=C/*", "ethynylene": "*C#C*", "sulfonyl": "*S(=O)(=O)*", "sulfonamide": "*S(=O)(=O)N*",
    "imine": "*/C=N/*", "azo": "*/N=N/*",
}  # fmt: skip

# sites for a group: on conjugated carbon, on saturated carbon outside CH2=, on NH
_SITE = "[$([cH]),$([CX3;H1,H2]=C),$([CX2H]#C),$([nH]):1]"
_SATURATED = "[$([CX4;H1,H2,H3]),$([NX3;H1,H2;!$(N-[!#6])]):1]"
_GROUP = "[a,$(C=C):1]-!@[!#1;D1,$([CX4;D2]-[D1]),$([CX2]#[ND1]),$([CX3](=O)[D1]),$([NX3](C)C),$([N+](=O)[O-])]"
_GROUPS_TO_ADD = tuple(SUBSTITUENTS.values())
ANNELATIONS: dict[str, tuple[str, ...]] = {
    "benzo": ("[cH:1]:[cH:2]>>[c:1]9:[c:2]cccc9",),
    "pyrido": ("[cH:1]:[cH:2]>>[c:1]9:[c:2]nccc9", "[cH:1]:[cH:2]>>[c:1]9:[c:2]cncc9"),
    "pyrazino": ("[cH:1]:[cH:2]>>[c:1]9:[c:2]nccn9",),
    "thieno": ("[cH:1]:[cH:2]>>[c:1]9:[c:2]scc9",),
    "furo": ("[cH:1]:[cH:2]>>[c:1]9:[c:2]occ9",),
}
# no chalcogen or halogen is put on a saturated atom that has one already; `graph_edits` refuses such children
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
    "add substituent": tuple(f"{_SITE}>>[*:1]-{group}" for group in _GROUPS_TO_ADD),
    "add substituent to a saturated atom": tuple(f"{_SATURATED}>>[*:1]-{group}" for group in _GROUPS_TO_ADD),
    "remove substituent": (f"{_GROUP}>>[*:1]",),
    "replace substituent": tuple(f"{_GROUP}>>[*:1]-{group}" for group in _GROUPS_TO_ADD),
    "annelate": tuple(template for templates in ANNELATIONS.values() for template in templates),
    "insert linker": (
        "[a,$(C=*):1]-!@[*;!#1:2]>>[*:1]/C=C/[*:2]", "[a,$(C=*):1]-!@[*;!#1:2]>>[*:1]C#C[*:2]",
        "[a:1]-!@[#6:2]>>[*:1]/C=N/[*:2]", "[a:1]-!@[#6:2]>>[*:1]/N=N/[*:2]", "[a:1]-!@[#6:2]>>[*:1]C(=O)[*:2]",
        "[#6:1]-!@[#6:2]>>[*:1]C[*:2]", "[#6:1]-!@[#6:2]>>[*:1]O[*:2]", "[a:1]-!@[#6:2]>>[*:1]N[*:2]",
    ),
    "append aryl": tuple(f"{_SITE}>>[*:1]-{aryl}" for aryl in ARYLS),
    "delete atom": ("[*:1]-[!#1;D1;+0:2]>>[*:1]",),
}  # fmt: skip

# motifs that a child may have only if a parent has them: unstable, explosive, strained, or not isolable
NOT_A_CHILD: tuple[str, ...] = (
    "[OX2,SX2;!a]-[OX2;!a]", "[N,O,S;!a;!$(S(=O)=O)]-[F,Cl,Br,I]", "[NX3;!$(N-C=O);!a]-[NX3;!a]-[NX3;!a]",
    "[NX3]-[OX2]", "[#6]#[#6;r3,r4,r5,r6,r7]", "*=[*;r3,r4,r5,r6,r7;X2]=*", "[C;r3,r4]=[C;r3,r4]",
    "[NX3;H2,H1;!$(N-C=[O,S,N])]-[CX3;H1]=[CX3;H2]",
    "[OX2H]-[CX2,CX3;!$(C=[O,S]);!$(C=C-C=[O,N]);!$(C-,=a)]", "C=[C;R0]=[C,N]", "[N;!$([N+]-[N-])]=[N;R0]-[N;R0]=N",
    "[n;r5]1[n;r5][n;r5][n;r5][n;r5]1", "n:n:n:n", "[OX2H]-[CX4]-[OX2,NX3,SX2]", "[F,Cl,Br,I;D2]", "C#C-[N,O]",
    "[O,S;H1]-[N,O,S]", "[CH2]=[NX2]", "[a;r3,r4]",
)  # fmt: skip
