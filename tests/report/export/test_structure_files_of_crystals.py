"""CIF files and ASE databases of a campaign of crystals, and the cells among its JSON lines and Python rows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pymatgen.io.cif import CifFile

from sciagent.api.displayed_answers import candidates_of
from sciagent.chemistry.crystals.conventional_cell_and_cif import cif_of
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated
from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError
from sciagent.report.export.structure_files import write_ase, write_cif
from sciagent.report.parts.export_rows import AS_PROPOSED, write_jsonl
from sciagent.store.database.ledger import Ledger
from tests.support.reported import Maker

RELAXED = Level("CHGNet-0.3.0", "PBE+U", geometry="relaxed to 0.02 eV/angstrom")
A = 5.69


@pytest.fixture
def salts(own_ledger: Ledger, tmp_path: Path) -> Maker:
    """Rock salt, relaxed to an edge of A angstrom, and periclase as proposed."""
    made = Maker(own_ledger, tmp_path, subject="crystal", objectives=[])
    made.enter(("rocksalt: Na Cl", "rocksalt: Mg O"))
    structure = decorated("rocksalt", ["Na", "Cl"]).structure.copy()
    structure.scale_lattice(A**3 * len(structure) / 8)
    edge = Measured("lattice_a", RELAXED, Quantity(A, "angstrom", 0.01))
    made.answer(0, 1, edge, cif=cif_of(structure))
    return made


def test_a_cif_has_symmetry_and_its_values_are_data(salts: Maker, tmp_path: Path) -> None:
    path = tmp_path / "salts.cif"
    with salts.ledger.read() as connection, path.open("w", encoding="utf-8") as file:
        assert write_cif(connection, salts.row, salts.ledger.artifacts, file) == (2, 1)
    text = path.read_text(encoding="utf-8")
    first, second = (block.data for block in CifFile.from_str(text).data.values())
    assert first["_space_group_IT_number"] == "225"
    assert first["_atom_site_Wyckoff_symbol"] in (["b", "a"], ["a", "b"])
    assert float(first["_cell_length_a"]) == pytest.approx(A, abs=1e-6)
    assert (first["_sciagent_value_property"], first["_sciagent_value_unit"]) == (["lattice_a"], ["angstrom"])
    assert (first["_sciagent_value_number"], first["_sciagent_value_level"]) == (["5.69"], [RELAXED.label])
    assert first["_sciagent_cell_source"].startswith("r1, evidence ")
    assert second["_sciagent_cell_source"] == AS_PROPOSED and "_sciagent_value_number" not in second
    assert [read_crystal(block).text for block in text.split("\n\n") if block] == ["NaCl Fm-3m", "MgO Fm-3m"]


def test_json_lines_and_python_rows_have_the_cell(salts: Maker, tmp_path: Path) -> None:
    path = tmp_path / "salts.jsonl"
    with salts.ledger.read() as connection, path.open("w", encoding="utf-8") as file:
        assert write_jsonl(connection, salts.row, file, artifacts=salts.ledger.artifacts) == 2
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    relaxed, proposed = (line["structure"] for line in lines)
    assert relaxed["source"].startswith("r1, evidence ") and proposed["source"] == AS_PROPOSED
    assert relaxed["space_group"] == "Fm-3m" and sorted(relaxed["species"]) == ["Cl", "Na"]
    assert relaxed["conventional"]["a"] == pytest.approx(A, abs=1e-6)
    rows = list(candidates_of(salts.ledger, salts.row.name, []))
    assert [row.structure for row in rows] == [relaxed, proposed]
    assert rows[0].structure is not None and len(rows[0].structure["coordinates"]) == 2


def test_an_ase_database_has_the_primitive_cell(salts: Maker, tmp_path: Path) -> None:
    from ase.db import connect

    path = tmp_path / "salts.db"
    with salts.ledger.read() as connection:
        assert write_ase(connection, salts.row, salts.ledger.artifacts, path) == (2, 0)
    atoms = connect(path).get_atoms(1)
    assert len(atoms) == 2 and atoms.get_volume() == pytest.approx(A**3 / 4, rel=1e-6)


def test_a_campaign_of_molecules_has_no_cif(told: Maker, tmp_path: Path) -> None:
    with told.ledger.read() as connection, (tmp_path / "a.cif").open("w") as file, pytest.raises(UsageError):
        write_cif(connection, told.row, told.ledger.artifacts, file)
    with told.ledger.read() as connection, (tmp_path / "a.jsonl").open("w") as file:
        write_jsonl(connection, told.row, file, artifacts=told.ledger.artifacts)
    assert "structure" not in json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])
