"""Each export is read back by a reader that is not ours, and says what the ledger says."""

from __future__ import annotations

import csv
import json
import zipfile
from pathlib import Path
from typing import Any

import ase.db
import pandas
import pyarrow.parquet as pq
import pytest
from rdkit import Chem
from rocrate.rocrate import ROCrate

from sciagent.errors import UsageError
from sciagent.report.export import parquet
from sciagent.report.export.ase_database import write_ase
from sciagent.report.export.crate import author, licence, write_crate
from sciagent.report.export.sdf import one_line, write_sdf
from sciagent.report.parts import proposals, table
from sciagent.store.database.ledger import Ledger
from tests.support.reported import HIGH, SMILES, Maker


def written(made: Maker, path: Path, write: Any) -> Path:
    with made.ledger.read() as connection, path.open("w", encoding="utf-8", newline="") as file:
        write(connection, made.row, file)
    return path


def test_csv_has_each_value_with_unit_uncertainty_and_level(told: Maker, tmp_path: Path) -> None:
    path = written(told, tmp_path / "a.csv", table.write_csv)
    rows = list(csv.DictReader(path.open(encoding="utf-8")))
    assert [r["smiles"] for r in rows] == [Chem.CanonSmiles(s) for s in SMILES]
    first = rows[0]
    assert float(first["r2.homo_lumo_gap [eV]"]) == 4.3 and float(first["r2.homo_lumo_gap [eV] uncertainty"]) == 0.03
    assert first["r2.homo_lumo_gap [eV] level"] == "PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10"
    assert rows[4]["r2.homo_lumo_gap [eV] uncertainty"] == "" and rows[11]["r2.homo_lumo_gap [eV]"] == ""


def test_json_lines_say_the_same(told: Maker, tmp_path: Path) -> None:
    path = written(told, tmp_path / "a.jsonl", table.write_jsonl)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[0]["values"]["r2"]["homo_lumo_gap"] == {
        "value": 4.3,
        "uncertainty": 0.03,
        "unit": "eV",
        "level": "PBE0/def2-SVP//GFN2-xTB//ETKDGv3x10",
    }
    assert rows[8]["values"]["r2"] == {}  # asked, and not converged


def test_sdf_has_the_geometry_where_there_is_one(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "a.sdf"
    with told.ledger.read() as connection, path.open("w", encoding="utf-8") as file:
        counts = write_sdf(connection, told.row, told.ledger.artifacts, file)
    mols = list(Chem.SDMolSupplier(str(path), removeHs=False))
    assert counts == (12, 6) and len(mols) == 12 and all(mols)
    assert [m.GetConformer().Is3D() for m in mols] == [True] * 6 + [False] * 6
    assert [Chem.MolToSmiles(Chem.RemoveHs(m)) for m in mols] == [Chem.CanonSmiles(s) for s in SMILES]
    paracetamol = mols[2]
    stored = (told.folder / "2-1.xyz").read_text().splitlines()[2].split()
    assert list(paracetamol.GetConformer().GetAtomPosition(0)) == pytest.approx(
        [float(x) for x in stored[1:]], abs=1e-4
    )
    assert float(paracetamol.GetProp("r2.homo_lumo_gap [eV]")) == 4.1
    assert paracetamol.GetProp("r2.homo_lumo_gap level").startswith("PBE0/def2-SVP")
    assert float(paracetamol.GetProp("r2.homo_lumo_gap uncertainty [eV]")) == 0.03
    assert mols[11].GetProp("reason") == "element" and mols[11].GetProp("geometry") == "2D"


def test_a_text_cannot_end_an_sd_entry() -> None:
    assert "\n" not in one_line("a\n\n$$$$\nb") and "$$$$" not in one_line("a\n\n$$$$\nb")


def test_sdf_of_crystals_is_refused(ledger_file: Ledger, tmp_path: Path) -> None:
    made = Maker(ledger_file, tmp_path, subject="crystal")
    with made.ledger.read() as connection, (tmp_path / "a.sdf").open("w") as file, pytest.raises(UsageError):
        write_sdf(connection, made.row, made.ledger.artifacts, file)


def test_parquet_keeps_units_and_levels_in_its_schema(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    with told.ledger.read() as connection:
        assert parquet.write_candidates(connection, told.row, path) == 12
    frame = pandas.read_parquet(path)
    assert frame["r2.homo_lumo_gap"].dropna().tolist() == list(HIGH)
    assert frame["hit"].sum() == 2 and frame.loc[4, "r2.homo_lumo_gap.uncertainty"] != 0.0
    field = pq.read_schema(path).field("r2.homo_lumo_gap")
    assert field.metadata[b"unit"] == b"eV" and field.metadata[b"level"].startswith(b"PBE0/def2-SVP")
    assert pq.read_schema(path).metadata[b"campaign"] == b"dyes"


def test_parquet_is_written_in_row_groups(told: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP", 5)
    monkeypatch.setattr(table, "PAGE", 3)
    path = tmp_path / "a.parquet"
    with told.ledger.read() as connection:
        assert parquet.write_candidates(connection, told.row, path) == 12
    file = pq.ParquetFile(path)
    assert [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)] == [5, 5, 2]


def test_evidence_has_a_row_a_value_with_its_origin(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "e.parquet"
    with told.ledger.read() as connection:
        parquet.write_evidence(connection, told.row, path)
    frame = pandas.read_parquet(path)
    assert len(frame) == 12 + 9 + 5 + 1  # weights, gaps at two levels, and one that did not converge
    at_pbe0 = frame[frame["method"] == "PBE0"]
    assert at_pbe0["value"].tolist() == list(HIGH) and set(at_pbe0["unit"]) == {"eV"}
    assert set(at_pbe0["versions"]) == {'{"engine": "1.2"}'} and set(at_pbe0["campaign"]) == {"dyes"}
    failed = frame[frame["outcome"] == "not_converged"].iloc[0]
    assert failed["reason"] == "scf_not_converged" and pandas.isna(failed["value"])


def test_proposals_hold_what_could_not_be_read_too(told: Maker, tmp_path: Path) -> None:
    path = tmp_path / "p.parquet"
    with told.ledger.read() as connection:
        assert parquet.write_proposals(connection, told.row, path) == 14
    frame = pandas.read_parquet(path)
    bad = frame[frame["status"] == "refused"].iloc[0]
    assert (bad["text"], bad["reason"], bad["proposer"], bad["turn"]) == ("C1CC", "unparsable", "evolve", 3)
    rows = list(csv.DictReader(written(told, tmp_path / "p.csv", proposals.write_csv).open()))
    assert [r["text"] for r in rows] == frame["text"].tolist()
    lines = written(told, tmp_path / "p.jsonl", proposals.write_jsonl).read_text().splitlines()
    assert [json.loads(line)["status"] for line in lines] == frame["status"].tolist()


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


def test_an_ase_database_without_geometries_is_one(ledger_file: Ledger, tmp_path: Path) -> None:
    made = Maker(ledger_file, tmp_path)
    made.enter(("C",))
    with made.ledger.read() as connection:
        assert write_ase(connection, made.row, made.ledger.artifacts, tmp_path / "a.db") == (0, 1)
    assert len(ase.db.connect(str(tmp_path / "a.db"))) == 0


@pytest.fixture(scope="module")
def crate(told: Maker, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crate") / "dyes"
    people = [author("Ada Lovelace <https://orcid.org/0000-0002-1825-0097>"), author("Grace Hopper")]
    with told.ledger.read() as connection:
        write_crate(connection, told.row, told.ledger.artifacts, path, people, licence("CC-BY-4.0"))
    return path


def test_a_crate_is_read_back_by_its_library(crate: Path) -> None:
    read = ROCrate(crate)
    assert read.name == "sciagent campaign dyes" and read.license.id == "https://spdx.org/licenses/CC-BY-4.0"
    people = read.root_dataset["author"]
    assert [p["name"] for p in people] == ["Ada Lovelace", "Grace Hopper"]
    assert people[0].id == "https://orcid.org/0000-0002-1825-0097"
    assert len([e for e in read.data_entities if e.id.startswith("geometries/")]) == 6
    assert read.mainEntity.id == "evidence.parquet"
    [gap] = [e for e in read.get_entities() if e.get("name") == "r2.homo_lumo_gap"]
    assert gap["unitText"] == "eV" and gap["measurementTechnique"].startswith("PBE0/def2-SVP")


def test_a_crate_keeps_what_the_specification_demands(crate: Path) -> None:
    """RO-Crate 1.1: descriptor, root data entity and its properties, every file there, no reference dangling."""
    graph = json.loads((crate / "ro-crate-metadata.json").read_text())
    assert graph["@context"][0] if isinstance(graph["@context"], list) else graph["@context"]
    entities = {e["@id"]: e for e in graph["@graph"]}
    assert len(entities) == len(graph["@graph"])
    descriptor = entities["ro-crate-metadata.json"]
    assert descriptor["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"} and descriptor["about"] == {"@id": "./"}
    root = entities["./"]
    assert root["@type"] == "Dataset"
    assert all(root.get(name) for name in ("name", "description", "datePublished", "license", "author", "hasPart"))
    for entity in entities.values():
        kinds = entity["@type"] if isinstance(entity["@type"], list) else [entity["@type"]]
        if "File" in kinds and entity["@id"] != "ro-crate-metadata.json":
            path = crate / entity["@id"]
            assert path.is_file() and str(path.stat().st_size) == entity["contentSize"]
            assert {"@id": entity["@id"]} in root["hasPart"]
        for value in entity.values():
            assert not isinstance(value, list) or len(value) != 1 or entity["@id"] == "./", entity["@id"]
            for one in value if isinstance(value, list) else [value]:
                if isinstance(one, dict) and not one["@id"].startswith("http"):
                    assert one["@id"] in entities, one
    assert {p.relative_to(crate).as_posix() for p in crate.rglob("*") if p.is_file()} <= set(entities)


def test_each_rung_is_an_action_with_its_verifier_and_engines(crate: Path) -> None:
    read = ROCrate(crate)
    actions = {e.id: e for e in read.get_by_type("CreateAction")}
    assert set(actions) == {"#rung-r0", "#rung-r1", "#rung-r2"}
    tools = {(i["name"], i["softwareVersion"]) for i in actions["#rung-r2"]["instrument"]}
    assert tools == {("toy2", "1"), ("engine", "1.2")}
    assert actions["#rung-r2"]["description"] == "functional = PBE0"
    assert actions["#rung-r2"]["object"].id == "campaign.yaml" and actions["#rung-r2"]["agent"]


def test_a_crate_as_a_zip_and_never_over_something(told: Maker, crate: Path, tmp_path: Path) -> None:
    path = tmp_path / "dyes.zip"
    with told.ledger.read() as connection:
        write_crate(connection, told.row, told.ledger.artifacts, path, [author("Ada")], licence("MIT"))
        with pytest.raises(UsageError, match="exists already"):
            write_crate(connection, told.row, told.ledger.artifacts, path, [author("Ada")], licence("MIT"))
    assert set(zipfile.ZipFile(path).namelist()) >= {"ro-crate-metadata.json", "report.html", "candidates.csv"}
    assert [one.name for one in tmp_path.iterdir()] == ["dyes.zip"]


@pytest.mark.parametrize("text", [None, "", "no such thing", "CC BY"])
def test_a_crate_without_a_licence_is_refused(text: str | None) -> None:
    with pytest.raises(UsageError, match=r"CC-BY-4\.0"):
        licence(text)


@pytest.mark.parametrize("text", ["", "Ada <ada@example.org>", "Ada <https://orcid.org/1>"])
def test_an_author_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="orcid"):
        author(text)


@pytest.fixture
def ledger_file(migrated_sqlite: Path, tmp_path: Path) -> Any:
    path = tmp_path / "ledger.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    opened = Ledger(str(path), artifacts=tmp_path / "artifacts")
    yield opened
    opened.close()


def test_two_levels_under_one_rung_stay_apart(ledger_file: Ledger, tmp_path: Path) -> None:
    from tests.support.reported import GFN2, PBE0, gap

    made = Maker(ledger_file, tmp_path)
    made.enter(("C",))
    made.answer(0, 1, gap(2.0, GFN2), gap(4.0, PBE0))
    with made.ledger.read() as connection:
        [entry] = table.entries(connection, made.row, table.columns(connection, made.row))
        values = table.nested(entry)["r1"]
    assert {name: v["value"] for name, v in values.items()} == {
        f"homo_lumo_gap@{GFN2.label}": 2.0,
        f"homo_lumo_gap@{PBE0.label}": 4.0,
    }
