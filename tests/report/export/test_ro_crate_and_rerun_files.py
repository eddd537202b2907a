"""A research object crate of a campaign, checked with the library that reads crates."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from rocrate.rocrate import ROCrate

from sciagent.errors import UsageError
from sciagent.report.export.ro_crate_and_rerun_files import author, licence, write_crate
from tests.support.reported import Maker


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
