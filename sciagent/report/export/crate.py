"""A campaign as an RO-Crate 1.1: spec, candidates, evidence, proposals, report, geometries, and their provenance.

Source: RO-Crate Metadata Specification 1.1, https://w3id.org/ro/crate/1.1
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.errors import UsageError
from sciagent.report.export import parquet
from sciagent.report.page.build import page
from sciagent.report.parts import table
from sciagent.report.parts.candidates import CARDS
from sciagent.report.parts.geometries import geometry
from sciagent.report.parts.provenance import RungProvenance, of_rungs
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database.artifacts import ArtifactStore
from sciagent.store.views import report_candidates, report_queries

SPECIFICATION = "1.1"
_ORCID = re.compile(r"^(?P<name>[^<>]+?)\s*<(?P<id>https://orcid\.org/\d{4}-\d{4}-\d{4}-\d{3}[\dX])>$")
_PARQUET = "application/vnd.apache.parquet"


@dataclass(frozen=True)
class Author:
    """An author of a crate."""

    name: str
    orcid: str | None = None
    """`https://orcid.org/0000-…`."""


def author(text: str) -> Author:
    """Parse `Ada Lovelace` or `Ada Lovelace <https://orcid.org/0000-0002-1825-0097>`. Raises UsageError."""
    if match := _ORCID.match(text.strip()):
        return Author(match["name"], match["id"])
    if not text.strip() or set("<>") & set(text):
        raise UsageError(f'--author "{text}": give a name, or "NAME <https://orcid.org/0000-0000-0000-0000>"')
    return Author(text.strip())


def licence(text: str | None) -> str:
    """The licence's URL, also from an SPDX identifier. Raises UsageError: the user must choose the crate's licence."""
    if not text:
        raise UsageError("an RO-Crate states its licence: --license CC-BY-4.0 (an SPDX identifier) or a URL")
    if re.match(r"^https?://\S+$", text):
        return text
    if not re.match(r"^[A-Za-z0-9.+-]+$", text):
        raise UsageError(f'--license "{text}": give an SPDX identifier, such as CC-BY-4.0, or a URL')
    return f"https://spdx.org/licenses/{text}"


def write_crate(
    connection: Connection,
    row: CampaignRow,
    artifacts: ArtifactStore,
    target: Path,
    authors: Sequence[Author],
    license_url: str,
) -> int:
    """Write a folder, or a ZIP if the name ends in .zip; returns how many files it describes."""
    if target.exists():
        raise UsageError(f"{target} exists already; name another, or remove it")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".crate-") as folder:
        inside = Path(folder) / "files"
        inside.mkdir()
        crate = _describe(connection, row, artifacts, inside, authors, license_url)
        n = len(crate.data_entities) - len([e for e in crate.data_entities if e.type == "Dataset"])
        if target.suffix == ".zip":
            part = Path(folder) / "crate.zip"
            crate.write_zip(part)
        else:
            part = Path(folder) / "crate"
            crate.write(part)
            part.chmod(0o755)
        part.replace(target)
    return n


def _describe(
    connection: Connection,
    row: CampaignRow,
    artifacts: ArtifactStore,
    inside: Path,
    authors: Sequence[Author],
    license_url: str,
) -> Any:
    from rocrate.rocrate import ROCrate

    begun, changed = report_queries.dates(connection, row)
    crate = ROCrate(version=SPECIFICATION)
    crate.name = f"sciagent campaign {row.name}"
    crate.description = row.spec.get("description") or f"Candidates, evidence and report of the campaign {row.name}."
    crate.datePublished = changed
    crate.license = _licence_entity(crate, license_url)
    people = [_person(crate, i, author_) for i, author_ in enumerate(authors)]
    crate.root_dataset["author"] = _plain(people)
    spec = _file(crate, inside, "campaign.yaml", row.source, "The campaign as it was given", "application/yaml")
    files = _tables(connection, row, crate, inside)
    html = page(connection, row, artifacts)
    files["report"] = _file(crate, inside, "report.html", html, "The report, for people", "text/html")
    geometries = _geometries(connection, row, artifacts, crate, inside)
    crate.mainEntity = files["evidence"]
    for rung in of_rungs(connection, row, rungs(connection, row.id)):
        _action(crate, rung, spec, [files["evidence"], *geometries], people, begun, changed)
    return crate


def _tables(connection: Connection, row: CampaignRow, crate: Any, inside: Path) -> dict[str, Any]:
    """Write candidates, evidence and proposals as Parquet, and candidates as CSV; each as a stream."""
    csv_path = inside / "candidates.csv"
    with csv_path.open("w", encoding="utf-8", newline="") as file:
        table.write_csv(connection, row, file)
    entities = {"csv": _added(crate, csv_path, "Candidates, a row each; columns carry unit and level", "text/csv")}
    for name, write, text in (
        ("candidates", parquet.write_candidates, "Candidates, a row each; units and levels in the fields' metadata"),
        ("evidence", parquet.write_evidence, "Evidence, a row a value: unit, uncertainty, level, verifier, versions"),
        ("proposals", parquet.write_proposals, "Everything that was proposed, unreadable texts and duplicates too"),
    ):
        path = inside / f"{name}.parquet"
        write(connection, row, path)
        entities[name] = _added(crate, path, text, _PARQUET)
    entities["evidence"]["variableMeasured"] = _plain([_variable(crate, c) for c in table.columns(connection, row)])
    return entities


def _variable(crate: Any, column: table.MeasuredColumn) -> Any:
    from rocrate.model.contextentity import ContextEntity

    return crate.add(
        ContextEntity(
            crate,
            f"#variable-{column.rung}-{column.name}".replace(" ", "_"),
            properties={
                "@type": "PropertyValue",
                "name": f"{column.rung}.{column.name}",
                "propertyID": column.property,
                "unitText": column.unit,
                "measurementTechnique": column.level,
                "description": column.description,
            },
        )
    )


def _geometries(
    connection: Connection, row: CampaignRow, artifacts: ArtifactStore, crate: Any, inside: Path
) -> list[Any]:
    """Write the geometries of the best candidates, under our own names, since verifiers chose those of artifacts."""
    best = report_candidates.best(connection, row, CARDS)
    answers = report_candidates.answers(connection, row, [candidate.id for candidate in best])
    folder, entities = inside / "geometries", []
    folder.mkdir()
    for candidate in best:
        if (geometry_file := geometry(artifacts, answers.get(candidate.id, []))) is None:
            continue
        path = folder / f"{candidate.key[:16]}.{geometry_file[1]}"
        path.write_text(geometry_file[0], encoding="utf-8")
        answer = geometry_file[2]
        text = f"Geometry of {candidate.text} from the rung {answer.rung}, evidence {answer.key}; angstrom"
        kind = "chemical/x-xyz" if geometry_file[1] == "xyz" else "chemical/x-cif"
        entities.append(_added(crate, path, text, kind, f"geometries/{path.name}"))
    return entities


def _action(
    crate: Any, rung: RungProvenance, spec: Any, results: Sequence[Any], people: Sequence[Any], begun: Any, ended: Any
) -> None:
    """A CreateAction for a rung: the verifier with its version and engines as instruments, its settings as text."""
    from rocrate.model.contextentity import ContextEntity

    r = rung.rung
    verifier = crate.add(_software(crate, r.verifier, r.verifier_version, f"Verifier of the rung {r.name}"))
    engines = [crate.add(_software(crate, k, v[-1], "Engine")) for k, v in rung.engines.items() if v]
    action = crate.add(
        ContextEntity(
            crate,
            f"#rung-{r.name}",
            properties={
                "@type": "CreateAction",
                "name": f"{r.name}: {r.verifier} {r.verifier_version}",
                "description": "; ".join(f"{k} = {v}" for k, v in rung.settings) or "no settings",
                "startTime": begun.isoformat(),
                "endTime": ended.isoformat(),
            },
        )
    )
    action["instrument"], action["object"] = _plain([verifier, *engines]), spec
    action["result"], action["agent"] = _plain(results), _plain(people)
    crate.root_dataset.append_to("mentions", action)


def _plain(entities: Sequence[Any]) -> Any:
    """A list of length 1 is written as its only item (section 4 of the specification)."""
    return entities[0] if len(entities) == 1 else list(entities)


def _software(crate: Any, name: str, version: str, text: str) -> Any:
    from rocrate.model.contextentity import ContextEntity

    return ContextEntity(
        crate,
        f"#software-{name}-{version}".replace(" ", "_"),
        properties={
            "@type": "SoftwareApplication",
            "name": name,
            "version": version,
            "softwareVersion": version,
            "description": f"{text}; run by sciagent {__version__}",
        },
    )


def _person(crate: Any, i: int, author_: Author) -> Any:
    from rocrate.model.person import Person

    return crate.add(Person(crate, author_.orcid or f"#author-{i}", properties={"name": author_.name}))


def _licence_entity(crate: Any, url: str) -> Any:
    from rocrate.model.contextentity import ContextEntity

    name = url.rsplit("/", 1)[-1]
    properties = {"@type": "CreativeWork", "name": name, "identifier": url, "description": f"Licence {name}: {url}"}
    return crate.add(ContextEntity(crate, url, properties=properties))


def _file(crate: Any, inside: Path, name: str, text: str, description: str, media_type: str) -> Any:
    path = inside / name
    path.write_text(text, encoding="utf-8")
    return _added(crate, path, description, media_type)


def _added(crate: Any, path: Path, description: str, media_type: str, name: str | None = None) -> Any:
    return crate.add_file(
        path,
        dest_path=name or path.name,
        properties={
            "name": name or path.name,
            "description": description,
            "encodingFormat": media_type,
            "contentSize": str(path.stat().st_size),
        },
    )
