"""Every candidate of a campaign: rows, data frames and Parquet say the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from sciagent import Campaign
from sciagent.api.displayed_answers import candidates_of
from sciagent.report.export.spreadsheets import chosen_columns
from sciagent.store.database.ledger import Ledger
from tests.support.reported import Maker

STRUCTURE = ["kind", "text", "smiles", "formula"]


def test_rows_data_frame_and_parquet_say_the_same(done: Campaign, tmp_path: Path) -> None:
    rows = list(done.candidates())
    frame = done.candidates().to_pandas()
    file = pq.read_table(done.candidates().to_parquet(tmp_path / "candidates.parquet"))
    assert [row.smiles for row in rows] == list(frame["smiles"]) == file["smiles"].to_pylist()
    energies = [next((v.value for v in row.values if v.rung == "toy"), None) for row in rows]
    assert energies == file["toy.toy_energy"].to_pylist() == [3, 6, 5, 8, None]
    assert file.schema.field("toy.toy_energy").metadata[b"unit"] == b"kJ/mol"


def test_a_row_knows_each_property_at_the_highest_rung(done: Campaign) -> None:
    row = next(row for row in done.candidates() if row.smiles == "CCO")
    assert repr(row.value("toy_energy")) == "<toy_energy = 3.0 ± 0.2 kJ/mol  [toy_energy]>"
    measured = row.value("toy_energy")
    assert measured is not None
    imported = measured.model_copy(update={"rung": "imported", "value": 9.0})
    assert replace(row, values=(*row.values, imported)).value("toy_energy") == measured
    assert replace(row, values=(imported,)).value("toy_energy") is imported
    assert row.value("homo") is None and repr(row) == f"<CCO: settled, {len(row.values)} values>"
    frame = done.candidates().head(1).to_pandas()
    assert frame["toy.toy_energy"][0] == 3 and "values" not in frame


def test_a_molecule_has_a_kind_and_a_formula(done: Campaign) -> None:
    row = next(row for row in done.candidates() if row.smiles == "CCO")
    assert [getattr(row, name) for name in STRUCTURE] == ["molecule", "CCO", "CCO", "C2H6O"]


def test_a_crystal_has_a_text_and_a_formula_and_no_smiles(tmp_path: Path) -> None:
    made = Maker(Ledger(str(tmp_path / "crystals.db")), tmp_path, subject="crystal")
    made.enter(("rocksalt: Na Cl",))
    query = candidates_of(made.ledger, made.row.name, [])
    [row] = query
    assert [getattr(row, name) for name in STRUCTURE] == ["crystal", "NaCl Fm-3m", None, "NaCl"]
    assert repr(row).startswith("<NaCl Fm-3m: ") and "NaCl Fm-3m" in repr(query) and "<svg" in query._repr_html_()
    [stored] = pq.read_table(query.to_parquet(tmp_path / "candidates.parquet")).to_pylist()
    assert [stored[name] for name in STRUCTURE] == ["crystal", "NaCl Fm-3m", None, "NaCl"]
    frame = query.to_pandas()
    assert frame["text"][0] == "NaCl Fm-3m" and frame["smiles"].isna().all()
    with made.ledger.read() as connection:
        assert next(column.heading for column in chosen_columns(connection, made.row, None)) == "text"
    made.ledger.close()
