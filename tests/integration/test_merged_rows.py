"""One molecule in several rows of a campaign's file: every output keeps the columns of a row together."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path

import openpyxl
import pyarrow.parquet as pq
import pytest
from rdkit import Chem

from sciagent.api.campaign import Campaign
from sciagent.store.database.ledger import Ledger
from tests.support.campaigns import sciagent
from tests.support.commands import Typed

LIBRARY = """smiles,id,price
CCO,A1,10
OCC,A2,
CCO,A3,10
CCO,A4,7
CCO,A4,7
CCCC,B1,3
"""
MEASURED = "smiles,id,logp\nCCO,A3,-0.3\nCCCC,A1,2.9\n"
"""The identifier of butane is wrong: A1 is ethanol."""
SPEC = """
campaign: catalogue
subject: molecule
objectives:
  - {property: logp, window: [-1, 1]}
ladder:
  - verifier: molecule.checks
goal: {kind: hits, count: 50}
budget: {core_seconds: 600}
proposer: {kind: screen, file: library.csv, keep: [id, price]}
scheduler: {kind: exhaustive}
workers: 1
"""
ALIGNED = {"id": ["A1", "A2", "A3", "A4"], "price": ["10", "n/a", "10", "7"]}
NAME = "A1; A2; A3; A4"
PRICE = "10; n/a; 10; 7"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the finished campaign, with measured values."""
    made = tmp_path_factory.mktemp("catalogue")
    for name, text in {"library.csv": LIBRARY, "measured.csv": MEASURED, "catalogue.yaml": SPEC}.items():
        (made / name).write_text(text)
    sciagent("run", "catalogue.yaml", "--no-report", cwd=made)
    sciagent("import", "measured.csv", "--value", "logp=logp", "--method", "experiment", cwd=made)
    sciagent("report", "catalogue", cwd=made)
    return made


@pytest.fixture
def ledger(folder: Path) -> Iterator[Ledger]:
    opened = Ledger(str(folder / "sciagent.db"))
    yield opened
    opened.close()


@pytest.fixture
def typed(ledger: Ledger) -> Typed:
    return Typed(ledger)


def test_answers_keep_the_rows_together(typed: Typed) -> None:
    ethanol, butane = typed.data("best", "catalogue")
    assert ethanol["names"] == ALIGNED == typed.data("explain", "A2")["names"]
    assert butane["names"] == {"id": ["B1"], "price": ["3"], "imported.id": ["A1"]}
    assert NAME in typed.told("best", "catalogue")
    assert "  id: A2; price: n/a\n  id: A3; price: 10\n  id: A4; price: 7\n" in typed.told("explain", "CCO")


def test_an_imported_identifier_renames_nothing_and_finds_no_other_molecule(typed: Typed) -> None:
    butane = typed.told("explain", "B1")
    assert "  id: B1; price: 3\n  imported.id: A1\n" in butane
    assert typed.data("explain", "A1")["text"] == "CCO"
    assert re.search(r"^B1\t", typed.told("best", "catalogue"), flags=re.MULTILINE)


def test_exports_keep_the_rows_together(typed: Typed, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"catalogue.{kind}" for kind in ("csv", "jsonl", "sdf", "parquet", "xlsx")}
    for path in files.values():
        typed.told("export", "catalogue", "-o", str(path))
    ethanol, butane = csv.DictReader(files["csv"].open(encoding="utf-8"))
    assert (ethanol["name"], ethanol["name.price"], ethanol["name.imported.id"]) == (NAME, PRICE, "")
    assert (butane["name"], butane["name.price"], butane["name.imported.id"]) == ("B1", "3", "A1")
    assert json.loads(files["jsonl"].read_text().splitlines()[0])["names"] == ALIGNED
    record = next(Chem.SDMolSupplier(str(files["sdf"])))
    assert record.GetProp("_Name") == record.GetProp("name") == NAME and record.GetProp("name.price") == PRICE
    table = pq.read_table(files["parquet"])
    assert (table.column("name")[0].as_py(), table.column("name.price")[0].as_py()) == (NAME, PRICE)
    heading, first, *_ = openpyxl.load_workbook(files["xlsx"])["candidates"].values
    row = dict(zip(heading, first, strict=True))
    assert (row["name"], row["name.price"]) == (NAME, PRICE)


def test_the_report_has_a_line_for_each_row(folder: Path) -> None:
    page = (folder / "catalogue.report.html").read_text(encoding="utf-8")
    lines = [re.sub(r"<[^>]+>", "", line) for line in re.findall(r'<p class="names">.*?</p>', page)]
    assert lines[:4] == ["A1 id · 10 price", "A2 id · n/a price", "A3 id · 10 price", "A4 id · 7 price"]


def test_python_has_the_rows(ledger: Ledger) -> None:
    campaign = Campaign.open("catalogue", ledger)
    first = next(iter(campaign.candidates()))
    assert {field: list(texts) for field, texts in first.names.items()} == ALIGNED
    frame = campaign.candidates().to_pandas()
    assert (frame["name"][0], frame["name.price"][0]) == (NAME, PRICE)


def test_rows_that_are_added_later_are_appended(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("smiles,id\nCCCC,B2\nCCCC,B1\n")
    typed.told("add", "--file", str(tmp_path / "more.csv"), "--campaign", "catalogue", "--reason", "new lots")
    names = typed.data("explain", "B1")["names"]
    assert names == {"id": ["B1", "B2"], "price": ["3", "n/a"], "imported.id": ["A1"]}
