"""Exports a campaign as an RO-Crate 1.1: spec, candidates, evidence, proposals, report, geometries, series, provenance.

Source: RO-Crate Metadata Specification 1.1, https://w3id.org/ro/crate/1.1

The first half of the module collects what is needed to run the campaign again: input files, imported values, versions
and commands. `write_crate` in the second half writes the crate; `author` and `licence` parse its options.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.properties_and_levels import Level
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError
from sciagent.report.analysis.rung_spending_comparisons_and_worth import RungProvenance, rung_provenance
from sciagent.report.export import parquet_tables
from sciagent.report.export.spreadsheets import series_files, write_csv
from sciagent.report.page.html_page import page
from sciagent.report.parts import export_rows
from sciagent.report.parts.best_candidate_cards_and_table import MAX_CARDS
from sciagent.report.parts.export_rows import PAGE_ROWS
from sciagent.report.parts.wording import setting
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.report_candidates import best_candidates, candidates_in_order, imported_answers, rung_answers

ENGINE_PACKAGES = ("ase", "numpy", "pint", "pyscf", "pyscf-dispersion", "rdkit", "scipy", "tblite")
SPEC_FILE = "campaign.yaml"
"""The campaign file as it was given."""
RERUN_FILE = "rerun.yaml"
"""The campaign file with the paths of the crate; it is left out if the given paths hold."""
CsvCells = tuple[str, str, str, str]
"""(SMILES, value as typed, unit, uncertainty) of an imported value."""


@dataclass(frozen=True)
class InputFile:
    """A file that the campaign file names."""

    given: str
    """The path as it stands in the campaign file."""
    sha256: str
    """Hash of its content when the campaign was entered."""
    content: bytes | None
    """The content; None if the file is gone or has changed since."""

    @property
    def inside(self) -> str:
        """Path in the crate: the given path, or a path in the folder `inputs` if it is absolute or has `..`."""
        path = PurePosixPath(self.given)
        return f"inputs/{path.name}" if path.is_absolute() or ".." in path.parts else str(path)


def input_files(row: CampaignRow) -> list[InputFile]:
    """Returns the files that the campaign file names and whose hash the ledger knows, in the order of the file."""
    from ruamel.yaml import YAML

    mappings = [part for part in _parts(row.spec) if isinstance(part, Mapping)]
    hashes = {part["name"]: part["sha256"] for part in mappings if "name" in part and "sha256" in part}
    files: dict[str, InputFile] = {}
    for text in _parts(YAML(typ="safe", pure=True).load(row.source)):
        if not isinstance(text, str) or text in files:
            continue
        sha256 = hashes.get(PurePosixPath(text).name)
        if sha256 is None:
            continue
        path = Path(row.base) / text
        content = path.read_bytes() if path.is_file() else None
        is_same = content is not None and hashlib.sha256(content).hexdigest() == sha256
        files[text] = InputFile(text, sha256, content if is_same else None)
    return list(files.values())


def _parts(part: Any) -> Iterator[Any]:
    """Yields a part of a JSON or YAML document, and all parts inside it, in their order."""
    yield part
    inner_parts: Iterable[Any] = ()
    if isinstance(part, Mapping):
        inner_parts = part.values()
    elif isinstance(part, list | tuple):
        inner_parts = part
    for inner_part in inner_parts:
        yield from _parts(inner_part)


def rerun_spec(source: str, files: Sequence[InputFile]) -> str | None:
    """Returns the campaign file with the paths of the crate; None if the given paths hold in the crate, too."""
    moved = [file for file in files if file.inside != file.given]
    for file in moved:
        source = source.replace(file.given, file.inside)
    return source if moved else None


@dataclass(frozen=True)
class ImportedFile:
    """Imported values of one property from one source at one level, as a file for `sciagent import`."""

    name: str
    """Path in the crate."""
    source: str
    """The file from which they were imported, with the beginning of its SHA-256."""
    rows: list[CsvCells]
    command: str
    """The command that imports them."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("smiles", "value", "unit", "uncertainty"), *self.rows])


def imported_files(connection: Connection, row: CampaignRow) -> list[ImportedFile]:
    """Returns the imported values of the campaign's candidates, as files that `sciagent import` can read."""
    rows_by_group: dict[tuple[str, str, Level], list[CsvCells]] = {}
    last_seq = -1
    while page := candidates_in_order(connection, row, last_seq, PAGE_ROWS):
        answers = imported_answers(connection, [candidate.id for candidate in page])
        for candidate in page:
            for answer in answers.get(candidate.id, ()):
                for measured in answer.measured:
                    group = (answer.source, measured.property, measured.level)
                    cells = _cells(candidate.text, measured.quantity)
                    rows_by_group.setdefault(group, []).append(cells)
        last_seq = page[-1].seq
    files = []
    for number, (group, rows) in enumerate(rows_by_group.items(), start=1):
        source, property_name, level = group
        files.append(_imported_file(number, source, property_name, level, rows))
    return files


def _cells(smiles: str, quantity: Quantity) -> CsvCells:
    """Returns the cells of an imported value. The digits are as they were typed if the unit is the same."""
    typed_number, _, typed_unit = (quantity.as_typed or "").rpartition(" ")
    value = f"{quantity.censoring.sign}{quantity.value!r}"
    if typed_number and typed_unit == quantity.unit:
        value = typed_number
    uncertainty = "" if quantity.uncertainty is None else repr(quantity.uncertainty)
    return smiles, value, quantity.unit, uncertainty


def _imported_file(number: int, source: str, property_name: str, level: Level, rows: list[CsvCells]) -> ImportedFile:
    """Returns the file of a group of values. number: of the file, from 1."""
    name = f"imports/{number:02d}_{property_name}.csv"
    words = [
        "sciagent",
        "import",
        name,
        "--value",
        f"value={property_name}[unit]",
        "--uncertainty",
        "value=uncertainty",
    ]
    for option in ("method", "basis", "phase"):
        text = getattr(level, option)
        if text:
            words += [f"--{option}", text]
    return ImportedFile(name, source, rows, shlex.join(words))


def versions(rungs: Sequence[RungProvenance]) -> str:
    """Returns as JSON the versions of sciagent and the engines of this machine, and those that the evidence names."""
    packages = {"sciagent": __version__, "python": platform.python_version()}
    for name in ENGINE_PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    used = {}
    for provenance in rungs:
        rung = provenance.rung
        used[rung.name] = {"verifier": rung.verifier, "version": rung.verifier_version, "engines": provenance.engines}
    return json.dumps({"written by": packages, "rungs": used}, indent=2) + "\n"


def readme(row: CampaignRow, spec: str, files: Sequence[InputFile], imports: Sequence[ImportedFile]) -> str:
    """Returns the README of a crate. spec: name of the campaign file to run."""
    commands = [each.command for each in imports] + [f"sciagent run {spec}"]
    lines = [
        f"# Campaign {row.name}",
        "",
        "`report.html` is the report. `candidates.csv` and the Parquet files hold the results, `geometries` the",
        "structures of the best, and `ro-crate-metadata.json` says what each file is.",
        "",
        f"To run the campaign again, install sciagent {__version__} with the engines of `versions.json`, and type:",
        "",
        "```sh",
        *commands,
        "```",
        "",
    ]
    if spec != SPEC_FILE:
        lines += [f"`{SPEC_FILE}` is the campaign as it was given; `{spec}` names its files as they lie here.", ""]
    for file in files:
        note = "; it was gone or had changed, so it is missing here" if file.content is None else ""
        lines.append(f"- `{file.inside}`: SHA-256 {file.sha256}{note}")
    lines += [f"- `{each.name}`: imported from {each.source}" for each in imports]
    return "\n".join(lines).rstrip() + "\n"


SPECIFICATION_VERSION = "1.1"
_ORCID = re.compile(r"^(?P<name>[^<>]+?)\s*<(?P<id>https://orcid\.org/\d{4}-\d{4}-\d{4}-\d{3}[\dX])>$")


class Author(NamedTuple):
    """An author of a crate."""

    name: str
    orcid: str | None = None
    """`https://orcid.org/0000-…`."""


def author(text: str) -> Author:
    """Parses `Ada Lovelace` or `Ada Lovelace <https://orcid.org/0000-0002-1825-0097>`. Raises UsageError."""
    match = _ORCID.match(text.strip())
    if match is not None:
        return Author(match["name"], match["id"])
    if not text.strip() or "<" in text or ">" in text:
        raise UsageError(f'--author "{text}": give a name, or "NAME <https://orcid.org/0000-0000-0000-0000>"')
    return Author(text.strip())


def licence(text: str | None) -> str:
    """Returns the URL of a licence, given as URL or SPDX identifier. Raises UsageError without a valid one."""
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
    """Writes a folder, or a ZIP if the name ends in .zip. Returns the number of files that the crate describes.

    Raises UsageError if the target exists.
    """
    if target.exists():
        raise UsageError(f"{target} exists already; name another, or remove it")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".crate-") as folder:
        inside = Path(folder) / "files"
        inside.mkdir()
        crate = _Crate(connection, row, artifacts, inside).fill(authors, license_url)
        unfinished = Path(folder) / f"crate{target.suffix}"
        if target.suffix == ".zip":
            crate.write_zip(unfinished)
        else:
            crate.write(unfinished)
            unfinished.chmod(0o755)
        unfinished.replace(target)
    files = [entity for entity in crate.data_entities if entity.type != "Dataset"]  # a Dataset is a folder
    return len(files)


@dataclass
class _Crate:
    """A crate under construction. Its files are written to the folder `inside` first."""

    connection: Connection
    row: CampaignRow
    artifacts: ArtifactStore
    inside: Path

    def fill(self, authors: Sequence[Author], license_url: str) -> Any:
        """Returns the whole crate, an `ROCrate`."""
        people = self._describe(authors, license_url)
        provenance = rung_provenance(self.connection, self.row, rungs(self.connection, self.row.id))
        spec = self._text(SPEC_FILE, self.row.source, "The campaign as it was given", "application/yaml")
        self._write_rerun(provenance)
        evidence = self._tables()
        self._text("report.html", page(self.connection, self.row, self.artifacts), "The report", "text/html")
        results = [evidence, *self._geometries(), *self._series()]
        self.crate.mainEntity = evidence
        for provenance_of_rung in provenance:
            action = self._rung_action(provenance_of_rung)
            action["object"] = spec
            action["result"] = _one_or_list(results)
            action["agent"] = _one_or_list(people)
            self.crate.root_dataset.append_to("mentions", action)
        return self.crate

    def _describe(self, authors: Sequence[Author], license_url: str) -> list[Any]:
        """Makes the crate, with name, date, licence and authors, and without files. Returns the authors' entities."""
        from rocrate.rocrate import ROCrate

        self.crate = ROCrate(version=SPECIFICATION_VERSION)
        self.crate.name = f"sciagent campaign {self.row.name}"
        default = f"Candidates, evidence and report of the campaign {self.row.name}."
        self.crate.description = self.row.spec.get("description") or default
        self.crate.datePublished = self.row.updated_at
        licence_name = license_url.rsplit("/", 1)[-1]
        about = {
            "name": licence_name,
            "identifier": license_url,
            "description": f"Licence {licence_name}: {license_url}",
        }
        self.crate.license = self._entity(license_url, "CreativeWork", **about)
        people = [
            self._entity(author.orcid or f"#author-{number}", "Person", name=author.name)
            for number, author in enumerate(authors)
        ]
        self.crate.root_dataset["author"] = _one_or_list(people)
        return people

    def _rung_action(self, provenance: RungProvenance) -> Any:
        """Returns the action of a rung, with its verifier and engines as instruments."""
        rung = provenance.rung
        settings = [f"{name} = {setting(value)}" for name, value in provenance.given["settings"].items()]
        tools = [self._software(rung.verifier, rung.verifier_version, f"Verifier of the rung {rung.name}")]
        for name, engine_versions in provenance.engines.items():
            tools.append(self._software(name, engine_versions[-1], "Engine"))
        action = self._entity(
            f"#rung-{rung.name}",
            "CreateAction",
            name=f"{rung.name}: {rung.verifier} {rung.verifier_version}",
            description="; ".join(settings) or "no settings",
            startTime=self.row.created_at.isoformat(),
            endTime=self.row.updated_at.isoformat(),
        )
        action["instrument"] = _one_or_list(tools)
        return action

    def _write_rerun(self, provenance: Sequence[RungProvenance]) -> None:
        """Writes what is needed to run the campaign again: input files, imported values, versions, and the commands."""
        files = input_files(self.row)
        imports = imported_files(self.connection, self.row)
        for file in files:
            if file.content is not None:
                path = self.inside / file.inside
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(file.content)
                entity = self._file(path, f"Input file {file.given} of the campaign", "application/octet-stream")
                entity["sha256"] = file.sha256
        for values in imports:
            values.write(self.inside / values.name)
            self._file(self.inside / values.name, f"Values imported from {values.source}", "text/csv")
        moved = rerun_spec(self.row.source, files)
        spec_to_run = SPEC_FILE
        if moved is not None:
            spec_to_run = RERUN_FILE
            self._text(RERUN_FILE, moved, "The campaign with the paths of this crate", "application/yaml")
        self._text("versions.json", versions(provenance), "Versions of verifiers and engines", "application/json")
        text = readme(self.row, spec_to_run, files, imports)
        self._text("README.md", text, "How to read and to run it again", "text/markdown")

    def _tables(self) -> Any:
        """Writes candidates, evidence and proposals as Parquet, and candidates as CSV. Returns the evidence entity."""
        path = self.inside / "candidates.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(self.connection, self.row, file)
        self._file(path, "Candidates, a row each; columns carry unit and level", "text/csv")
        descriptions = {
            "candidates": "Candidates, a row each; units and levels are metadata of columns",
            "evidence": "A row a value: unit, uncertainty, level, verifier, versions",
            "proposals": "All that was proposed, also unreadable texts and duplicates",
        }
        entities = {}
        for name, description in descriptions.items():
            path = self.inside / f"{name}.parquet"
            parquet_tables.TABLES[name](self.connection, self.row).write(path)
            entities[name] = self._file(path, description, "application/vnd.apache.parquet")
        measured = [
            self._entity(
                f"#variable-{column.rung}-{column.name}".replace(" ", "_"),
                "PropertyValue",
                name=f"{column.rung}.{column.name}",
                propertyID=column.property,
                unitText=column.unit,
                measurementTechnique=column.level,
                description=column.description,
            )
            for column in export_rows.columns(self.connection, self.row)
        ]
        entities["evidence"]["variableMeasured"] = _one_or_list(measured)
        return entities["evidence"]

    def _geometries(self) -> list[Any]:
        """Writes the geometries of the best candidates. Names are made from keys, since verifiers name artifacts."""
        best = best_candidates(self.connection, self.row, MAX_CARDS)
        ladder = rungs(self.connection, self.row.id)
        answers = rung_answers(self.connection, self.row, ladder, [candidate.id for candidate in best])
        folder = self.inside / "geometries"
        entities = []
        folder.mkdir()
        for candidate in best:
            stored = export_rows.geometry(self.artifacts, answers.get(candidate.id, []))
            if stored is None:
                continue
            text, file_format, answer = stored
            path = folder / f"{candidate.key[:16]}.{file_format}"
            path.write_text(text, encoding="utf-8")
            description = f"Geometry of {candidate.text} from the rung {answer.rung}, evidence {answer.key}; angstrom"
            entities.append(self._file(path, description, f"chemical/x-{file_format}"))
        return entities

    def _series(self) -> list[Any]:
        """Writes the series of the best candidates as CSV; without a series there is no folder."""
        best = best_candidates(self.connection, self.row, MAX_CARDS)
        folder = self.inside / "series"
        folder.mkdir()
        entities = []
        for path, candidate, stored in series_files(self.connection, self.row, self.artifacts, best, folder):
            origin = f"of {candidate.text} from the rung {stored.answer.rung}, evidence {stored.answer.key}"
            entities.append(self._file(path, f"Series {origin}: {stored.series.title}", "text/csv"))
        if not entities:
            folder.rmdir()
        return entities

    def _software(self, name: str, version: str, text: str) -> Any:
        return self._entity(
            f"#software-{name}-{version}".replace(" ", "_"),
            "SoftwareApplication",
            name=name,
            version=version,
            softwareVersion=version,
            description=f"{text}; run by sciagent {__version__}",
        )

    def _entity(self, id_: str, kind: str, **properties: Any) -> Any:
        """Adds an entity that is no file, and returns it."""
        return self.crate.add_or_update_jsonld({"@id": id_, "@type": kind, **properties})

    def _text(self, name: str, text: str, description: str, media_type: str) -> Any:
        """Writes a text file, and returns its entity. name: path in the crate."""
        path = self.inside / name
        path.write_text(text, encoding="utf-8")
        return self._file(path, description, media_type)

    def _file(self, path: Path, description: str, media_type: str) -> Any:
        """Adds a file that lies in the folder `inside`, and returns its entity."""
        name = path.relative_to(self.inside).as_posix()
        about = {"name": name, "description": description, "encodingFormat": media_type}
        return self.crate.add_file(path, dest_path=name, properties=about | {"contentSize": str(path.stat().st_size)})


def _one_or_list(entities: Sequence[Any]) -> Any:
    """Returns a list; for one of length 1, its only item (section 4 of the specification)."""
    return entities[0] if len(entities) == 1 else list(entities)
