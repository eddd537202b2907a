from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ase.build import bulk

from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.errors import SimulatorError
from sciagent_simulators.potentials import relaxed_phases_and_hull
from sciagent_simulators.potentials.competing_prototypes import pair_phases
from sciagent_simulators.potentials.potential_base_and_registry import (
    MP2020,
    Energy,
    EnergyScale,
    PotentialValues,
    load_potential,
)
from sciagent_simulators.potentials.relax_and_equation_of_state import Relaxed, relax
from sciagent_simulators.potentials.relaxed_phases_and_hull import (
    MPTRJ,
    PROTOTYPE_OF,
    KnownPhases,
    Phase,
    element,
    known_phases,
    relaxed_structures,
)
from tests.simulators.bondless_potential import BondlessPotential

SCALE = EnergyScale("CHGNet-0.3.0", "PBE+U", MP2020)
PHASES = KnownPhases(
    (
        Phase("Na", {"Na": 1}, -1.0),
        Phase("Na high", {"Na": 2}, -0.8),
        Phase("Cl", {"Cl": 1}, -2.0),
        Phase("NaCl", {"Na": 1, "Cl": 1}, -3.5),
        Phase("K", {"K": 1}, -1.0),
    ),
    SCALE,
)


def test_formation_energy_is_counted_from_the_lowest_elements() -> None:
    assert PHASES.formation_energy({"Na": 1, "Cl": 1}, Energy(-3.6, SCALE)) == pytest.approx(-2.1)


def test_energy_above_the_hull_and_what_lies_there() -> None:
    above, shares = PHASES.energy_above({"Na": 1, "Cl": 3}, Energy(-2.5, SCALE))
    assert above == pytest.approx(-2.5 - (-3.5 / 2 - 2.0 / 2))
    assert shares == {"NaCl": pytest.approx(0.5), "Cl": pytest.approx(0.5)}
    below, _ = PHASES.energy_above({"Na": 1, "Cl": 1}, Energy(-3.6, SCALE))
    assert below == pytest.approx(-0.1)


def test_another_scale_and_a_missing_element_are_refused() -> None:
    with pytest.raises(SimulatorError, match="different scales"):
        PHASES.energy_above({"Na": 1, "Cl": 1}, Energy(-3.6, EnergyScale("7net-0", "PBE+U")))
    with pytest.raises(SimulatorError, match="no reference phase of Br"):
        PHASES.formation_energy({"Na": 1, "Br": 1}, Energy(-3.6, SCALE))


def test_every_element_of_the_models_has_a_structure() -> None:
    assert set(PROTOTYPE_OF) <= MPTRJ
    for symbol in sorted(MPTRJ):
        structure = element(symbol)
        assert {site.specie.symbol for site in structure} == {symbol}
        assert 2 < structure.volume / len(structure) < 130


class Counted:
    """A loaded potential that counts the structures it is asked about."""

    def __init__(self, potential: Any) -> None:
        self.potential, self.asked = potential, 0
        self.scale, self.atoms_at_once = potential.scale, potential.atoms_at_once

    def evaluate(self, batch: Sequence[Any]) -> Sequence[PotentialValues]:
        self.asked += len(batch)
        found: Sequence[PotentialValues] = self.potential.evaluate(batch)
        return found


def rocksalt_alone(pair: tuple[str, str]) -> list[tuple[str, Any]]:
    return [(name, structure) for name, structure in pair_phases(pair) if name == "rocksalt"]


def test_phases_are_relaxed_once_and_their_energies_are_those_of_experiment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Measured formation enthalpies: NaCl -2.13 eV/atom, MgO -3.12 (CRC Handbook)."""
    import torch

    torch.set_num_threads(1)
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))
    monkeypatch.setattr("sciagent_simulators.potentials.relaxed_phases_and_hull.pair_phases", rocksalt_alone)
    counted = Counted(load_potential("chgnet-0.3.0"))
    phases = known_phases(counted, SCALE, [("Cl", "Na"), ("Mg", "O")])
    asked = counted.asked
    assert known_phases(counted, SCALE, [("Na", "Cl"), ("O", "Mg")]) == phases
    assert counted.asked == asked  # nothing is relaxed again
    files = {file.stem for file in tmp_path.rglob("*.json")}
    assert files == {"Na", "Cl", "Mg", "O", "Cl-Na", "Mg-O"}
    for cell, amounts, measured in (
        (bulk("NaCl", "rocksalt", a=5.7), {"Na": 1, "Cl": 1}, -2.13),
        (bulk("MgO", "rocksalt", a=4.26), {"Mg": 1, "O": 1}, -3.12),
    ):
        energy = Energy(relax(counted, [cell], 0.02)[0].energy_per_atom, SCALE)
        assert phases.formation_energy(amounts, energy) == pytest.approx(measured, abs=0.15)
        assert phases.energy_above(amounts, energy)[0] == pytest.approx(0, abs=0.002)


def test_a_broken_cache_file_is_built_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))
    potential = load_potential("chgnet-0.3.0")
    first = known_phases(potential, SCALE, [("Cu",)], binaries=False)
    (file,) = tmp_path.rglob("Cu.json")
    file.write_text("{")
    assert known_phases(potential, SCALE, [("Cu",)], binaries=False) == first
    assert json.loads(file.read_text())[0]["amounts"] == {"Cu": 1.0}
    with_other_scale = EnergyScale("CHGNet-0.3.0:abc", "PBE", "uncorrected")
    known_phases(potential, with_other_scale, [("Cu",)], binaries=False)
    assert len(list(tmp_path.rglob("Cu.json"))) == 2


def test_further_phases_are_kept_beside_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model of atoms that do not interact relaxes nothing, so that names and files are what is seen."""
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))
    counted = Counted(BondlessPotential(SCALE))
    phases = known_phases(counted, SCALE, [("Li", "Co", "O")], further=True)
    names = {phase.name for phase in phases.phases}
    assert {"alpha-NaFeO2 LiCoO2", "wurtzite CoO", "rocksalt CoO"} <= names
    assert "alpha-NaFeO2 LiCoO2" not in {phase.name for phase in known_phases(counted, SCALE, [("Co", "O")]).phases}
    asked = counted.asked
    assert known_phases(counted, SCALE, [("O", "Li", "Co")], further=True) == phases
    assert counted.asked == asked


def test_structures_of_a_user_are_kept_and_named_by_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Atoms that do not interact have minus their atomic numbers as energies: (11 + 17) / 2 = 14 eV/atom for NaCl."""
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))
    counted = Counted(BondlessPotential(SCALE))
    salt = decorated("rocksalt", ("Na", "Cl"))
    (phase,) = relaxed_structures(counted, SCALE, {"mine": salt})
    assert (phase.name, phase.per_atom) == ("mine", pytest.approx(-14))
    asked = counted.asked
    again = relaxed_structures(counted, SCALE, {"yours": salt, "fluoride": decorated("rocksalt", ("Na", "F"))})
    assert [each.name for each in again] == ["yours", "fluoride"]
    assert counted.asked == asked + 1
    assert relaxed_structures(counted, SCALE, {}) == []


def test_a_phase_that_leaves_its_prototype_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))

    def shearing(potential: Any, cells: Sequence[Any], *limits: Any) -> list[Relaxed]:
        """Relaxes by a model without bonds, from sheared cells."""
        sheared = [cell.copy() for cell in cells]
        for cell in sheared:
            cell.set_cell(cell.cell.array @ [[1, 0.03, 0], [0.03, 1, 0.01], [0, 0.01, 1]], scale_atoms=True)
        return relax(potential, sheared, *limits)

    monkeypatch.setattr(relaxed_phases_and_hull, "relax", shearing)
    phases = known_phases(BondlessPotential(SCALE), SCALE, [("Na", "Cl")])
    assert "rocksalt NaCl, relaxed to P-1" in {phase.name for phase in phases.phases}


@pytest.mark.long
def test_the_binary_hull_knows_what_is_stable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaCl, MgO and CaF2 lie on the hull of decorated binaries, NaCl3 far above, and CsPbI3 at most 0.1 eV.

    CsCl lies 0.06 eV above its rock salt: the force field is wrong there, by more than PBE itself."""
    from pymatgen.io.ase import AseAtomsAdaptor

    monkeypatch.setenv("SCIAGENT_CACHE", str(tmp_path))
    potential = load_potential("chgnet-0.3.0")
    on_hull = ["rocksalt Na Cl", "rocksalt Mg O", "CsCl Cs Cl", "fluorite Ca F"]
    others = ["Cu3Au Cl Na", "perovskite Cs Pb I"]
    crystals = [decorated(name, symbols) for name, *symbols in map(str.split, on_hull + others)]
    cells = [AseAtomsAdaptor.get_atoms(crystal.structure, msonable=False) for crystal in crystals]
    phases = known_phases(potential, SCALE, [set(crystal.species) for crystal in crystals])
    above = []
    for crystal, found in zip(crystals, relax(potential, cells, 0.03), strict=True):
        amounts = crystal.structure.composition.get_el_amt_dict()
        above.append(phases.energy_above(amounts, Energy(found.energy_per_atom, SCALE))[0])
    assert all(value < 0.005 for value in (*above[:2], above[3])), above
    assert above[2] < 0.07
    assert above[4] > 0.1
    assert above[5] < 0.1
