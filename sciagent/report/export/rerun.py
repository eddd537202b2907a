"""The parts of a crate with which its campaign can be run again: input files, imported values, versions, commands."""

from __future__ import annotations

import csv
import hashlib
import json
import platform
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any

from sqlalchemy.engine import Connection

from sciagent import __version__
from sciagent.domain.properties import Level
from sciagent.domain.quantities import Quantity
from sciagent.report.analysis.ladder import RungProvenance
from sciagent.report.parts.table import PAGE
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.views import candidates as ask

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
    while page := ask.arrived(connection, row, last, PAGE):
        values = ask.imported(connection, [candidate.id for candidate in page])
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
