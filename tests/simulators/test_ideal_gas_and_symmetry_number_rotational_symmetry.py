from __future__ import annotations

import numpy as np
import pytest
from ase import Atoms
from ase.build import molecule

from sciagent_simulators.geometry_and_its_checks import Geometry
from sciagent_simulators.thermochemistry.ideal_gas_and_symmetry_number import is_linear, symmetry_number

NUMBERS = {
    "H2O": 2, "NH3": 3, "CH4": 12, "C6H6": 12, "CO2": 2, "HCN": 1, "N2": 2, "C2H6": 6, "C2H4": 4, "C2H2": 2,
    "C3H4_D2d": 4, "C3H4_C3v": 3, "CH3OH": 1, "CH3CH2OH": 1, "cyclobutane": 4, "PH3": 3, "SiCl4": 12, "BF3": 6,
    "CH3Cl": 3, "H2O2": 2, "trans-butane": 2, "bicyclobutane": 2, "NaCl": 1, "C4H4O": 2, "isobutane": 3,
}  # fmt: skip


def geometry(atoms: Atoms) -> Geometry:
    return Geometry(tuple(int(z) for z in atoms.numbers), atoms.positions)


@pytest.mark.parametrize(("name", "expected"), NUMBERS.items())
def test_symmetry_numbers_are_those_of_the_point_group(name, expected):
    """The order of the pure rotation group; the geometry is turned and shaken by 0.01 angstrom first."""
    atoms = molecule(name)
    atoms.rotate(37, (1, 2, 3))
    assert symmetry_number(geometry(atoms)) == expected
    if len(atoms) > 2 and not is_linear(geometry(atoms)):
        atoms.rattle(0.01, seed=3)
        assert symmetry_number(geometry(atoms)) == expected


def test_an_octahedron_has_24_and_an_atom_1():
    corners = [[0, 0, 0], *(1.56 * s * np.eye(3)[k] for k in range(3) for s in (1, -1))]
    assert symmetry_number(geometry(Atoms("SF6", positions=np.array(corners)))) == 24
    assert symmetry_number(geometry(Atoms("Ar"))) == 1
    assert not is_linear(geometry(Atoms("Ar")))
