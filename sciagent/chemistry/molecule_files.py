"""Reads structures from files one by one: CSV, SMILES and SDF, plain or gzipped, of any length."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sciagent.domain.candidate_and_its_names_in_files import identifier_columns
from sciagent.errors import InputFileError, did_you_mean
from sciagent.inputs.open_input import open_input

MAX_LINE = 1_000_000
"""Longest line, in bytes; the rest is read as another line."""
_GROUPS = re.compile(r"\s*\|[^|]*\|")
MAX_NAME = 200
"""Characters kept of a name or remark."""


@dataclass(frozen=True)
class StructureRecord:
    """One structure of a file, unchanged."""

    number: int
    """Number of the record, from 0."""
    text: str
    """SMILES as written in the file; empty if there is none."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Texts of the columns that are kept, by header; empty cells are left out."""
    fault: str = ""
    """Why the text is empty; empty otherwise."""

    @property
    def name(self) -> str:
        """The first of the names, or an empty text."""
        names = list(self.names.values())
        return names[0] if names else ""


def read_structures(
    path: Path, column: str = "smiles", skip: int = 0, keep: Sequence[str] | None = None
) -> Iterator[StructureRecord]:
    """Yields records from number `skip` on.

    The name of the file gives its format: .csv, .smi, .txt or .sdf, or one of these with .gz. keep: columns of a csv,
    or data fields of an sdf, whose texts stay with the molecule; None: of a csv, the column whose header looks like an
    identifier. The text beside a SMILES in a smi file and the title of an sdf record are kept as `name`. A bad record
    is yielded with its fault, so that a broken line never ends a campaign. Raises InputFileError for an unknown format,
    a missing column, or bytes that are not text.
    """
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    match kind:
        case ".csv":
            records = _csv(path, column, keep)
        case ".smi" | ".smiles" | ".txt":
            records = _smi(path)
        case ".sdf":
            records = _sdf(path, keep or ())
        case _:
            raise InputFileError(
                f'{path}:1:1: cannot tell the format of "{path.name}"; use .csv, .smi or .sdf (or .gz of these)'
            )
    yield from (record for record in records if record.number >= skip)


def _lines(path: Path) -> Iterator[str]:
    """Yields the lines of a UTF-8 file with their ends. Raises InputFileError for other bytes."""
    with open_input(path) as file:
        raw_lines = iter(lambda: file.readline(MAX_LINE), b"")  # until the end of the file
        for number, raw in enumerate(raw_lines, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputFileError(f"{path}:{number}:{error.start + 1}: not UTF-8 text") from error
            yield text.replace("\0", "\N{SYMBOL FOR NULL}")  # csv refuses null bytes; the parser reports this symbol


def _csv(path: Path, column: str, keep: Sequence[str] | None) -> Iterator[StructureRecord]:
    """Yields the records of a csv, as `read_structures` does."""
    reader = csv.DictReader(_lines(path), strict=True)  # strict: a quote that is not closed is an error
    try:
        header = reader.fieldnames or []
        check_columns(path, header, (column, *(keep or ())))
        kept = identifier_columns(header, column) if keep is None else keep
        for number, row in enumerate(reader):
            text = (row.get(column) or "").strip()
            # row 1 is the header, and the first record is number 0
            fault = "" if text else f"row {number + 2}: nothing in column {column}"
            yield StructureRecord(number, text, names_in(row, kept), fault)
    except csv.Error as error:
        raise csv_fault(path, reader.line_num, error) from error


def check_columns(path: Path, header: Sequence[str], wanted: Sequence[str]) -> None:
    """Raises InputFileError if the header of a csv lacks a wanted column."""
    lacking = [name for name in wanted if name not in header]
    if not lacking:
        return
    missing = lacking[0]
    if len(header) == 1 and ";" in header[0]:
        raise InputFileError(f"{path}:1:1: the columns are separated by semicolons; use commas")
    known = ", ".join(header) or "nothing"
    raise InputFileError(f'{path}:1:1: no column "{missing}"{did_you_mean(missing, header)}; the header has: {known}')


def names_in(row: Mapping[str, str | None], columns: Sequence[str]) -> dict[str, str]:
    """Returns the texts of the columns in a row, without empty ones, each cut to MAX_NAME characters."""
    names = {}
    for column in columns:
        words = (row.get(column) or "").split()
        text = " ".join(words)[:MAX_NAME]
        if text:
            names[column] = text
    return names


def csv_fault(path: Path, lines_read: int, error: csv.Error) -> InputFileError:
    """Returns the error of Python's CSV reader, with its line: the one after the lines read."""
    why = str(error)
    if "unexpected end of data" in why:
        why = 'the file ends within a quoted cell: a quote (") further up is not closed'
    elif "expected after" in why:
        why = 'text after a closing quote; write a quote within a quoted cell twice ("")'
    if "new-line character" in why:
        why = "a carriage return without a line feed; save the file with line feeds, or put the cell in quotes"
    return InputFileError(f"{path}:{lines_read + 1}:1: {why}")


def _smi(path: Path) -> Iterator[StructureRecord]:
    """Yields the records of a smi file: a SMILES or CXSMILES in each line, and a name after a blank or a tab."""
    texts = (line.strip() for line in _lines(path) if line.strip() and not line.startswith("#"))
    for number, text in enumerate(texts):
        head, _, name = text.partition(" " if " " in text else "\t")
        groups = _GROUPS.match(name)
        if groups:  # the enhanced stereo groups of a CXSMILES belong to the structure
            head = f"{head} {groups[0].strip()}"
            name = name[groups.end() :]
        yield StructureRecord(number, head, names_in({"name": name}, ("name",)))


def _sdf(path: Path, keep: Sequence[str]) -> Iterator[StructureRecord]:
    """Yields the records of an sdf file. keep: data fields whose texts stay with the molecule."""
    from rdkit import Chem

    from sciagent.chemistry.isomers_and_tautomers import cxsmiles
    from sciagent.chemistry.rdkit_messages import rdkit_messages

    with open_input(path) as file, rdkit_messages():
        supplier: Any = Chem.ForwardSDMolSupplier(file, sanitize=True, removeHs=True)
        for number, mol in enumerate(supplier):
            if mol is None:
                yield StructureRecord(number, "", fault=f"record {number + 1} is not a readable mol block")
                continue
            fields = {name: mol.GetProp(name) for name in keep if mol.HasProp(name)}
            fields["name"] = mol.GetProp("_Name") if mol.HasProp("_Name") else ""
            yield StructureRecord(number, cxsmiles(mol), names_in(fields, tuple(fields)))
