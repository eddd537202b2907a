"""Boxes of liquids: how many molecules fill them, which atom is whose, and what stays whole."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from sciagent_simulators.dynamics.box_of_liquid import (
    LiquidBox,
    MoleculesOfKind,
    estimated_density,
    molecules_in,
    pure_liquid,
    solution_in_water,
    waters_beside,
)
from sciagent_simulators.force_fields.molecule_parameters import (
    AtomParameters,
    BondParameters,
    MoleculeParameters,
    NonbondedRules,
)

RULES = NonbondedRules(cutoff=0.9, switch_width=0.1, scale_coulomb=0.8333, scale_lennard_jones=0.5)
BROMOCHLORIDE = MoleculeParameters(
    force_field="by hand",
    atoms=(AtomParameters(35, 79.904, 0.36, 1.2, "Br"), AtomParameters(17, 35.453, 0.35, 1.0, "Cl")),
    charges=(0.0, 0.0),
    bonds=(BondParameters((0, 1), 0.21, 2e5, "Br-Cl"),),
    angles=(),
    torsions=(),
    constraints=(),
    rules=RULES,
)
SHAPE = np.array([[[0.0, 0.0, 0.0], [2.1, 0.0, 0.0]]])


@pytest.mark.parametrize(
    ("smiles", "measured"),
    [("CCO", 0.786), ("Cc1ccccc1", 0.864), ("ClCCl", 1.318), ("CCOCC", 0.708), ("CS(C)=O", 1.096), ("BrCCBr", 2.17)],
)
def test_a_density_is_estimated_within_a_fifth(smiles: str, measured: float) -> None:
    from rdkit import Chem

    atoms = list(Chem.AddHs(Chem.MolFromSmiles(smiles)).GetAtoms())
    estimate = estimated_density([atom.GetAtomicNum() for atom in atoms], [atom.GetMass() for atom in atoms])
    assert estimate == pytest.approx(measured, rel=0.2)


def test_molecules_fill_the_box_at_the_estimated_density() -> None:
    # 46.07 dalton at 46.07 / (5 * 12) g/mL are 60 cm3/mol, 99.63 angstrom^3 a molecule
    numbers = (6, 6, 8, 1, 1, 1, 1, 1, 1)
    masses = (12.011, 12.011, 15.999, *[1.008] * 6)
    assert molecules_in(26.0, numbers, masses) == round(26.0**3 / 99.63)
    # a water has 20 cm3/mol, a third of it
    assert waters_beside(26.0, numbers, masses) == round(3 * (26.0**3 / 99.63 - 1))


@cache
def solution() -> LiquidBox:
    return solution_in_water(BROMOCHLORIDE, SHAPE, 20.0)


def test_a_solution_is_one_molecule_in_rigid_water() -> None:
    box = solution()
    waters = box.molecules - 1
    assert waters == pytest.approx((20.0**3 - 75) / 33.2, rel=0.01)  # BrCl has 9 units of 5 cm3/mol, 74.7 angstrom^3
    assert box.elements == ("Br", "Cl", *("O", "H", "H") * waters)
    assert box.molecule_of_atom.tolist()[:8] == [0, 0, 1, 1, 1, 2, 2, 2]
    assert box.system.getNumConstraints() == 3 * waters  # type: ignore[attr-defined]
    assert 0.9 < box.estimate < 0.95, "that of water is 0.9 g/mL"
    mass = 115.357 + waters * 18.015
    assert box.edge_at(1.0) == pytest.approx((mass * 1.66053906660) ** (1 / 3), rel=1e-5)


def test_atoms_are_chosen_in_the_solute_and_in_the_solvent() -> None:
    box = solution()
    assert box.atoms_at([1]) == [1]
    oxygens = box.atoms_at([0], of_last=True)
    assert oxygens[:3] == [2, 5, 8] and {box.elements[atom] for atom in oxygens} == {"O"}
    assert len(box.atoms_at([1, 2], of_last=True)) == 2 * (box.molecules - 1)
    pure = pure_liquid(BROMOCHLORIDE, SHAPE, 20.0)
    assert pure.is_pure
    assert pure.atoms_at([1]) == pure.atoms_at([1], of_last=True) == list(range(1, 2 * pure.molecules, 2))


def test_packed_molecules_have_their_shapes_and_do_not_touch() -> None:
    box = solution()
    positions, edge = box.packed(seed=3)
    assert edge == pytest.approx(box.edge_at(0.6 * box.estimate))
    assert np.linalg.norm(positions[1] - positions[0]) == pytest.approx(2.1)
    bonds = np.linalg.norm(positions[3::3] - positions[2::3], axis=1)
    assert bonds == pytest.approx(np.full(len(bonds), 0.9572), abs=1e-4), "TIP3P"
    assert not np.array_equal(positions, box.packed(seed=4)[0])
    assert np.array_equal(positions, box.packed(seed=3)[0])


def test_molecules_stay_whole_when_their_box_grows() -> None:
    box = LiquidBox([MoleculesOfKind(BROMOCHLORIDE, SHAPE, count) for count in (1, 40)])
    before = np.random.default_rng(3).uniform(0, 20, (82, 3))
    after = box.scaled(before, 1.1)
    assert np.allclose(after[1::2] - after[::2], before[1::2] - before[::2])
    centres = [(79.904 * each[::2] + 35.453 * each[1::2]) / 115.357 for each in (before, after)]
    assert np.allclose(centres[1], 1.1 * centres[0])
