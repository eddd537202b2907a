"""Candidates, evidence and proposals as Parquet."""

from __future__ import annotations

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import pyarrow.parquet as pq
import pytest

from sciagent.report.export import parquet_tables, spreadsheets
from sciagent.report.parts import export_rows
from tests.support.reported import HIGH, Maker


def written(made: Maker, path: Path, write: Any) -> Path:
    with made.ledger.read() as connection, path.open("w", encoding="utf-8", newline="") as file:
        write(connection, made.row, file)
    return path


def test_parquet_keeps_units_and_levels_in_its_schema(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with told.ledger.read() as connection:
        assert parquet_tables.candidate_rows(connection, told.row).write(path) == 12
    frame = pandas.read_parquet(path)
    assert frame["r2.homo_lumo_gap"].dropna().tolist() == list(HIGH)
    assert frame["hit"].sum() == 2 and frame.loc[4, "r2.homo_lumo_gap.uncertainty"] != 0.0
    field = pq.read_schema(path).field("r2.homo_lumo_gap")
    assert field.metadata[b"unit"] == b"eV" and field.metadata[b"level"].startswith(b"PBE0/def2-SVP")
    assert pq.read_schema(path).metadata[b"campaign"] == b"dyes"


def test_parquet_is_written_in_row_groups(told: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_tables, "GROUP_ROWS", 5)
    monkeypatch.setattr(export_rows, "PAGE_ROWS", 3)
    path = tmp_path / "a.parquet"
    with told.ledger.read() as connection:
        assert parquet_tables.candidate_rows(connection, told.row).write(path) == 12
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [5, 5, 2]


def test_evidence_has_a_row_a_value_with_its_origin(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    with told.ledger.read() as connection:
        parquet_tables.evidence_rows(connection, told.row).write(path)
    frame = pandas.read_parquet(path)
    assert len(frame) == 12 + 9 + 5 + 1 + 1  # weights, gaps at two levels, one that did not converge, one from a file
    at_pbe0 = frame[frame["method"] == "PBE0"]
    assert at_pbe0["value"].tolist() == list(HIGH) and set(at_pbe0["unit"]) == {"eV"}
    assert set(at_pbe0["versions"]) == {'{"engine": "1.2"}'} and set(at_pbe0["campaign"]) == {"dyes"}
    failed = frame[frame["outcome"] == "not_converged"].iloc[0]
    assert failed["reason"] == "scf_not_converged" and pandas.isna(failed["value"])


def test_proposals_hold_what_could_not_be_read_too(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    with told.ledger.read() as connection:
        assert parquet_tables.proposal_rows(connection, told.row).write(path) == 14
    frame = pandas.read_parquet(path)
    bad = frame[frame["status"] == "refused"].iloc[0]
    assert (bad["text"], bad["reason"], bad["proposer"], bad["turn"]) == ("C1CC", "unparsable", "evolve", 3)
    rows = list(
        csv.DictReader(written(told, tmp_path / "p.csv", partial(spreadsheets.write_csv, proposed=True)).open())
    )
    assert [r["text"] for r in rows] == frame["text"].tolist()
    lines = (
        written(told, tmp_path / "p.jsonl", partial(export_rows.write_jsonl, proposed=True)).read_text().splitlines()
    )
    assert [json.loads(line)["status"] for line in lines] == frame["status"].tolist()
