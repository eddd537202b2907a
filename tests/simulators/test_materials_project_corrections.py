"""Lattices, scales and corrections of the models against the Materials Project, whose calculations they learnt."""

from __future__ import annotations

from pathlib import Path

import pytest
from ase.build import bulk

from sciagent.errors import SimulatorError
from sciagent_simulators.potentials.materials_project_corrections import (
    compared_on,
    comparison_fault,
    mp2020_correction,
    on_mp2020,
)
from sciagent_simulators.potentials.potential_base_and_registry import (
    MP2020,
    Energy,
    EnergyScale,
    load_potential,
    model_difference,
)
from sciagent_simulators.potentials.relax_and_equation_of_state import relax
from sciagent_simulators.potentials.relaxed_phases_and_hull import known_phases
from tests.simulators.bondless_potential import BondlessPotential

RAW = EnergyScale("7net-0", "PBE+U")
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


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("NiO", (-2.541 - 0.687) / 2),
        ("Fe3O4", (3 * -2.256 + 4 * -0.687) / 7),
        ("LiCoO2", (-1.638 + 2 * -0.687) / 4),
        ("CrF3", (-1.999 + 3 * -0.462) / 4),
        ("FeS", -0.503 / 2),  # sulfides have no Hubbard U
        ("Li2O2", 2 * -0.465 / 4),
        ("Ni3Al", 0.0),
    ],
)
def test_a_composition_has_the_published_corrections(formula: str, wanted: float) -> None:
    """Table of Wang et al. (2021), in eV per atom of metal or anion."""
    from pymatgen.core import Composition

    assert mp2020_correction(Composition(formula)) == pytest.approx(wanted, abs=1e-9)


def test_a_hull_of_raw_energies_is_one_of_corrected_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ni, O and their phases in a model without bonds: the formation energy of NiO is its correction alone.

    The raw energy is refused there, as it belongs to another scale."""
    from pymatgen.core import Composition

    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))
    phases = known_phases(BondlessPotential(RAW), RAW, [("Ni", "O")])
    assert phases.scale == EnergyScale("7net-0", "PBE+U", MP2020)
    raw = Energy(-(28 + 8) / 2, RAW)
    corrected = on_mp2020(raw, Composition("NiO"))
    assert phases.formation_energy({"Ni": 1, "O": 1}, corrected) == pytest.approx((-2.541 - 0.687) / 2, abs=1e-9)
    above, shares = phases.energy_above({"Ni": 1, "O": 1}, corrected)
    assert above == pytest.approx(0, abs=1e-9)
    assert all(name.endswith("NiO") for name in shares)
    with pytest.raises(SimulatorError, match="different scales"):
        phases.formation_energy({"Ni": 1, "O": 1}, raw)


def test_compounds_with_a_hubbard_u_are_compared_on_the_corrected_scale_alone() -> None:
    r2scan = EnergyScale("CHGNet-r2SCAN", "r2SCAN")
    assert compared_on(RAW).label == "PBE+U, MP2020"
    assert compared_on(r2scan) == r2scan
    assert comparison_fault({"Ni", "O"}, RAW) is None
    assert comparison_fault({"Ni", "S"}, r2scan) is None
    assert comparison_fault({"Ti", "O"}, r2scan) is None
    fault = comparison_fault({"Li", "Co", "Ni", "O"}, r2scan)
    assert fault is not None and "CHGNet-r2SCAN (r2SCAN, uncorrected) has no correction for Co, Ni" in fault
