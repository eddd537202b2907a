"""A campaign in kcal/mol on a file with names and dirty rows: both are followed into every output."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from sciagent.agent.tools.showing_tools_and_tools_of_subject import budget, inspect
from sciagent.agent.tools.tool_contract_and_calls import ToolContext
from sciagent.api.campaign import Campaign
from sciagent.campaign.core.create_and_open import open_campaign_for_people
from sciagent.campaign.proposing.briefing_and_workbench import AgentWorkbench
from sciagent.domain.proposer_interfaces import ProposalIn
from sciagent.store.database.ledger import Ledger
from sciagent.verification.sandbox.host import Worker
from tests.support.campaigns import sciagent
from tests.support.commands import Typed

LIBRARY = """smiles,id,supplier
CCO,ETH-1,Acme
OCC,ETH-2,Bolt
CC(=O)[O-].[Na+],SALT-7,Acme
c1ccccc,BAD-3,Acme
[Fe],MET-4,Bolt
[CH3],RAD-5,Bolt
CC(=O)N,AMD-6,Acme
CCCC,BUT-8,
"""
MEASURED = "smiles,code,dg\nCCO,LAB-1,-5.010\n"
SPEC = """
campaign: desk
subject: molecule
standardise: parent
objectives:
  - {property: solvation_free_energy, window: [-8, -4], unit: kcal/mol}
ladder:
  - verifier: molecule.checks
  - rung: gfn2
    verifier: xtb.solvation
    settings: {method: GFN2-xTB, geometry: {method: mmff94, conformers: 1}}
  - rung: gfn1
    verifier: xtb.solvation
    settings: {geometry: {method: mmff94, conformers: 1}}
    gate: {solvation_free_energy: {max: 0.5, unit: kcal/mol}}
goal: {kind: hits, count: 50}
budget: {core_seconds: 600}
proposer: {kind: screen, file: library.csv, keep: [id, supplier]}
scheduler: {kind: exhaustive}
workers: 1
"""
UNIT = "kcal/mol"
KEPT = ("ETH-1", "ETH-2", "SALT-7", "MET-4", "RAD-5", "AMD-6", "BUT-8")  # BAD-3 is not a molecule


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the finished campaign."""
    folder = tmp_path_factory.mktemp("desk")
    for name, text in {"library.csv": LIBRARY, "measured.csv": MEASURED, "desk.yaml": SPEC}.items():
        (folder / name).write_text(text)
    value = ["--value", f"dg=solvation_free_energy[{UNIT}]", "--uncertainty", "dg=0.2", "--keep", "code"]
    sciagent("run", "desk.yaml", "--no-report", cwd=folder)
    sciagent("import", "measured.csv", *value, "--method", "experiment", "--phase", "water", cwd=folder)
    sciagent("report", "desk", cwd=folder)
    return folder


@pytest.fixture
def ledger(desk: Path) -> Iterator[Ledger]:
    opened = Ledger(str(desk / "sciagent.db"))
    yield opened
    opened.close()


@pytest.fixture
def typed(ledger: Ledger) -> Typed:
    return Typed(ledger)


def speaks_of_no_other_unit(text: str) -> bool:
    return UNIT in text and not re.search(r"\beV\b", text)


def test_best_names_the_molecules_and_values_have_the_unit(typed: Typed) -> None:
    text = typed.told("best", "desk")
    assert speaks_of_no_other_unit(text) and "ETH-1; ETH-2" in text and "SALT-7" in text
    assert "\t-5.010\t0.200\t" in text  # the measured value and its uncertainty, as they were typed
    first = typed.data("best", "desk")[0]
    assert first["names"] == {"id": ["ETH-1", "ETH-2"], "supplier": ["Acme", "Bolt"], "imported.code": ["LAB-1"]}
    assert first["values"]["solvation_free_energy"]["unit"] == UNIT == first["imported"][0]["unit"]
    assert first["values"]["solvation_free_energy"]["value"] == pytest.approx(-5.0, abs=0.5)


@pytest.mark.parametrize("name", [*KEPT, "LAB-1"])
def test_explain_knows_each_name_and_gives_reasons_in_the_unit(typed: Typed, name: str) -> None:
    text = typed.told("explain", name)
    assert name in text and not re.search(r"\beV\b", text)
    if name == "AMD-6":
        assert re.search(r"= -1\d\.\d+ ± 0\.\d+ kcal/mol, objective -8 ≤ solvation_free_energy ≤ -4 kcal/mol", text)
    if name == "BUT-8":
        assert "gate solvation_free_energy ≤ 0.5 kcal/mol" in text


def test_verify_and_status_use_the_unit(typed: Typed, desk: Path) -> None:
    text = typed.call("verify", "CC(N)=O", "--campaign", str(desk / "desk.yaml")).output
    assert speaks_of_no_other_unit(text) and "-4 kcal/mol" in text
    assert "eV" not in typed.told("status", "desk")


def test_the_report_has_names_and_one_unit(desk: Path) -> None:
    page = (desk / "desk.report.html").read_text()
    text = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert speaks_of_no_other_unit(text)
    for name in (*KEPT, "BAD-3", "LAB-1", "Acme"):
        assert name in text, name
    assert "-5.010 ± 0.200 kcal/mol" in text
    limits = re.sub(r"\s+", " ", text)
    assert "-8 ≤ solvation free energy ≤ -4 kcal/mol" in limits and "solvation free energy ≤ 0.5 kcal/mol" in limits


def test_every_export_has_names_and_units(desk: Path, typed: Typed, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"desk.{kind}" for kind in ("csv", "jsonl", "sdf", "parquet", "db", "zip")}
    for path in files.values():
        typed.told("export", "desk", "-o", str(path), *(["--license", "CC0-1.0"] if path.suffix == ".zip" else []))
    column = f"gfn1.solvation_free_energy [{UNIT}]"
    rows = list(csv.DictReader(files["csv"].open()))
    ethanol = rows[0]
    assert ethanol["name"] == "ETH-1; ETH-2" and ethanol["name.supplier"] == "Acme; Bolt"
    assert ethanol["name.imported.code"] == "LAB-1" and float(ethanol[column]) == pytest.approx(-5.0, abs=0.5)
    assert "[eV]" not in files["csv"].read_text() and {row["name"] for row in rows} >= {"MET-4", "RAD-5"}
    line = json.loads(files["jsonl"].read_text().splitlines()[0])
    assert line["names"]["id"] == ["ETH-1", "ETH-2"] and line["values"]["gfn1"]["solvation_free_energy"]["unit"] == UNIT
    sdf = files["sdf"].read_text()
    assert sdf.startswith("ETH-1; ETH-2\n") and column in sdf and "[eV]" not in sdf
    assert re.search(r">  <name.supplier>.*\nAcme; Bolt", sdf)
    _parquet(files["parquet"], float(ethanol[column]))
    _ase(files["db"], float(ethanol[column]))
    with ZipFile(files["zip"]) as crate:
        metadata = crate.read("ro-crate-metadata.json").decode()
        assert f'"unitText": "{UNIT}"' in metadata and '"unitText": "eV"' not in metadata
        assert "ETH-1; ETH-2" in crate.read("candidates.csv").decode()
    proposals = tmp_path / "proposals.csv"
    typed.told("export", "desk", "--what", "proposals", "-o", str(proposals))
    rows = list(csv.DictReader(proposals.open(encoding="utf-8")))
    assert [row["name"] for row in rows].count("ETH-1; ETH-2") == 2  # both rows of the duplicate
    (refused,) = [row for row in rows if "BAD-3" in row["detail"]]
    assert refused["name"] == ""


def _parquet(path: Path, value: float) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    assert table.schema.field("gfn1.solvation_free_energy").metadata[b"unit"].decode() == UNIT
    assert table.column("name")[0].as_py() == "ETH-1; ETH-2"
    assert table.column("gfn1.solvation_free_energy")[0].as_py() == value


def _ase(path: Path, value: float) -> None:
    from ase.db import connect

    database = connect(str(path))
    row = next(database.select(name="ETH-1; ETH-2"))
    assert row.gfn1_solvation_free_energy == value and row.data["names"]["supplier"] == ["Acme", "Bolt"]
    assert database.metadata["key_descriptions"]["gfn1_solvation_free_energy"][2] == UNIT


def test_python_has_names_and_units(ledger: Ledger) -> None:
    campaign = Campaign.open("desk", ledger)
    frame = campaign.candidates().to_pandas()
    assert frame["name"][0] == "ETH-1; ETH-2"
    assert frame["gfn1.solvation_free_energy"][0] == pytest.approx(-5.0, abs=0.5)
    first = next(iter(campaign.candidates()))
    assert first.names["id"] == ("ETH-1", "ETH-2") and str(first.value("solvation_free_energy")).endswith(UNIT)
    assert campaign.best(1).to_pandas()["name"][0] == "ETH-1; ETH-2"
    assert "AMD-6" in repr(campaign.best()) and "SALT-7" in campaign.best()._repr_html_()
    value = next(v for v in campaign.evidence("solvation_free_energy") if v.verifier != "import")
    assert value.unit == UNIT


def test_an_agent_reads_the_goal_and_the_results_in_the_unit_and_predicts_in_it(ledger: Ledger, desk: Path) -> None:
    built = open_campaign_for_people(ledger, "desk")
    with Worker(built.scratch()) as worker:
        bench = AgentWorkbench(built, worker, room=4, trajectory=0)
        run = ToolContext(bench)
        assert "-8 ≤ solvation_free_energy ≤ -4 kcal/mol" in budget(run).text
        seen = inspect(run, "CCO").text
        assert re.search(r"gfn1: solvation_free_energy -\d\.\d+ kcal/mol", seen)
        stated = {"solvation_free_energy": {"value": -6.0, "error": 1.0}}
        bench.propose([ProposalIn("CCCO", predicted=stated)])
        kept = bench._entries[0].given.predicted["solvation_free_energy"]
    assert kept["value"] == pytest.approx(-6 * 4.184 / 96.48533212331)  # the ledger's unit
