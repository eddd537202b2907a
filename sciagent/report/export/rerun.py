"""What a crate needs to run its campaign again: input files, imported values, versions, and the commands."""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.evidence import Measured
from sciagent.domain.properties import Level
from sciagent.report.analysis.ladder import RungProvenance
from sciagent.report.parts.table import PAGE
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views import report_candidates as ask

PACKAGES = ("ase", "numpy", "pint", "pyscf", "pyscf-dispersion", "rdkit", "scipy", "tblite")
SPEC, RERUN = "campaign.yaml", "rerun.yaml"


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
        """Its path in the crate: as given if that lies inside a folder, else in the folder `inputs`."""
        path = PurePosixPath(self.given)
        return f"inputs/{path.name}" if path.is_absolute() or ".." in path.parts else str(path)


def input_files(row: CampaignRow) -> list[InputFile]:
    """Returns the files that the campaign file names and whose hash the ledger knows, in the order of the file."""
    from ruamel.yaml import YAML

    known = dict(_hashes(row.spec))
    found: dict[str, InputFile] = {}
    for text in _texts(YAML(typ="safe", pure=True).load(row.source)):
        if (sha256 := known.get(PurePosixPath(text).name)) is None or text in found:
            continue
        path = Path(row.base) / text
        content = path.read_bytes() if path.is_file() else None
        is_same = content is not None and hashlib.sha256(content).hexdigest() == sha256
        found[text] = InputFile(text, sha256, content if is_same else None)
    return list(found.values())


def _hashes(part: Any) -> Iterator[tuple[str, str]]:
    """Yields (name, SHA-256) of the files in the canonical form of a spec."""
    if isinstance(part, Mapping):
        if isinstance(part.get("sha256"), str) and isinstance(part.get("name"), str):
            yield part["name"], part["sha256"]
        for value in part.values():
            yield from _hashes(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from _hashes(value)


def _texts(part: Any) -> Iterator[str]:
    """Yields all texts of a YAML document."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for value in part.values():
            yield from _texts(value)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from _texts(value)


def rerun_spec(source: str, files: Sequence[InputFile]) -> str | None:
    """Returns the campaign file with the paths of the crate; None if they are those of the file as it was given."""
    moved = [file for file in files if file.inside != file.given]
    for file in moved:
        source = source.replace(file.given, file.inside)
    return source if moved else None


class _Column(NamedTuple):
    """Imported values that one import command can take."""

    source: str
    property: str
    level: Level


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
    """Returns the imported values of the campaign's candidates, as files."""
    groups: dict[_Column, list[tuple[str, str, str, str]]] = {}
    last = -1
    while page := ask.arrived(connection, row, last, PAGE):
        values = ask.imported(connection, [candidate.id for candidate in page])
        for candidate in page:
            for answer in values.get(candidate.id, ()):
                for m in answer.measured:
                    place = _Column(answer.source, m.property, m.level)
                    groups.setdefault(place, []).append((candidate.text, *_cells(m)))
        last = page[-1].seq
    return [_imported_file(n, *group) for n, group in enumerate(groups.items(), start=1)]


def _cells(m: Measured) -> tuple[str, str, str]:
    """Returns the value as typed, its unit and its uncertainty."""
    q = m.quantity
    typed, _, unit = (q.as_typed or "").rpartition(" ")
    value = typed if typed and unit == q.unit else f"{q.censoring.sign}{q.value!r}"
    return value, q.unit, "" if q.uncertainty is None else repr(q.uncertainty)


def _imported_file(n: int, place: _Column, rows: list[tuple[str, str, str, str]]) -> ImportedFile:
    name = f"imports/{n:02d}_{place.property}.csv"
    words = ["sciagent", "import", name, "--value", f"value={place.property}[unit]"]
    words += ["--uncertainty", "value=uncertainty", "--method", place.level.method]
    words += ["--basis", place.level.basis] if place.level.basis else []
    words += ["--phase", place.level.phase] if place.level.phase else []
    return ImportedFile(name, place.source, rows, shlex.join(words))


def versions(rungs: Sequence[RungProvenance]) -> str:
    """Returns the versions of sciagent, its engines here, and those that the evidence names, as JSON."""
    here = {name: version for name in PACKAGES if (version := _version(name))}
    used = {
        r.rung.name: {"verifier": r.rung.verifier, "version": r.rung.verifier_version, "engines": r.engines}
        for r in rungs
    }
    packages = {"sciagent": __version__, "python": platform.python_version(), **here}
    return json.dumps({"written by": packages, "rungs": used}, indent=2) + "\n"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


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
    lines += [f"- `{file.inside}`: SHA-256 {file.sha256}{_gone(file)}" for file in files]
    lines += [f"- `{each.name}`: imported from {each.source}" for each in imports]
    return "\n".join(lines).rstrip() + "\n"


def _gone(file: InputFile) -> str:
    return "" if file.content is not None else "; it was gone or had changed, so it is missing here"
