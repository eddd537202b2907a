"""Hulls from a user's files: own energies, and lists of pymatgen's computed entries."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from sciagent.verification.verifier_contract import ReferenceFile
from sciagent_simulators.potentials.potential_base_and_registry import MP2020, Energy, EnergyScale
from sciagent_verifiers.simulation.phase_files import (
    elements_alone,
    phases_of,
    read_entries,
    read_phase_structures,
    scale_fault,
)

SCALE = EnergyScale("CHGNet-0.3.0", "PBE+U", MP2020)


def entry(composition: dict[str, float], energy: float, run_type: str = "GGA", correction: float = 0.0) -> Any:
    parameters = {"run_type": run_type}
    return {"composition": composition, "energy": energy, "correction": correction, "parameters": parameters}


MAGNESIA = [entry({"Mg": 2}, -3.0), entry({"O": 2}, -9.8), entry({"Mg": 1, "O": 1}, -11.9)]


def written(folder: Path, rows: Any) -> ReferenceFile:
    path = folder / "entries.json.gz"
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    return ReferenceFile.model_validate(str(path))


def test_a_list_of_computed_entries_is_a_hull(tmp_path: Path) -> None:
    """By hand: MgO lies at (-11.9 - 0.687) / 2 eV/atom with the correction of an oxide, Mg2O halfway towards Mg."""
    file = written(tmp_path, [*MAGNESIA, entry({"D": 2}, -6.7)])
    assert scale_fault(file, SCALE) is None
    hull = phases_of(file, SCALE)
    oxide = (-11.9 - 0.687) / 2
    above, _ = hull.energy_above({"Mg": 1, "O": 1}, Energy(-6.25, SCALE))
    assert above == pytest.approx(-6.25 - oxide, abs=1e-9)
    above, shares = hull.energy_above({"Mg": 2, "O": 1}, Energy(-4.0, SCALE))
    assert above == pytest.approx(-4.0 - (2 * oxide - 1.5) / 3, abs=1e-9)
    assert sorted(shares.values()) == [pytest.approx(1 / 3), pytest.approx(2 / 3)]
    assert read_entries(Path(file.path), file.sha256).left_out == 1
    assert elements_alone(Path(file.path), file.sha256) == {"Mg", "O"}


def test_entries_as_pymatgen_writes_them(tmp_path: Path) -> None:
    from pymatgen.entries.computed_entries import ComputedEntry

    rows = [ComputedEntry("MgO", -11.9, correction=-0.687, parameters={"run_type": "GGA"}, entry_id="a").as_dict()]
    content = read_entries(Path((file := written(tmp_path, rows)).path), file.sha256)
    (phase,) = content.entries
    assert phase.name == "a"
    assert phase.energy_per_atom == pytest.approx(-5.95)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (entry({"Ca": 1, "O": 1}, -12.9, correction=-0.687), "others do not, so their energies are mixed"),
        (entry({"Ca": 1}, -2.0, run_type="R2SCAN"), r"PBE\+U and r2SCAN do not mix"),
        (entry({"Ca": 1}, -2.0, run_type="HF"), "run_type HF"),
        (entry({"Ca": 0}, -2.0), "no atoms"),
        ({"composition": {"Ca": 1}}, r"entry 4 \(Ca1\): energy: Field required"),
        (entry({"Mg": 1, "O": 1}, -1000.0), r"entry 4 \(Mg1 O1\): energy_per_atom: .* greater than or equal to -200"),
        (entry({"Mg": 1, "O": 1}, -119.0), r"entry 4 \(Mg1 O1\): -59.5 eV/atom; its elements .* -3.2"),
        (entry({"Mg": 1}, 30.0), r"entry 4 \(Mg1\): 30 eV/atom"),
        (entry({"Mg": 1}, float("nan")), r"entry 4 \(Mg1\): energy: .* finite"),
        ({"entry_id": "mp-1", "composition": [1]}, r"entry 4 \(mp-1, \[1\]\): composition"),
        ("MgO", "entry 4: "),
    ],
)
def test_energies_that_cannot_be_compared_are_refused(tmp_path: Path, more: Any, said: str) -> None:
    file = written(tmp_path, [*MAGNESIA, more])
    with pytest.raises(ValueError, match=said):
        read_entries(Path(file.path), file.sha256)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"name": "mp-7", "formula": "NaCl", "energy_per_atom": -500}, r"entry 3 \(mp-7, NaCl\): energy_per_atom"),
        ({"formula": "NaCl", "energy_per_atom": float("nan")}, r"entry 3 \(NaCl\): energy_per_atom: .*finite"),
        ({"formula": "NaCl", "energy_per_atom": -37.0}, r"entry 3 \(NaCl\): -37 eV/atom; its elements"),
        ({"formula": "salt)", "energy_per_atom": -3.7}, r'entry 3 \(salt\)\): "salt\)" is no formula'),
        ({"formula": "Qq", "energy_per_atom": -3.7}, r"entry 3 \(Qq\): "),
        (3.7, "entry 3: "),
    ],
)
def test_an_absurd_entry_is_refused_by_its_number_and_name(tmp_path: Path, row: Any, said: str) -> None:
    rows = [{"formula": "Na", "energy_per_atom": -1.32}, {"formula": "Cl", "energy_per_atom": -1.85}, row]
    file = written(tmp_path, {"functional": "PBE+U", "correction": "MP2020", "entries": rows})
    with pytest.raises(ValueError, match=said):
        read_entries(Path(file.path), file.sha256)


def test_a_file_of_structures_may_be_of_any_format_of_crystals(tmp_path: Path) -> None:
    path = tmp_path / "seeds.csv"
    path.write_text("structure,name\nrocksalt: Na Cl,halite\nCsCl: Na Cl,\nrocksalt: Na Cl,again\n")
    file = ReferenceFile.model_validate(str(path))
    structures = read_phase_structures(path, file.sha256, 200)
    assert list(structures) == ["halite NaCl Fm-3m", "NaCl Pm-3m"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("structure,name\nrocksalt: Na Cl,\nrocksalt: Na,half\n", r"structure 2 \(half\): "),
        ("formula\nNaCl\n", "no file of structures"),
        ("structure\n" + "rocksalt: Na Cl\n" * 501, "more than 500 structures"),
    ],
)
def test_a_file_that_holds_no_structures_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "seeds.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        read_phase_structures(path, "", 200)


def test_a_list_of_another_functional_does_not_fit(tmp_path: Path) -> None:
    file = written(tmp_path, [entry({"Mg": 2}, -3.0, run_type="R2SCAN")])
    said = scale_fault(file, SCALE)
    assert said is not None and "r2SCAN, uncorrected" in said
