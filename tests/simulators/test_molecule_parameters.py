"""Angles and torsions of a molecular graph, and the checks of charges."""

from __future__ import annotations

import pytest
from rdkit import Chem

from sciagent_simulators.force_fields.molecule_parameters import angles_of, neighbours_of, proper_torsions_of
from sciagent_simulators.force_fields.smirnoff import installed_force_field, parameters_of


def graph(smiles: str) -> list[list[int]]:
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    bonds = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in molecule.GetBonds()]
    return neighbours_of(molecule.GetNumAtoms(), bonds)


@pytest.mark.parametrize(
    ("smiles", "n_angles", "n_torsions"),
    [("C", 6, 0), ("CC", 12, 9), ("C=C", 6, 4), ("c1ccccc1", 18, 24), ("C1CC1", 18, 24), ("O", 1, 0)],
)
def test_angles_and_torsions_are_counted(smiles: str, n_angles: int, n_torsions: int) -> None:
    """Atom with z bonds: z (z - 1) / 2 angles. Bond: product of the other bonds, less those that close a triangle."""
    neighbours = graph(smiles)
    angles = angles_of(neighbours)
    torsions = proper_torsions_of(neighbours)
    assert (len(set(angles)), len(angles)) == (n_angles, n_angles)
    assert (len(set(torsions)), len(torsions)) == (n_torsions, n_torsions)
    assert all(len(set(atoms)) == 4 for atoms in torsions)


def test_charges_have_to_fit_the_molecule() -> None:
    methane = Chem.AddHs(Chem.MolFromSmiles("C"))
    charges = [-0.4, 0.1, 0.1, 0.1, 0.1]
    parameters = parameters_of(methane, installed_force_field("openff-2.2.1"), charges)
    assert parameters.charges == tuple(charges)
    assert parameters.mass == pytest.approx(16.043, abs=0.001)
    assert len(parameters.constraints) == 4 and not parameters.flexible().constraints
    for wrong, says in (([0.0] * 4, "4 charges for 5 atoms"), ([0.1] * 5, "add up"), ([float("nan")] * 5, "add up")):
        with pytest.raises(ValueError, match=says):
            parameters.charged(wrong)
