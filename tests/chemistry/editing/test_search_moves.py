"""Edits of atoms and bonds on molecules so small that all children are known; edits of rings and linkers."""

from __future__ import annotations

import random

import pytest
from rdkit import Chem

from sciagent.chemistry.editing.join_and_exchange_molecule_parts import ring_systems
from sciagent.chemistry.editing.mutate_and_crossover import mutate
from sciagent.chemistry.editing.search_moves import (
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


def rings_of(smiles: str) -> list[set[int]]:
    mol = Chem.MolFromSmiles(smiles)  # ring information does not outlive its molecule
    return [set(ring) for ring in mol.GetRingInfo().AtomRings()]


def test_no_bond_bridges_an_aromatic_ring():
    """Metacyclophanes of small rings obey every valence rule and cannot exist."""
    found = set()
    for seed in range(60):
        made = mutate("CCc1cccc(CCN)c1", random.Random(seed), operations=("close ring",))
        if made is None:
            continue
        found.add(made[0])
        rings = rings_of(made[0])
        assert all(len(a & b) < 3 for i, a in enumerate(rings) for b in rings[i + 1 :]), made
    assert len(found) >= 3


def test_replacing_a_ring_keeps_what_it_bore():
    rings = set()
    for seed in range(40):
        made = mutate("CCOC(=O)c1ccc(C#N)cc1", random.Random(seed), operations=("replace ring",))
        assert made is not None
        child = Chem.MolFromSmiles(made[0])
        assert child.HasSubstructMatch(Chem.MolFromSmarts("CCOC=O"))
        assert child.HasSubstructMatch(Chem.MolFromSmarts("C#N"))
        assert len(ring_systems(child)) == 1
        rings.add(Chem.MolToSmiles(child))
    assert len(rings) > 20


def test_replacing_a_linker_keeps_both_sides():
    made = {
        mutate("c1ccccc1C(=O)Nc1ccncc1", random.Random(s), operations=("replace linker",))[0]  # type: ignore[index]
        for s in range(60)
    }
    mols = [Chem.MolFromSmiles(m) for m in made]
    assert len(made) > 12
    assert all(m.HasSubstructMatch(Chem.MolFromSmarts(ring)) for m in mols for ring in ("c1ccccc1", "c1ccncc1"))
    assert any(not m.HasSubstructMatch(Chem.MolFromSmarts("C(=O)N")) for m in mols)  # all of the amide was replaced


def test_opening_and_closing_change_the_number_of_rings_by_one():
    for seed in range(20):
        opened = mutate("C1CCC2CCCCC2C1", random.Random(seed), operations=("open ring",))
        closed = mutate("CCCCCC(C)CC", random.Random(seed), operations=("close ring",))
        assert opened is not None and len(rings_of(opened[0])) == 1
        assert closed is not None and len(rings_of(closed[0])) == 1
