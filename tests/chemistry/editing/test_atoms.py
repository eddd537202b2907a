"""Edits of single atoms and bonds on molecules so small that all children are known."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from sciagent.chemistry.editing.atoms import (
    Edit,
    append_atom,
    change_bond_order,
    change_element,
    insert_atom,
    take_out_atom,
)


def children(edit: Edit, smiles: str, *elements: str) -> set[str | None]:
    """Every child that fifty draws make, as canonical SMILES."""
    mol, found = Chem.MolFromSmiles(smiles), set()
    for seed in range(50):
        child = edit(mol, random.Random(seed), elements)
        found.add(None if child is None else Chem.CanonSmiles(Chem.MolToSmiles(child)))
    return found


@pytest.mark.parametrize(
    ("edit", "parent", "elements", "expected"),
    [
        (append_atom, "C", ("O",), {"CO", "C=O", None}),
        (append_atom, "FC(F)(F)F", ("O",), {None}),
        (insert_atom, "CC", ("O",), {"COC"}),
        (insert_atom, "C1CC1", ("N",), {"C1CNC1"}),
        (take_out_atom, "COC", (), {"CC", "CO"}),
        (take_out_atom, "C", (), {None}),
        (change_element, "CF", ("Cl",), {"CCl", "FCl"}),
        (change_element, "C", ("C",), {None}),
        (change_bond_order, "CC", (), {"C=C", "C#C"}),
        (change_bond_order, "FF", (), {None}),
    ],
)
def test_the_children_are_those_that_valence_allows(
    edit: Edit, parent: str, elements: tuple[str, ...], expected: set[str | None]
) -> None:
    assert children(edit, parent, *elements) == expected
