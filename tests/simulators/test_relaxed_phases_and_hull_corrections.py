"""Lattices, scales and corrections of the models against the Materials Project, whose calculations they learnt."""

from __future__ import annotations

import pytest
from ase.build import bulk

from sciagent_simulators.potentials.potential_base_and_registry import (
    MP2020,
    Energy,
    EnergyScale,
    load_potential,
    model_difference,
)
from sciagent_simulators.potentials.relax_and_equation_of_state import relax
from sciagent_simulators.potentials.relaxed_phases_and_hull import mp2020_correction, on_mp2020

CELLS = {
    "Si": (bulk("Si", a=5.4), 5.469),
    "NaCl": (bulk("NaCl", "rocksalt", a=5.6), 5.692),
    "MgO": (bulk("MgO", "rocksalt", a=4.2), 4.257),
    "Cu": (bulk("Cu", a=3.6), 3.621),
}
"""Cells, and lattice constants of the Materials Project (PBE), angstrom."""


@pytest.mark.parametrize("model", ["chgnet-0.3.0", pytest.param("7net-0", marks=pytest.mark.long)])
def test_lattice_constants_and_the_scale_of_energies(model: str) -> None:
    """NaCl of the Materials Project: -3.389 eV/atom as calculated, -3.696 with MP2020."""
    from pymatgen.io.ase import AseAtomsAdaptor

    potential = load_potential(model)
    found = dict(zip(CELLS, relax(potential, [cell for cell, _ in CELLS.values()], fmax=0.005), strict=True))
    for name, (_, wanted) in CELLS.items():
        assert (4 * found[name].atoms.cell.volume / (len(found[name].atoms) / len(CELLS[name][0]))) ** (
            1 / 3
        ) == pytest.approx(wanted, rel=0.005), name
    energy = Energy(found["NaCl"].energy_per_atom, potential.scale)
    assert energy.per_atom == pytest.approx(-3.696 if potential.scale.correction == MP2020 else -3.389, abs=0.03)
    structure = AseAtomsAdaptor.get_structure(found["NaCl"].atoms)
    corrected = on_mp2020(energy, structure)
    assert corrected.per_atom == pytest.approx(-3.696, abs=0.03)
    assert corrected.scale.correction == MP2020
    assert model_difference(corrected, Energy(-3.696, EnergyScale("MP", "PBE+U", MP2020))) < 0.03


def test_corrections_are_those_of_mp2020() -> None:
    """-0.614 eV for a chloride, -0.687 for an oxide, -1.668 for Fe(+U), -0.462 for a fluoride; none for an alloy."""
    from pymatgen.core import Lattice, Structure

    def correction(symbols: str, number: int = 225) -> float:
        a, b = symbols.split()
        rocksalt = Structure.from_spacegroup(number, Lattice.cubic(4.5), [a, b], [[0, 0, 0], [0.5, 0.5, 0.5]])
        return mp2020_correction(rocksalt) * 2

    assert correction("Na Cl") == pytest.approx(-0.614, abs=1e-3)
    assert correction("Mg O") == pytest.approx(-0.687, abs=1e-3)
    assert correction("Na F") == pytest.approx(-0.462, abs=1e-3)
    assert correction("Fe O") < -2.5
    assert correction("Cu Au") == 0


def test_other_functionals_are_not_corrected() -> None:
    energy = Energy(-6.9, EnergyScale("CHGNet-r2SCAN", "r2SCAN"))
    assert on_mp2020(energy, None) is energy
