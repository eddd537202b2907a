"""An ASE database of a campaign: geometries, values and units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ase.db
import pytest

from sciagent.report.export.structure_files import write_ase
from sciagent.store.database.ledger import Ledger
from tests.support.reported import Maker


def test_an_ase_database_has_geometries_values_and_units(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with told.ledger.read() as connection:
        assert write_ase(connection, told.row, told.ledger.artifacts, path) == (6, 6)
    with ase.db.connect(str(path)) as db:
        assert len(db) == 6 and db.count("r2_homo_lumo_gap>4.5") == 2
        row = db.get(id=1)
        assert row.toatoms().get_chemical_formula() == "C6H6" and row.hit and row.r2_homo_lumo_gap == 4.3
        assert row.data["values"]["r2"]["homo_lumo_gap"]["level"].startswith("PBE0")
        description = db.metadata["key_descriptions"]["r2_homo_lumo_gap"]
    assert description[2] == "eV" and "PBE0/def2-SVP" in description[1]


def test_an_ase_database_without_geometries_is_one(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("C",))
    with made.ledger.read() as connection:
        assert write_ase(connection, made.row, made.ledger.artifacts, tmp_path / "a.db") == (0, 1)
    assert len(ase.db.connect(str(tmp_path / "a.db"))) == 0


@pytest.fixture
def own_ledger(migrated_sqlite: Path, tmp_path: Path) -> Any:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    opened = Ledger(str(path), artifacts=tmp_path / "artifacts")
    yield opened
    opened.close()
