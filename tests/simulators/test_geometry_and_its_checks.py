from __future__ import annotations

import numpy as np
import pytest

from sciagent.errors import SimulatorError
from sciagent_simulators.geometry_and_its_checks import Geometry, bonds_of, check, check_bonds, spin_fault


@pytest.mark.parametrize(
    ("electrons", "multiplicity", "fits"),
    [(10, 1, True), (10, 3, True), (10, 2, False), (9, 2, True), (9, 1, False), (2, 5, False), (0, 1, False)],
)
def test_a_multiplicity_must_fit_the_number_of_electrons(electrons, multiplicity, fits):
    assert (spin_fault(electrons, multiplicity) is None) is fits


def test_wrong_parity_is_refused(structure):
    with pytest.raises(SimulatorError) as caught:
        check(structure("water", charge=1))
    assert (caught.value.outcome, caught.value.reason) == ("refused", "multiplicity")


def test_overlapping_atoms_are_refused(structure):
    with pytest.raises(SimulatorError) as caught:
        check(structure("hydrogen atom on hydrogen atom"))
    assert (caught.value.outcome, caught.value.reason) == ("implausible", "overlapping_atoms")


def test_a_coordinate_that_is_not_a_number_is_refused(structure):
    water = structure("water")
    with pytest.raises(SimulatorError) as caught:
        check(water.moved(water.positions * np.nan))
    assert caught.value.reason == "not_finite"


@pytest.mark.parametrize("distance", [0.917, 0.741], ids=["HF", "H2"])
def test_the_shortest_real_bonds_pass(distance):
    check(Geometry((1, 9) if distance > 0.9 else (1, 1), np.array([[0, 0, 0], [0, 0, distance]])))


def test_a_bond_that_opened_and_one_that_closed_are_both_found(structure):
    water = structure("water")
    stretched = water.moved(water.positions * [1, 2.5, 1])
    with pytest.raises(SimulatorError, match="broke"):
        check_bonds(stretched, bonds_of("O"))
    with pytest.raises(SimulatorError, match="formed"):
        check_bonds(structure("hydroxide", charge=-1), [])


def test_xyz_reads_back_in_ase(structure, tmp_path):
    from ase.io import read

    water = structure("water", charge=1, multiplicity=2)
    (tmp_path / "water.xyz").write_text(water.to_xyz("O"))
    atoms = read(tmp_path / "water.xyz", format="xyz")
    assert tuple(atoms.numbers) == water.numbers
    assert np.allclose(atoms.positions, water.positions)
    assert "charge=1 multiplicity=2" in (tmp_path / "water.xyz").read_text()
