"""Conventional cells with their Wyckoff positions, and CIFs that other programs read to the same crystal."""

from __future__ import annotations

import io
import warnings

import pytest
from ase.io import read
from pymatgen.core import Lattice, Structure

from sciagent.chemistry.crystals import conventional_cell_and_cif
from sciagent.chemistry.crystals.conventional_cell_and_cif import CifTable, cif_of, cif_text, conventional_cell
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated


def test_corundum_has_the_cell_and_positions_of_the_tables() -> None:
    """International Tables, R-3c in hexagonal axes: 12c at 0 0 z, 18e at x 0 1/4."""
    cell = conventional_cell(decorated("corundum", ["Al", "O"]).structure)
    assert (cell.number, cell.symbol, len(cell.structure), len(cell.operations)) == (167, "R -3 c", 30, 36)
    assert {(orbit.element, orbit.multiplicity, orbit.letter) for orbit in cell.orbits} == {
        ("Al", 12, "c"),
        ("O", 18, "e"),
    }
    assert cell.constants.a == cell.constants.b
    assert (cell.constants.alpha, cell.constants.gamma) == pytest.approx((90, 120), abs=1e-9)
    assert cell.operations[0] == "x, y, z" and cell.free_angles == frozenset()


def test_angles_that_the_system_leaves_free_are_named() -> None:
    monoclinic = conventional_cell(decorated("baddeleyite", ["Zr", "O"]).structure)
    assert monoclinic.free_angles == {"beta"} and monoclinic.constants.beta != pytest.approx(90, abs=1)
    triclinic = Structure(Lattice.from_parameters(4, 5, 6, 80, 85, 95), ["Na", "Cl"], [[0, 0, 0], [0.45, 0.52, 0.5]])
    assert conventional_cell(triclinic).free_angles == {"alpha", "beta", "gamma"}


@pytest.mark.parametrize(
    ("prototype", "elements", "n_sites", "n_orbits"),
    [
        ("rocksalt", "Na Cl", 8, 2),
        ("spinel", "Mg Al O", 56, 3),
        ("quartz", "Si O", 9, 2),
        ("baddeleyite", "Zr O", 12, 3),
        ("LiNbO3", "Li Nb O", 30, 3),
    ],
)
def test_a_cif_is_read_by_ase_pymatgen_and_ourselves(
    prototype: str, elements: str, n_sites: int, n_orbits: int
) -> None:
    crystal = decorated(prototype, elements.split())
    text = cif_of(crystal.structure)
    assert read_crystal(text).key == crystal.key
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        readers = [read(io.StringIO(text), format="cif"), Structure.from_str(text, fmt="cif")]
    assert [len(found) for found in readers] == [n_sites, n_sites]
    volume_per_atom = crystal.structure.volume / crystal.n_atoms
    assert readers[0].get_volume() / n_sites == pytest.approx(volume_per_atom, rel=1e-6)
    assert text.count("  1\n") == n_orbits, "one row for each orbit"


def test_a_distortion_beyond_the_tolerance_is_kept() -> None:
    def shifted(shift: float) -> Structure:
        structure = decorated("perovskite", ["Sr", "Ti", "O"]).structure.copy()
        place = [site.specie.symbol for site in structure].index("Ti")
        structure.translate_sites([place], [0, 0, shift], frac_coords=False)
        return structure

    assert conventional_cell(shifted(0.03)).number == 99  # P4mm
    assert conventional_cell(shifted(0.002)).number == 221  # Pm-3m


def test_a_cell_of_too_many_sites_to_be_read_back_stays_primitive(monkeypatch: pytest.MonkeyPatch) -> None:
    crystal = decorated("rocksalt", ["Na", "Cl"])
    monkeypatch.setattr(conventional_cell_and_cif, "MAX_SITES", 7)
    assert len(conventional_cell(crystal.structure).structure) == 2
    assert read_crystal(cif_of(crystal.structure)).key == crystal.key


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("NaCl", "NaCl"),
        ("", "?"),
        ("P 1", '"P 1"'),
        ('-R 3 2"c', "'-R 3 2\"c'"),
        ('it\'s "so"\n_x 1', "'it`s \"so\" _x 1'"),
        ("loop_", '"loop_"'),
        ("Å", '"\\xc5"'),
    ],
)
def test_texts_stay_one_value(value: str, text: str) -> None:
    assert cif_text(value) == text


def test_further_data_are_data() -> None:
    from pymatgen.io.cif import CifFile

    crystal = decorated("rocksalt", ["Na", "Cl"])
    table = CifTable(("_sciagent_value_property", "_sciagent_value_unit"), [("density", "g/mL"), ("lattice_a", "")])
    text = cif_of(crystal.structure, "1_salt", {"_sciagent_standing": "hit, at last"}, [table])
    block = CifFile.from_str(text).data["1_salt"].data
    assert block["_sciagent_standing"] == "hit, at last"
    assert block["_sciagent_value_property"] == ["density", "lattice_a"]
    assert block["_sciagent_value_unit"] == ["g/mL", "?"]
    assert CifTable(("_x",), []).lines == []
