"""A campaign as an RO-Crate 1.1: spec, candidates, evidence, proposals, report, geometries, series, provenance.

Source: RO-Crate Metadata Specification 1.1, https://w3id.org/ro/crate/1.1

The campaign can be run again from it: it holds input files, imported values, versions and commands.
"""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import re
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity
from sciagent.errors import UsageError
from sciagent.report.analysis.ladder import RungProvenance, of_rungs
from sciagent.report.export import parquet
from sciagent.report.export.sheet import series_files, write_csv
from sciagent.report.page.build import page
from sciagent.report.parts import table
from sciagent.report.parts.candidates import CARDS
from sciagent.report.parts.table import PAGE
from sciagent.report.parts.wording import setting
from sciagent.store.campaign_state.campaigns import CampaignRow, rungs
from sciagent.store.database.ledger import ArtifactStore
from sciagent.store.views.candidates import best_candidates, candidates_in_order, imported_answers, rung_answers

PACKAGES = ("ase", "numpy", "pint", "pyscf", "pyscf-dispersion", "rdkit", "scipy", "tblite")
SPEC = "campaign.yaml"
RERUN = "rerun.yaml"


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
        """Path in the crate: the given one; if that is absolute or has `..`, one in the folder `inputs`."""
        path = PurePosixPath(self.given)
        return f"inputs/{path.name}" if path.is_absolute() or ".." in path.parts else str(path)


def input_files(row: CampaignRow) -> list[InputFile]:
    """Returns the files that the campaign file names and whose hash the ledger knows, in the order of the file."""
    from ruamel.yaml import YAML

    parts = [part for part in _parts(row.spec) if isinstance(part, Mapping)]
    known = {part["name"]: part["sha256"] for part in parts if {"name", "sha256"} <= part.keys()}
    found: dict[str, InputFile] = {}
    for text in _parts(YAML(typ="safe", pure=True).load(row.source)):
        if not isinstance(text, str) or text in found or (sha256 := known.get(PurePosixPath(text).name)) is None:
            continue
        path = Path(row.base) / text
        content = path.read_bytes() if path.is_file() else None
        is_same = content is not None and hashlib.sha256(content).hexdigest() == sha256
        found[text] = InputFile(text, sha256, content if is_same else None)
    return list(found.values())


def _parts(part: Any) -> Iterator[Any]:
    """Yields a part of a JSON or YAML document, and all parts inside it, in their order."""
    yield part
    inner = part.values() if isinstance(part, Mapping) else part if isinstance(part, list | tuple) else ()
    for value in inner:
        yield from _parts(value)


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
    rows: list[tuple[str, str, str, str]]
    """(SMILES, value as typed, unit, uncertainty) of each value."""
    command: str
    """The command that imports them."""

    def write(self, path: Path) -> None:
        path.parent.mkdir(exist_ok=True)
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("smiles", "value", "unit", "uncertainty"), *self.rows])


def imported_files(connection: Connection, row: CampaignRow) -> list[ImportedFile]:
    """Returns the imported values of the campaign's candidates, as files that `sciagent import` can read."""
    groups: dict[tuple[str, str, Level], list[tuple[str, str, str, str]]] = {}
    last = -1
    while page := candidates_in_order(connection, row, last, PAGE):
        values = imported_answers(connection, [candidate.id for candidate in page])
        for candidate in page:
            for answer in values.get(candidate.id, ()):
                for m in answer.measured:
                    cells = (candidate.text, *_cells(m.quantity))
                    groups.setdefault((answer.source, m.property, m.level), []).append(cells)
        last = page[-1].seq
    return [_imported_file(n, *group, rows) for n, (group, rows) in enumerate(groups.items(), start=1)]


def _cells(q: Quantity) -> tuple[str, str, str]:
    """Returns the value as typed, its unit and its uncertainty."""
    typed, _, unit = (q.as_typed or "").rpartition(" ")
    value = typed if typed and unit == q.unit else f"{q.censoring.sign}{q.value!r}"
    return value, q.unit, "" if q.uncertainty is None else repr(q.uncertainty)


def _imported_file(
    n: int, source: str, property_name: str, level: Level, rows: list[tuple[str, str, str, str]]
) -> ImportedFile:
    name = f"imports/{n:02d}_{property_name}.csv"
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
        words += [f"--{option}", text] if (text := getattr(level, option)) else []
    return ImportedFile(name, source, rows, shlex.join(words))


def versions(rungs: Sequence[RungProvenance]) -> str:
    """Returns the versions of sciagent, its engines here, and those that the evidence names, as JSON."""
    packages = {"sciagent": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    used = {
        r.rung.name: {"verifier": r.rung.verifier, "version": r.rung.verifier_version, "engines": r.engines}
        for r in rungs
    }
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
    if spec != SPEC:
        lines += [f"`{SPEC}` is the campaign as it was given; `{spec}` names its files as they lie here.", ""]
    gone = "; it was gone or had changed, so it is missing here"
    lines += [f"- `{file.inside}`: SHA-256 {file.sha256}{gone if file.content is None else ''}" for file in files]
    lines += [f"- `{each.name}`: imported from {each.source}" for each in imports]
    return "\n".join(lines).rstrip() + "\n"


SPECIFICATION = "1.1"
_ORCID = re.compile(r"^(?P<name>[^<>]+?)\s*<(?P<id>https://orcid\.org/\d{4}-\d{4}-\d{4}-\d{3}[\dX])>$")


class Author(NamedTuple):
    """An author of a crate."""

    name: str
    orcid: str | None = None
    """`https://orcid.org/0000-…`."""


def author(text: str) -> Author:
    """Parses `Ada Lovelace` or `Ada Lovelace <https://orcid.org/0000-0002-1825-0097>`. Raises UsageError."""
    if match := _ORCID.match(text.strip()):
        return Author(match["name"], match["id"])
    if not text.strip() or set("<>") & set(text):
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
    """Writes a folder, or a ZIP if the name ends in .zip. Returns the number of files that it describes."""
    if target.exists():
        raise UsageError(f"{target} exists already; name another, or remove it")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".crate-") as folder:
        inside = Path(folder) / "files"
        inside.mkdir()
        crate = _Crate(connection, row, artifacts, inside).fill(authors, license_url)
        part = Path(folder) / f"crate{target.suffix}"
        if target.suffix == ".zip":
            crate.write_zip(part)
        else:
            crate.write(part)
            part.chmod(0o755)
        part.replace(target)
    return len([e for e in crate.data_entities if e.type != "Dataset"])


@dataclass
class _Crate:
    """A crate under construction. Its files are written to the folder `inside` first."""

    connection: Connection
    row: CampaignRow
    artifacts: ArtifactStore
    inside: Path

    def fill(self, authors: Sequence[Author], url: str) -> Any:
        """Returns the whole crate. url: of the licence."""
        from rocrate.rocrate import ROCrate

        begun = self.row.created_at
        changed = self.row.updated_at
        self.crate = ROCrate(version=SPECIFICATION)
        self.crate.name = f"sciagent campaign {self.row.name}"
        default = f"Candidates, evidence and report of the campaign {self.row.name}."
        self.crate.description = self.row.spec.get("description") or default
        self.crate.datePublished = changed
        name = url.rsplit("/", 1)[-1]
        about = {"name": name, "identifier": url, "description": f"Licence {name}: {url}"}
        self.crate.license = self._entity(url, "CreativeWork", **about)
        people = [self._entity(a.orcid or f"#author-{i}", "Person", name=a.name) for i, a in enumerate(authors)]
        self.crate.root_dataset["author"] = _plain(people)
        steps = of_rungs(self.connection, self.row, rungs(self.connection, self.row.id))
        spec = self._text(SPEC, self.row.source, "The campaign as it was given", "application/yaml")
        self._rerun(steps)
        evidence = self._tables()
        self._text("report.html", page(self.connection, self.row, self.artifacts), "The report", "text/html")
        results = [evidence, *self._geometries(), *self._series()]
        self.crate.mainEntity = evidence
        for rung in steps:
            r = rung.rung
            settings = rung.given["settings"]
            tools = [self._software(r.verifier, r.verifier_version, f"Verifier of the rung {r.name}")]
            tools += [self._software(name, versions[-1], "Engine") for name, versions in rung.engines.items()]
            action = self._entity(
                f"#rung-{r.name}",
                "CreateAction",
                name=f"{r.name}: {r.verifier} {r.verifier_version}",
                description="; ".join(f"{k} = {setting(v)}" for k, v in settings.items()) or "no settings",
                startTime=begun.isoformat(),
                endTime=changed.isoformat(),
            )
            action["instrument"] = _plain(tools)
            action["object"] = spec
            action["result"] = _plain(results)
            action["agent"] = _plain(people)
            self.crate.root_dataset.append_to("mentions", action)
        return self.crate

    def _rerun(self, steps: Sequence[RungProvenance]) -> None:
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
        if moved is not None:
            self._text(RERUN, moved, "The campaign with the paths of this crate", "application/yaml")
        self._text("versions.json", versions(steps), "Versions of verifiers and engines", "application/json")
        text = readme(self.row, SPEC if moved is None else RERUN, files, imports)
        self._text("README.md", text, "How to read and to run it again", "text/markdown")

    def _tables(self) -> Any:
        """Writes candidates, evidence and proposals as Parquet, and candidates as CSV. Returns the evidence entity."""
        path = self.inside / "candidates.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            write_csv(self.connection, self.row, file)
        self._file(path, "Candidates, a row each; columns carry unit and level", "text/csv")
        texts = {
            "candidates": "Candidates, a row each; units and levels are metadata of columns",
            "evidence": "A row a value: unit, uncertainty, level, verifier, versions",
            "proposals": "All that was proposed, also unreadable texts and duplicates",
        }
        entities = {}
        for name, text in texts.items():
            path = self.inside / f"{name}.parquet"
            parquet.TABLES[name](self.connection, self.row).write(path)
            entities[name] = self._file(path, text, "application/vnd.apache.parquet")
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
            for column in table.columns(self.connection, self.row)
        ]
        entities["evidence"]["variableMeasured"] = _plain(measured)
        return entities["evidence"]

    def _geometries(self) -> list[Any]:
        """Writes the geometries of the best candidates. Names are made from keys, since verifiers name artifacts."""
        best = best_candidates(self.connection, self.row, CARDS)
        ladder = rungs(self.connection, self.row.id)
        answers = rung_answers(self.connection, self.row, ladder, [candidate.id for candidate in best])
        folder = self.inside / "geometries"
        entities = []
        folder.mkdir()
        for candidate in best:
            if (stored := table.geometry(self.artifacts, answers.get(candidate.id, []))) is None:
                continue
            text, form, answer = stored
            path = folder / f"{candidate.key[:16]}.{form}"
            path.write_text(text, encoding="utf-8")
            description = f"Geometry of {candidate.text} from the rung {answer.rung}, evidence {answer.key}; angstrom"
            entities.append(self._file(path, description, f"chemical/x-{form}"))
        return entities

    def _series(self) -> list[Any]:
        """Writes the series of the best candidates as csv; without one there is no folder."""
        best = best_candidates(self.connection, self.row, CARDS)
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
        return self.crate.add_or_update_jsonld({"@id": id_, "@type": kind, **properties})

    def _text(self, name: str, text: str, description: str, media_type: str) -> Any:
        path = self.inside / name
        path.write_text(text, encoding="utf-8")
        return self._file(path, description, media_type)

    def _file(self, path: Path, description: str, media_type: str) -> Any:
        name = path.relative_to(self.inside).as_posix()
        about = {"name": name, "description": description, "encodingFormat": media_type}
        return self.crate.add_file(path, dest_path=name, properties=about | {"contentSize": str(path.stat().st_size)})


def _plain(entities: Sequence[Any]) -> Any:
    """Returns a list; for one of length 1, its only item (section 4 of the specification)."""
    return entities[0] if len(entities) == 1 else list(entities)
