"""Named edits make what a chemist expects of them, on molecules whose children were written down by hand."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from sciagent.chemistry.editing.join_and_exchange_molecule_parts import (
    ANNELATIONS,
    LINKERS,
    NAMED_LINKERS,
    NAMED_RINGS,
    RINGS,
)
from sciagent.chemistry.editing.mutate_and_crossover import EditLimits
from sciagent.chemistry.editing.named_edits import GROUPS, NAMED_EDITS, WHATS, children, choices, sites
from sciagent.chemistry.molecule import parse_molecule
from tests.chemistry.editing.children import canonical

PARENTS = [
    "c1ccccc1", "Cc1ccccc1", "CC(=O)Nc1ccc(OCC)cc1", "C[C@H](N)C(=O)O", "c1ccc(-c2ccncc2)cc1", "C/C=C/C(=O)OC",
    "O=C1CCCN1c1ccccc1", "C[N+](C)(C)Cc1ccccc1", "c1ccc2[nH]ccc2c1", "OC1CCCCC1", "FC(F)(F)c1ccc(S(N)(=O)=O)cc1",
    "C1CC2CCC1C2", "N#CC(C#N)=Cc1ccco1", "CN(C)CCOc1ccccc1", "CCCCCC", "CSc1nccs1", "O=[N+]([O-])c1ccc(Cl)cc1",
]  # fmt: skip

# parent, edit, what, all children: written by hand, not by the code
KNOWN = [
    ("c1ccccc1", "add substituent", "fluoro", {"Fc1ccccc1"}),
    ("c1ccccc1", "add substituent", "nitro", {"O=[N+]([O-])c1ccccc1"}),
    ("c1ccccc1", "add substituent", "4-pyridyl", {"c1ccc(cc1)-c1ccncc1"}),
    ("c1ccccc1", "add substituent", "1-pyrrolyl", {"c1ccc(cc1)-n1cccc1"}),
    ("Fc1ccccc1", "add substituent", "fluoro", {"Fc1ccccc1F", "Fc1cccc(F)c1", "Fc1ccc(F)cc1"}),
    ("c1cc[nH]c1", "add substituent", "fluoro", {"Fc1ccc[nH]1", "Fc1cc[nH]c1"}),
    ("c1cc[nH]c1", "add substituent", "methyl", {"Cc1ccc[nH]1", "Cc1cc[nH]c1", "Cn1cccc1"}),
    ("CC", "add substituent", "hydroxy", {"CCO"}),
    ("CCO", "add substituent", "hydroxy", {"OCCO"}),
    ("Cc1ccccc1", "replace substituent", "cyano", {"N#Cc1ccccc1"}),
    ("COc1ccccc1", "replace substituent", "trifluoromethyl", {"FC(F)(F)c1ccccc1", "FC(F)(F)Oc1ccccc1"}),
    ("OC(=O)c1ccccc1", "replace substituent", "carbamoyl", {"NC(=O)c1ccccc1", "NC(=O)C(=O)c1ccccc1"}),
    ("c1ccc(I)cc1", "replace substituent", "phenyl", {"c1ccc(cc1)-c1ccccc1"}),
    ("O=[N+]([O-])c1ccccc1", "replace substituent", "amino", {"Nc1ccccc1"}),
    ("Cc1ccccc1", "remove substituent", None, {"c1ccccc1"}),
    ("Cc1ccc(Cl)cc1", "remove substituent", "chloro", {"Cc1ccccc1"}),
    ("Cc1ccccc1", "remove substituent", "chloro", set()),
    ("c1ccccc1", "swap ring", "pyridine", {"c1ccncc1"}),
    ("Cc1ccccc1", "swap ring", "pyridine", {"Cc1ccccn1", "Cc1cccnc1", "Cc1ccncc1"}),
    ("Cc1ccc(F)cc1", "swap ring", "pyridine", {"Cc1ccc(F)nc1", "Cc1ccc(F)cn1"}),
    ("Cc1ccc(C)cc1", "swap ring", "pyrazine", {"Cc1cnc(C)cn1"}),
    ("CC1CCCCC1", "swap ring", "benzene", {"Cc1ccccc1"}),
    ("O=C1CCCC1", "swap ring", "benzene", {"c1ccccc1"}),
    ("C[C@H](F)c1ccccc1", "swap ring", "pyrazine", {"C[C@H](F)c1cnccn1"}),
    ("c1ccccc1", "fuse ring", "benzo", {"c1ccc2ccccc2c1"}),
    ("c1ccccc1", "fuse ring", "pyrido", {"c1ccc2ncccc2c1", "c1ccc2cnccc2c1"}),
    ("c1ccccc1", "fuse ring", "pyrazino", {"c1ccc2nccnc2c1"}),
    ("c1ccccc1", "fuse ring", "thieno", {"c1ccc2sccc2c1"}),
    ("c1ccccc1", "fuse ring", "furo", {"c1ccc2occc2c1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "ether", {"c1ccc(cc1)Oc1ccccc1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "amine", {"c1ccc(cc1)Nc1ccccc1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "carbonyl", {"O=C(c1ccccc1)c1ccccc1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "amide", {"O=C(Nc1ccccc1)c1ccccc1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "azo", {r"c1ccc(cc1)/N=N/c1ccccc1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "vinylene", {r"c1ccc(cc1)/C=C/c1ccccc1"}),
    ("c1ccc(cc1)-c1ccccc1", "insert linker", "ethynylene", {"c1ccc(cc1)C#Cc1ccccc1"}),
    ("c1ccc(cc1)-c1ccccn1", "insert linker", "ester", {"O=C(Oc1ccccn1)c1ccccc1", "O=C(Oc1ccccc1)c1ccccn1"}),
    ("c1ccc(cc1)Oc1ccccc1", "replace linker", "direct bond", {"c1ccc(cc1)-c1ccccc1"}),
    ("c1ccc(cc1)Oc1ccccc1", "replace linker", "sulfonyl", {"O=S(=O)(c1ccccc1)c1ccccc1"}),
    ("O=C(Nc1ccccc1)c1ccccc1", "replace linker", "ether", {"c1ccc(cc1)Oc1ccccc1", "O=C(Oc1ccccc1)c1ccccc1"}),
    ("c1ccccc1", "swap CH for N", None, {"c1ccncc1"}),
    ("c1ccncc1", "swap CH for N", None, {"c1cnccn1", "c1cncnc1", "c1ccnnc1"}),
    ("c1cncnc1", "swap N for CH", None, {"c1ccncc1"}),
    ("C1CCCCC1", "swap atom", "oxygen", {"C1CCOCC1"}),
    ("C1CCOCC1", "swap atom", "NH", {"C1CCNCC1", "C1NCCOC1", "C1CCONC1", "C1CNCOC1"}),
    ("c1ccoc1", "swap atom", "sulfur", {"c1ccsc1"}),
    ("c1ccsc1", "swap atom", None, {"c1ccoc1", "c1cc[nH]c1"}),
    ("CCOCC", "swap atom", "CH2", {"CCCCC"}),
]


@pytest.mark.parametrize(("parent", "edit", "what", "expected"), KNOWN)
def test_an_edit_makes_the_children_that_were_written_by_hand(parent, edit, what, expected):
    wanted = {canonical(smiles) for smiles in expected}
    made = children(parent, edit, what)
    if (parent, edit, what) == ("C1CCOCC1", "swap atom", "NH"):  # N-O and N-C-O rings are refused, and rightly so
        assert set(made) <= wanted and {canonical("C1CCNCC1"), canonical("C1NCCOC1")} <= set(made)
    else:
        assert set(made) == wanted
    assert made == sorted(set(made))


def test_every_named_edit_is_among_the_known_ones():
    assert {edit for _, edit, _, _ in KNOWN} == set(NAMED_EDITS)


@pytest.mark.parametrize("parent", PARENTS)
def test_all_children_are_molecules_with_the_charge_of_their_parent(parent):
    before, rng = parse_molecule(parent), random.Random(5)
    for edit in NAMED_EDITS:
        pairs = choices(parent, edit)
        for what, site in rng.sample(pairs, min(8, len(pairs))):
            for child in children(parent, edit, what, site.number):
                after = parse_molecule(child)
                assert (after.charge, after.multiplicity) == (before.charge, before.multiplicity)
                assert after.key != before.key and after.smiles == child


@pytest.mark.parametrize(
    ("parent", "edit", "what"),
    [
        ("c1cc[nH]c1", "add substituent", "hydroxy"),
        ("CNC", "add substituent", "chloro"),
        ("CNC", "add substituent", "nitro"),
        ("CNC", "add substituent", "carboxy"),
        ("COC", "add substituent", "chloro"),
        ("CO", "replace substituent", "hydroxy"),
        ("CNC", "add substituent", "hydroxymethyl"),
    ],
)
def test_what_one_would_not_write_down_is_not_made(parent, edit, what):
    bad = [
        Chem.MolFromSmarts(s)
        for s in ("[n,O,NX3;+0]-[F,Cl,Br,I,N,O;+0,$([N+](=O)[O-])]", "NC(=O)[OX2H]", "[OH]C[N,n]", "ClC[O,N]")
    ]
    made = children(parent, edit, what)
    assert not [child for child in made if any(Chem.MolFromSmiles(child).HasSubstructMatch(p) for p in bad)]


def test_limits_are_obeyed():
    parent = "c1ccccc1"
    assert children(parent, "add substituent", "phenyl", limits=EditLimits(max_heavy_atoms=11)) == []
    assert children(parent, "add substituent", "chloro", limits=EditLimits(elements=("H", "C", "F"))) == []
    assert children(parent, "fuse ring", "benzo", limits=EditLimits(max_rings=1)) == []


def test_what_cannot_be_asked_for_is_an_error():
    with pytest.raises(KeyError):
        children("CC", "teleport")
    with pytest.raises(KeyError):
        children("CC", "add substituent", "unobtainium")
    with pytest.raises(ValueError, match="no molecule"):
        children("C(", "add substituent")


def test_choices_tell_what_can_be_tried_where():
    pairs = choices("c1ccccc1", "add substituent")
    assert {what for what, _ in pairs} == set(GROUPS) and {s.number for _, s in pairs} == {1}
    assert choices("c1ccccc1", "remove substituent") == []
    assert [what for what, _ in choices("Cc1ccccc1", "remove substituent")] == ["methyl"]


def test_the_named_tables_are_the_tables_of_the_search():
    assert tuple(NAMED_RINGS.values()) == RINGS
    assert set(NAMED_LINKERS.values()) <= set(LINKERS)
    # `*` at both ends: canonical SMILES does not tell the directions apart
    assert set(map(canonical, NAMED_LINKERS.values())) == set(map(canonical, LINKERS))
    assert len(WHATS) == len(set(WHATS)) and set(ANNELATIONS) <= set(WHATS)


@pytest.mark.parametrize("parent", PARENTS)
def test_sites_do_not_depend_on_how_the_molecule_is_written(parent):
    mol = Chem.MolFromSmiles(parent)
    order = list(range(mol.GetNumAtoms()))
    random.Random(3).shuffle(order)
    other = Chem.MolToSmiles(Chem.RenumberAtoms(mol, order), canonical=False)
    assert sites(other) == sites(parent)
    for edit in NAMED_EDITS:
        for what, site in choices(parent, edit)[::41]:
            assert children(other, edit, what, site.number) == children(parent, edit, what, site.number)


def test_a_site_narrows_the_children_and_all_sites_together_make_all():
    parent = "Cc1ccccc1"
    by_site = {s.number: children(parent, "add substituent", "fluoro", s.number) for s in sites(parent)}
    made = {n: c for n, c in by_site.items() if c}
    assert [len(c) for c in made.values()] == [1, 1, 1, 1]
    assert sorted(c for one in made.values() for c in one) == children(parent, "add substituent", "fluoro")
    assert {s.name for s, _ in ((sites(parent)[n - 1], c) for n, c in made.items())} == {"CH3", "aromatic CH"}


def test_sites_carry_the_names_of_groups_rings_and_linkers():
    found = {(s.kind, s.name) for s in sites("CC(=O)Nc1ccc(cc1)C(=O)Oc1ccccn1")}
    assert {("substituent", "acetamido"), ("ring", "benzene"), ("ring", "pyridine"), ("linker", "ester")} <= found
