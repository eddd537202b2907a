"""Importing measured or computed values from a CSV as evidence: checked whole first, then written whole."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.campaign.spec.sources import file_hash
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.chemistry.structure_files import csv_fault
from sciagent.domain.evidence import EvidenceKey, Finding, Measured, content_hash
from sciagent.domain.outcomes import Outcome, Reason
from sciagent.domain.properties import Level, Property, properties
from sciagent.domain.quantities import Censoring, Quantity, convert
from sciagent.errors import InputFileError, InvalidCandidateError, UnitError, UsageError, did_you_mean
from sciagent.input_files import open_input
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.results import candidates, evidence
from sciagent.store.results.evidence import NewEvidence

VERIFIER, VERSION = "import", "1"
MAX_FAULTS = 50
MAX_ROWS = 2_000_000
CHUNK = 500


@dataclass(frozen=True)
class Column:
    """One value column. uncertainty and unit are a column's name, or the value itself for all rows; None: unknown
    uncertainty, canonical unit."""

    name: str
    property: str
    unit: str | None = None
    uncertainty: str | None = None


@dataclass
class ImportReport:
    """rows: read. recorded, known: evidence rows written now, or there already with the same values."""

    rows: int = 0
    recorded: int = 0
    known: int = 0
    revised: int = 0
    empty: int = 0
    faults: list[str] = field(default_factory=list)


def import_file(
    ledger: Ledger,
    path: Path,
    *,
    columns: Sequence[Column],
    level: Level,
    structure: str = "smiles",
    standardise: str = "refuse",
    who: str = "unknown",
    skip_bad: bool = False,
    revise: str | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """Every row becomes one piece of evidence of the verifier `import`, at the stated level.

    A molecule that stands in the file twice has two replicates. A file imported again changes nothing, nor do the same
    values of the same molecules at the same level from a file of another name. A value that differs from the one
    recorded from a file of this name is refused, or, with revise="why", supersedes it.
    Raises InputFileError that lists up to fifty faults as `file:line:col`; then nothing is written, unless skip_bad.
    """
    report = ImportReport()
    _check_columns(columns)
    resolved = [(c, properties()[c.property]) for c in columns]
    settings_hash = content_hash(
        {"level": level.hash, "source": path.name, "properties": sorted(c.property for c in columns)}
    )
    rows: list[tuple[Molecule, EvidenceKey, tuple[Measured, ...]]] = []
    seen: dict[str, int] = {}
    for line, row in _read(path, structure, columns):
        report.rows += 1
        made = _row(path, line, row, resolved, level, structure, standardise, report)
        if made is None:
            continue
        molecule, found = made
        replicate = seen.get(molecule.key, 0)
        seen[molecule.key] = replicate + 1
        rows.append((molecule, EvidenceKey(molecule.key, VERIFIER, VERSION, settings_hash, replicate=replicate), found))
    if report.faults and not skip_bad:
        shown = "\n".join(report.faults[:MAX_FAULTS])
        more = f"\n… and {len(report.faults) - MAX_FAULTS} more" if len(report.faults) > MAX_FAULTS else ""
        raise InputFileError(
            f"{shown}{more}\nnothing was imported; mend the file, or leave these rows out with --skip-bad"
        )
    if not dry_run:
        _write(ledger, path, rows, who, revise, report)
    return report


def _check_columns(columns: Sequence[Column]) -> None:
    """One column a property: two values of one property at one level would contradict each other."""
    for what, names in (("column", [c.name for c in columns]), ("property", [c.property for c in columns])):
        if twice := {n for n in names if names.count(n) > 1}:
            raise UsageError(f"{what} {', '.join(sorted(twice))} is given twice; import one file, then the other")
    if not columns:
        raise UsageError("no column with values is named")


def _read(path: Path, structure: str, columns: Sequence[Column]) -> Any:
    reader = None
    try:
        with io.TextIOWrapper(open_input(path), encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(line.replace("\0", "\N{SYMBOL FOR NULL}") for line in file)
            _check_header(path, reader.fieldnames or [], (structure, *(column.name for column in columns)))
            for n, row in enumerate(reader):
                if n >= MAX_ROWS:
                    raise InputFileError(f"{path}:{reader.line_num}:1: more than {MAX_ROWS} rows; split the file")
                yield reader.line_num, row
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputFileError(f"{path}:{_not_utf8(path)}: not UTF-8 text ({error.reason}); save it as UTF-8") from error
    except csv.Error as error:
        raise csv_fault(path, reader.line_num if reader else 0, error) from error


def _check_header(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises InputFileError where a column is missing, or two have one name."""
    missing = next((name for name in wanted if name not in header), None)
    if missing is not None:
        if len(header) == 1 and ";" in header[0]:
            raise InputFileError(f"{path}:1:1: the columns are separated by semicolons; use commas")
        known = ", ".join(header) or "nothing"
        raise InputFileError(
            f'{path}:1:1: no column "{missing}"{did_you_mean(missing, header)}; the header has: {known}'
        )
    if len(set(header)) != len(header):
        raise InputFileError(f"{path}:1:1: two columns have the same name")


def _not_utf8(path: Path) -> str:
    """`line:cell` of the first byte that is no UTF-8; a decoder knows only its place in the block it read."""
    with open_input(path) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"{number}:{line[: error.start].count(b',') + 1}"
    return "1:1"


def _row(
    path: Path,
    line: int,
    row: Mapping[Any, Any],
    columns: Sequence[tuple[Column, Property]],
    level: Level,
    structure: str,
    standardise: str,
    report: ImportReport,
) -> tuple[Molecule, tuple[Measured, ...]] | None:
    header = [name for name in row if name is not None]
    if len(header) < len(row):  # csv puts what is left over under None
        report.faults.append(
            f"{path}:{line}:{len(header) + 1}: more cells than the header has; quote a text with a comma, and write "
            "numbers with a decimal point"
        )
        return None
    try:
        molecule = parse_molecule(row[structure] or "", standardise="parent" if standardise == "parent" else "refuse")
    except InvalidCandidateError as error:
        report.faults.append(
            f"{path}:{line}:{header.index(structure) + 1}: {structure}: {error.reason}: {error.detail}"
        )
        return None
    found = []
    for column, prop in columns:
        text = (row[column.name] or "").strip()
        if not text:
            report.empty += 1
            continue
        try:
            found.append(Measured(prop.name, level, _quantity(text, column, prop, row)))
        except (ValueError, UnitError) as error:
            report.faults.append(f"{path}:{line}:{header.index(column.name) + 1}: {column.name}: {error}")
            return None
    return (molecule, tuple(found)) if found else None


def _quantity(text: str, column: Column, prop: Property, row: Mapping[str, Any]) -> Quantity:
    """`< 0.1` and `> 5` are censored values. Raises ValueError or UnitError."""
    censoring = {"<": Censoring.BELOW, ">": Censoring.ABOVE}.get(text[0], Censoring.NONE)
    value = _number(text[1:] if censoring is not Censoring.NONE else text)
    unit = column.unit or prop.unit
    if unit in row:  # the name of a column: each row says its own
        unit = (row[unit] or "").strip()
    spread: float | None = None
    if column.uncertainty is not None:
        given = (row[column.uncertainty] or "").strip() if column.uncertainty in row else column.uncertainty
        spread = _number(given) if given else None
    typed = text if column.unit is None or unit == "1" else f"{text} {unit}"
    made = convert(Quantity(value, unit, spread, censoring, as_typed=typed), prop)
    low = -math.inf if prop.low is None else prop.low
    high = math.inf if prop.high is None else prop.high
    if not low <= made.value <= high:
        raise ValueError(f"{made} is outside what {prop.name} can be ({prop.low} to {prop.high} {prop.unit})")
    return made


def _number(text: str) -> float:
    try:
        value = float(text.replace("_", "?"))  # Python reads 1_5 as 15
    except ValueError:
        raise ValueError(f'"{text[:40]}" is not a number (use a point as decimal sign)') from None
    if not math.isfinite(value):
        raise ValueError(
            f"{Reason.NOT_FINITE}: {text} is not a finite number; leave the cell empty if it was not measured"
        )
    return value


def _write(
    ledger: Ledger,
    path: Path,
    rows: Sequence[tuple[Molecule, EvidenceKey, tuple[Measured, ...]]],
    who: str,
    revise: str | None,
    report: ImportReport,
) -> None:
    """One transaction for the whole file: it is there whole or not at all."""
    source = f"{path.name[:120]} sha256:{file_hash(path)[:16]}"
    by_key = {m.key: m for m, _, _ in rows}
    with ledger.begin() as connection:
        # all candidates before any evidence: a writer that holds the watermark must wait for nobody
        ids = candidates.enter(connection, by_key.values())
        elsewhere: Counter[Any] = Counter()  # how often the same values stand there from files of other names
        asked: set[str] = set()
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            there = evidence.ids_by_key(connection, [key.hash for _, key, _ in chunk])
            elsewhere.update(_elsewhere(connection, [(ids[m.key], k) for m, k, _ in chunk if m.key not in asked]))
            asked.update(m.key for m, _, _ in chunk)
            fresh: list[NewEvidence] = []
            for molecule, key, measured in chunk:
                same = (ids[molecule.key], *_values(measured))
                if key.hash not in there and elsewhere[same] > 0:
                    elsewhere[same] -= 1
                    report.known += 1
                    continue
                current, latest = _latest(connection, key) if key.hash in there else (None, key)
                if current is not None:
                    if _same(current.measured, measured):
                        report.known += 1
                        continue
                    if revise is None:
                        raise UsageError(
                            f"{molecule.smiles} stands in the ledger with another value from {path.name}; "
                            'supersede it with --revise "why it changed" (nothing was imported)'
                        )
                    report.revised += 1
                finding = Finding(molecule.key, Outcome.OK, measured=measured)
                fresh.append(
                    NewEvidence(
                        finding,
                        latest,
                        ids[molecule.key],
                        source=source,
                        who=who,
                        why=revise,
                        supersedes=current.id if current else None,
                    )
                )
            report.recorded += len(evidence.record(connection, fresh))


def _latest(connection: Connection, key: EvidenceKey) -> tuple[evidence.RecordedEvidence | None, EvidenceKey]:
    """The current revision under the key, and the key of the next one."""
    current = None
    while (found := evidence.by_key(connection, key.hash)) is not None:
        current, key = found, replace(key, revision=key.revision + 1)
    return current, key


def _elsewhere(connection: Connection, pairs: Sequence[tuple[int, EvidenceKey]]) -> Counter[Any]:
    """{(candidate id, values): n} of current evidence from files of other names."""
    ours = {key.settings_hash for _, key in pairs}
    e = t.current_evidence.c
    query = sa.select(e.id, e.candidate_id, e.settings_hash).where(
        e.candidate_id.in_(sorted({id_ for id_, _ in pairs})), e.verifier == VERIFIER, e.verifier_version == VERSION
    )
    rows = [row for row in connection.execute(query) if row.settings_hash not in ours]
    measured = evidence.measured_of(connection, [row.id for row in rows])
    return Counter((row.candidate_id, *_values(measured.get(row.id, ()))) for row in rows)


def _values(measured: Sequence[Measured]) -> list[tuple[Any, ...]]:
    """What makes two rows of files the same: property, level, value, uncertainty and censoring."""
    return sorted(
        (m.property, m.level.hash, m.quantity.value, m.quantity.uncertainty, str(m.quantity.censoring))
        for m in measured
    )


def _same(old: Sequence[Measured], new: Sequence[Measured]) -> bool:
    return _values(old) == _values(new)
