"""The places of a molecule that an edit may be asked for."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from sciagent.chemistry.editing.named import NAMED_EDITS, children, choices, sites

PARENTS = [
    "c1ccccc1", "Cc1ccccc1", "CC(=O)Nc1ccc(OCC)cc1", "C[C@H](N)C(=O)O", "c1ccc(-c2ccncc2)cc1", "C/C=C/C(=O)OC",
    "O=C1CCCN1c1ccccc1", "C[N+](C)(C)Cc1ccccc1", "c1ccc2[nH]ccc2c1", "OC1CCCCC1", "FC(F)(F)c1ccc(S(N)(=O)=O)cc1",
    "C1CC2CCC1C2", "N#CC(C#N)=Cc1ccco1", "CN(C)CCOc1ccccc1", "CCCCCC", "CSc1nccs1", "O=[N+]([O-])c1ccc(Cl)cc1",
]  # fmt: skip


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
