"""The table of a campaign as CSV and JSON lines: each value with its unit, uncertainty and level."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from rdkit import Chem

from sciagent.domain.evidence_keys_and_pooled_replicates import Measured
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.report.export import parquet_tables, spreadsheets
from sciagent.report.parts import export_rows
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import evidence
from tests.support import reported
from tests.support.reported import SMILES, Maker
from tests.support.rows import new_evidence


def written(made: Maker, path: Path, write: Any) -> Path:
    with made.ledger.read() as connection, path.open("w", encoding="utf-8", newline="") as file:
        write(connection, made.row, file)
    return path


def test_csv_has_each_value_with_unit_uncertainty_and_level(told: Maker, tmp_path: Path) -> None:
    path = written(told, tmp_path / "a.csv", spreadsheets.write_csv)
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    assert [r["smiles"] for r in rows] == [Chem.CanonSmiles(s) for s in SMILES]
    first = rows[0]
    assert float(first["r2.homo_lumo_gap [eV]"]) == 4.3 and float(first["r2.homo_lumo_gap [eV] uncertainty"]) == 0.03
    assert first["r2.homo_lumo_gap [eV] level"] == "PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10"
    assert rows[4]["r2.homo_lumo_gap [eV] uncertainty"] == "" and rows[11]["r2.homo_lumo_gap [eV]"] == ""


def test_json_lines_say_the_same(told: Maker, tmp_path: Path) -> None:
    path = written(told, tmp_path / "a.jsonl", export_rows.write_jsonl)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["values"]["r2"]["homo_lumo_gap"] == {
        "value": 4.3,
        "uncertainty": 0.03,
        "unit": "eV",
        "level": "PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10",
    }
    assert rows[8]["values"]["r2"] == {}  # asked, and not converged


def test_two_levels_under_one_rung_stay_apart(own_ledger: Ledger, tmp_path: Path) -> None:
    from tests.support.reported import GFN2, PBE0, gap

    made = Maker(own_ledger, tmp_path)
    made.enter(("C",))
    made.answer(0, 1, gap(2.0, GFN2), gap(4.0, PBE0))
    with made.ledger.read() as connection:
        [entry] = export_rows.entries(connection, made.row, export_rows.columns(connection, made.row))
        values = export_rows.nested(entry)["r1"]
    assert {name: v["value"] for name, v in values.items()} == {
        f"homo_lumo_gap@{GFN2.label}": 2.0,
        f"homo_lumo_gap@{PBE0.label}": 4.0,
    }


def test_imported_values_have_columns_beside_those_of_the_rungs(own_ledger: Ledger, tmp_path: Path) -> None:
    made = Maker(own_ledger, tmp_path)
    made.enter(("C", "CC"))
    made.answer(0, 1, reported.gap(2.0, reported.GFN2))
    typed = Quantity(9.4, "eV", 0.1, as_typed="217 kcal/mol")
    measured = Measured("homo_lumo_gap", Level("experiment"), typed)
    new = new_evidence(made.ids[1], measured, verifier="import", subject="1", source="lab.csv")
    with own_ledger.begin() as connection:
        evidence.record(connection, [new])
    lines = written(made, tmp_path / "a.jsonl", export_rows.write_jsonl).read_text().splitlines()
    cell = {"value": 9.4, "uncertainty": 0.1, "unit": "eV", "level": "experiment", "as_typed": "217 kcal/mol"}
    assert json.loads(lines[1])["values"] == {"imported": {"homo_lumo_gap": cell}}
    [first, second] = csv.DictReader(written(made, tmp_path / "a.csv", spreadsheets.write_csv).open(encoding="utf-8"))
    name = "imported.homo_lumo_gap [eV]"
    assert (first[name], second[name], second[f"{name} level"]) == ("", "9.4", "experiment")
    with own_ledger.read() as connection:
        written_values = [
            row for row in parquet_tables.evidence_rows(connection, made.row).rows if row["rung"] == "imported"
        ]
        names = parquet_tables.candidate_rows(connection, made.row).schema.names
    assert [(row["source"], row["as_typed"]) for row in written_values] == [("lab.csv", "217 kcal/mol")]
    assert "imported.homo_lumo_gap" in names
