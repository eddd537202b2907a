"""The stereoisomers and tautomers of a molecule, and the stereoisomer that a geometry has.

A SMILES may leave stereocentres and double bonds undefined. Each geometry is one of the stereoisomers that such a
SMILES stands for, and another one may have other values. A CXSMILES may say of its stereocentres that the substance is
a mixture (`&1`) or one unknown isomer (`o1`); the geometry is then that of the isomer as drawn.

Sources: enumeration by RDKit's `EnumerateStereoisomers` and `TautomerEnumerator`. The rules and scores of tautomers:
Sitzmann, Ihlenfeldt, Nicklaus, J. Comput.-Aided Mol. Des. 24, 521 (2010).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.domain.quantities import ComputedIsomer

MAX_ENUMERATED = 256
"""Most stereoisomers of a molecule that are made; the number of others is known only as an upper bound."""
MAX_TAUTOMERS = 256
"""Most tautomers of a molecule that are made."""
MAX_EMBEDDED = 32
"""Most stereoisomers that are tried in three dimensions, at up to 0.2 s each."""
EMBEDDING_TRIALS = 10
"""Number of trials to embed a stereoisomer; the possible ones of camphor, norborneol and steroids took 5 at most."""
LINEAR = (6, 7)  # atomic numbers of atoms at which two double bonds lie in one line
SMALL_RING = 4
"""Atoms of a ring to which no other ring can be fused trans."""
_SAMPLE = 7  # seed with which RDKit chooses among more than MAX_ENUMERATED stereoisomers


class Forms(NamedTuple):
    """Some of the stereoisomers or tautomers of a molecule."""

    smiles: tuple[str, ...]
    """Canonical SMILES, those first that are kept first."""
    possible: int
    """How many there are."""
    is_upper_bound: bool
    """Whether `possible` counts forms that may be equal to each other or impossible."""


def undefined_stereo(mol: Any) -> list[tuple[bool, int]]:
    """Returns the stereocentres and double bonds without a configuration: (whether it is a bond, index).

    Cumulated bonds, such as those of an isocyanate or an azide, have no E and Z.
    """
    from rdkit import Chem

    undefined = []
    for place in Chem.FindPotentialStereo(Chem.Mol(mol)):
        if place.specified != Chem.StereoSpecified.Unspecified:
            continue
        is_bond = place.type == Chem.StereoType.Bond_Double
        if not is_bond or not _is_cumulated(mol.GetBondWithIdx(place.centeredOn)):
            undefined.append((is_bond, int(place.centeredOn)))
    return undefined


def _is_cumulated(bond: Any) -> bool:
    """Returns whether an end of a double bond has another double bond."""
    from rdkit import Chem

    for atom in (bond.GetBeginAtom(), bond.GetEndAtom()):
        double = [each for each in atom.GetBonds() if each.GetBondType() == Chem.BondType.DOUBLE]
        if len(double) > 1 and atom.GetAtomicNum() in LINEAR:
            return True
    return False


def stereoisomers(mol: Any) -> Forms:
    """Returns the stereoisomers of a molecule whose stereo is partly undefined; the molecule alone if nothing is.

    One of each pair of mirror images comes first, in the order of their SMILES; then the mirror images. Isomers of
    bridged rings, and of others at a small ring, are left out if they cannot be embedded in three dimensions.
    """
    from rdkit import Chem
    from rdkit.Chem import EnumerateStereoisomers

    undefined = undefined_stereo(mol)
    if not undefined:
        return Forms((str(Chem.MolToSmiles(mol)),), 1, is_upper_bound=False)
    drawn = with_hydrogens_of_imines(mol, undefined)
    enumeration: Any = EnumerateStereoisomers
    options = enumeration.StereoEnumerationOptions(
        unique=True, onlyUnassigned=True, maxIsomers=MAX_ENUMERATED, rand=_SAMPLE
    )
    bound = int(enumeration.GetStereoisomerCount(Chem.Mol(drawn), options=options))
    with rdkit_messages():
        isomers = list(enumeration.EnumerateStereoisomers(Chem.Mol(drawn), options=options))
    by_smiles = {_canonical(isomer): isomer for isomer in isomers}
    if _may_be_impossible(mol, undefined) and len(by_smiles) <= MAX_EMBEDDED:
        possible_ones = {smiles: isomer for smiles, isomer in by_smiles.items() if _embeds(isomer)}
        by_smiles = possible_ones or by_smiles
    first_of_pairs = list[str]()
    mirror_images = list[str]()
    for smiles in sorted(by_smiles):
        is_mirror_image = mirror_smiles(by_smiles[smiles]) in first_of_pairs
        if is_mirror_image:
            mirror_images.append(smiles)
        else:
            first_of_pairs.append(smiles)
    is_cut = bound > MAX_ENUMERATED
    possible = bound if is_cut else len(by_smiles)
    return Forms((*first_of_pairs, *mirror_images), possible, is_upper_bound=is_cut)


def with_hydrogens_of_imines(mol: Any, undefined: Sequence[tuple[bool, int]]) -> Any:
    """Returns the molecule with the hydrogens at the ends of undefined double bonds, such as the one of C=N-H: the
    SMILES of its E and its Z isomer state that hydrogen."""
    from rdkit import Chem

    ends = []
    for is_bond, index in undefined:
        if is_bond:
            bond = mol.GetBondWithIdx(index)
            ends += [atom.GetIdx() for atom in (bond.GetBeginAtom(), bond.GetEndAtom()) if atom.GetDegree() == 1]
    return Chem.AddHs(mol, onlyOnAtoms=ends) if ends else mol


def _may_be_impossible(mol: Any, undefined: Sequence[tuple[bool, int]]) -> bool:
    """Returns whether some configurations may close no ring: in a bridged ring system, or at a ring of three or four
    atoms that is fused to another ring."""
    from rdkit.Chem.rdMolDescriptors import CalcNumBridgeheadAtoms

    if CalcNumBridgeheadAtoms(mol):
        return True
    rings = mol.GetRingInfo()
    for is_bond, index in undefined:
        if not is_bond and rings.NumAtomRings(index) > 1 and rings.MinAtomRingSize(index) <= SMALL_RING:
            return True
    return False


def _embeds(mol: Any) -> bool:
    """Returns whether a stereoisomer has a geometry in three dimensions."""
    from rdkit import Chem
    from rdkit.Chem import rdDistGeom

    parameters: Any = rdDistGeom.ETKDGv3()
    parameters.randomSeed = _SAMPLE
    parameters.maxIterations = EMBEDDING_TRIALS
    return bool(rdDistGeom.EmbedMolecule(Chem.AddHs(mol), parameters) >= 0)


def tautomers_of(mol: Any) -> Forms:
    """Returns the tautomers of a molecule: itself first, then the others by RDKit's score, the likeliest first.

    The score is a rule of thumb, not an energy. A stereocentre that takes part in no shift keeps its configuration.
    """
    from rdkit import Chem
    from rdkit.Chem.MolStandardize import rdMolStandardize

    enumerator: Any = rdMolStandardize.TautomerEnumerator()
    enumerator.SetMaxTautomers(MAX_TAUTOMERS)
    enumerator.SetRemoveSp3Stereo(False)
    enumerator.SetRemoveBondStereo(False)
    with rdkit_messages():
        result = enumerator.Enumerate(mol)
        scores = {_canonical(form): int(enumerator.ScoreTautomer(form)) for form in result}
    own = str(Chem.MolToSmiles(mol))
    others = [smiles for smiles in scores if smiles != own]
    others.sort(key=lambda smiles: (-scores[smiles], smiles))
    is_cut = result.status != rdMolStandardize.TautomerEnumeratorStatus.Completed
    return Forms((own, *others), 1 + len(others), is_upper_bound=is_cut)


def mirror_smiles(mol: Any) -> str:
    """Returns the canonical SMILES of the mirror image."""
    from rdkit import Chem

    image = Chem.Mol(mol)
    for atom in image.GetAtoms():
        atom.InvertChirality()
    return _canonical(image)


def _canonical(mol: Any) -> str:
    """Returns the canonical SMILES. The SMILES of an edited molecule is canonical only after it was read again."""
    from rdkit import Chem

    smiles = Chem.MolToSmiles(mol)
    return str(Chem.MolToSmiles(Chem.MolFromSmiles(smiles)))


_STEREO_GROUPS = re.compile(r"\|((?:(?:a|o\d+|&\d+):\d+(?:,\d+)*(?:,(?=[ao&])|(?=\|)))+)\|")
_RELATIVE_GROUP = re.compile(r"(o|&)(\d+):")
_MIXTURE = "&"


def split_stereo_groups(text: object) -> tuple[object, str]:
    """Returns the SMILES of a CXSMILES, and its enhanced stereo groups such as `|&1:1,3|`.

    The groups are empty if there are none, or if all of them are absolute. Any other text is returned as it is.
    """
    if not isinstance(text, str):
        return text, ""
    smiles, _, extension = text.strip().partition(" ")
    groups = extension.strip()
    if not _STEREO_GROUPS.fullmatch(groups):
        return text, ""
    return smiles, groups if _RELATIVE_GROUP.search(groups) else ""


def groups_note(groups: str) -> str:
    """Returns what enhanced stereo groups say of the substance; empty without groups.

    groups: as `split_stereo_groups` returns them."""
    kinds = [kind for kind, _ in _RELATIVE_GROUP.findall(groups)]
    if not kinds:
        return ""
    listed = ", ".join(
        f"{'&' if kind == _MIXTURE else 'or'}{number}" for kind, number in _RELATIVE_GROUP.findall(groups)
    )
    whole = "a mixture of stereoisomers" if _MIXTURE in kinds else "one unknown stereoisomer of several"
    return f"{whole} ({listed}), taken as drawn"


def with_stereo_groups(mol: Any, text: str) -> Any | None:
    """Returns the molecule with the enhanced stereo groups of a CXSMILES of it; None if its atoms do not match.

    mol: with or without coordinates and explicit hydrogens. Fragments of the text that `mol` lacks are left out.
    """
    from rdkit import Chem

    with rdkit_messages():
        drawn: Any = Chem.MolFromSmiles(text)
    if drawn is None:
        return None
    for fragment in Chem.GetMolFrags(drawn, asMols=True):
        match = mol.GetSubstructMatch(fragment, useChirality=True)
        if not match or fragment.GetNumHeavyAtoms() != mol.GetNumHeavyAtoms():
            continue
        grouped = Chem.RWMol(mol)
        groups = []
        for group in fragment.GetStereoGroups():
            atoms = [match[atom.GetIdx()] for atom in group.GetAtoms()]
            groups.append(Chem.CreateStereoGroup(group.GetGroupType(), grouped, atoms, readId=group.GetReadId()))
        grouped.SetStereoGroups(groups)
        return grouped.GetMol()
    return None


def cxsmiles(mol: Any) -> str:
    """Returns the canonical SMILES, with the enhanced stereo groups if they leave something open."""
    from rdkit import Chem

    kinds = {group.GetGroupType() for group in mol.GetStereoGroups()}
    if not kinds - {Chem.StereoGroupType.STEREO_ABSOLUTE}:
        return str(Chem.MolToSmiles(mol))
    fields: Any = Chem.CXSmilesFields.CX_ENHANCEDSTEREO
    return str(Chem.MolToCXSmiles(mol, Chem.SmilesWriteParams(), fields))


def isomer_of_geometry(mol: Any, positions: Sequence[Sequence[float]]) -> ComputedIsomer | None:
    """Returns the stereoisomer that a geometry has; None if the molecule leaves nothing open, if the geometry is that
    of no stereoisomer, as with a flat centre, or if it has another number of atoms.

    mol: RDKit molecule with implicit hydrogens. positions: (n, 3), angstrom, of all its atoms with hydrogens, in the
    order of `Chem.AddHs`.
    """
    from rdkit import Chem

    undefined = undefined_stereo(mol)
    if not undefined:
        return None
    placed = Chem.AddHs(mol)
    if len(positions) != placed.GetNumAtoms():
        return None
    conformer = Chem.Conformer(placed.GetNumAtoms())
    for index, (x, y, z) in enumerate(positions):
        conformer.SetAtomPosition(index, (float(x), float(y), float(z)))
    placed.AddConformer(conformer)
    with rdkit_messages():
        Chem.AssignStereochemistryFrom3D(placed)
        isomer = Chem.RemoveHs(placed)
    if undefined_stereo(isomer):
        return None
    smiles = _canonical(isomer)
    forms = stereoisomers(mol)
    if forms.possible == 1:  # as for guanidine, whose two isomers at C=N-H are one molecule
        return None
    first_of_pairs = list[str]()
    for other in forms.smiles:
        if mirror_smiles(Chem.MolFromSmiles(other)) not in first_of_pairs:
            first_of_pairs.append(other)
    return ComputedIsomer(
        smiles=smiles,
        label=_labels_of_bonds(isomer, undefined),
        possible=forms.possible,
        different=forms.possible if forms.is_upper_bound else len(first_of_pairs),
        is_upper_bound=forms.is_upper_bound,
    )


def positions_of_xyz(text: str) -> list[tuple[float, ...]]:
    """Returns the positions of the first structure of an XYZ text, angstrom. Raises ValueError for another text."""
    lines = text.splitlines()
    rows = [line.split() for line in lines[2 : 2 + int(lines[0])]]  # line 1 is a comment
    return [tuple(float(number) for number in row[1:4]) for row in rows]


def _labels_of_bonds(isomer: Any, undefined: Sequence[tuple[bool, int]]) -> str:
    """Returns the labels E or Z of the double bonds, if nothing else was undefined; else an empty text."""
    from rdkit.Chem import rdCIPLabeler

    if not all(is_bond for is_bond, _ in undefined):
        return ""
    rdCIPLabeler.AssignCIPLabels(isomer)
    labels = []
    for _, index in undefined:
        bond = isomer.GetBondWithIdx(index)
        labels.append(bond.GetProp("_CIPCode") if bond.HasProp("_CIPCode") else "?")
    return "" if "?" in labels else ", ".join(labels)


def with_open_stereo(placed: Any, mol: Any) -> Any:
    """Returns a molecule with coordinates in which the stereo that `mol` leaves undefined is marked as open, so that a
    program that reads a mol block of it does not take the configurations from the coordinates.

    placed: `mol` with explicit hydrogens and a conformer. Each such centre gets a wavy bond, and each such double bond
    is crossed, which in mol files means that it is either.
    """
    from rdkit import Chem

    marked = Chem.RWMol(placed)
    for is_bond, index in undefined_stereo(mol):
        if is_bond:
            bond = marked.GetBondWithIdx(index)
            bond.SetStereo(Chem.BondStereo.STEREOANY)
            bond.SetBondDir(Chem.BondDir.EITHERDOUBLE)
        else:
            marked.GetAtomWithIdx(index).SetChiralTag(Chem.ChiralType.CHI_UNSPECIFIED)
            _mark_wavy_bond(marked, index)
    return marked.GetMol()


def _mark_wavy_bond(mol: Any, index: int) -> None:
    """Makes a single bond wavy that begins at this atom, since a wavy bond marks the atom where it begins."""
    from rdkit import Chem

    atom = mol.GetAtomWithIdx(index)
    is_free = {Chem.BondDir.NONE, Chem.BondDir.UNKNOWN}
    bonds = [b for b in atom.GetBonds() if b.GetBondType() == Chem.BondType.SINGLE and b.GetBondDir() in is_free]
    for bond in bonds:
        if bond.GetBeginAtomIdx() == index:
            bond.SetBondDir(Chem.BondDir.UNKNOWN)
            return
    free = [bond for bond in bonds if bond.GetBondDir() == Chem.BondDir.NONE]
    if free:
        # an atom that only closes rings begins no bond: one is written from its other end
        other = free[0].GetOtherAtomIdx(index)
        mol.RemoveBond(other, index)
        mol.AddBond(index, other, Chem.BondType.SINGLE)
        mol.GetBondBetweenAtoms(index, other).SetBondDir(Chem.BondDir.UNKNOWN)
