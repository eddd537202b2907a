from __future__ import annotations

import pytest
from rdkit import Chem

from sciagent_simulators.conformer_search_and_averages import search as ensemble_search
from sciagent_simulators.low_conformers_and_search_spread import degeneracies, low_conformers
from sciagent_simulators.starting_geometry import GeometryProtocol, prepare

PROTOCOL = GeometryProtocol(conformers=20)


def found(smiles: str, most: int = 5):
    mol = Chem.MolFromSmiles(smiles)
    low, facts = low_conformers(mol, 0, 1, PROTOCOL, 1, most)
    return mol, low, facts


def test_butane_has_two_conformers_and_gauche_counts_twice() -> None:
    mol, low, facts = found("CCCC")
    assert len(low.geometries) == 2 and low.found.sum() == low.embedded == 20 and low.left_out == 0
    assert degeneracies(mol, low.geometries, rotations_counted=False) == pytest.approx([1, 2])
    assert degeneracies(mol, low.geometries, rotations_counted=True) == pytest.approx([1, 2])
    assert facts["conformers_not_relaxed"] == 0


def test_pentane_has_the_wells_of_its_whole_ensemble() -> None:
    """Anti-anti 1, anti-gauche 4, gauche-gauche 2 (xtb.conformers lists mirror images on their own). The rotational
    symmetry number holds the permutations, of which anti-gauche has none but the identity."""
    mol = Chem.MolFromSmiles("CCCCC")
    low, _ = low_conformers(mol, 0, 1, GeometryProtocol(conformers=60), 1, 5)
    wells = degeneracies(mol, low.geometries, rotations_counted=False)[:3]
    assert wells == pytest.approx([1, 4, 2])
    assert degeneracies(mol, low.geometries, rotations_counted=True)[:3] == pytest.approx([1, 2, 2])
    whole, _ = ensemble_search(mol, 0, 1, 1, window=0.08)
    assert wells.sum() == pytest.approx(whole.copies[: len(whole.geometries)].sum())


def test_a_rigid_molecule_has_the_geometry_of_every_other_rung() -> None:
    mol, low, _ = found("Oc1ccccc1")
    geometry, _ = prepare(mol, 0, 1, PROTOCOL, 1)
    assert len(low.geometries) == 1 and (low.geometries[0].positions == geometry.positions).all()


def test_those_beyond_the_limit_are_counted() -> None:
    _, low, _ = found("CCCCC", most=2)
    assert len(low.geometries) == 2 and low.left_out >= 1 and low.found.sum() < low.embedded


def test_a_chiral_molecule_has_no_mirror_image() -> None:
    mol = Chem.MolFromSmiles("C[C@H](F)Cl")
    low, _ = low_conformers(mol, 0, 1, PROTOCOL, 1, 5)
    assert degeneracies(mol, low.geometries, rotations_counted=True) == pytest.approx([1])
