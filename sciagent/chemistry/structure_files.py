"""Structures from files, one at a time: CSV, SMILES and SDF, plain or gzipped, of any length."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciagent.errors import InputFileError, did_you_mean
from sciagent.input_files import open_input

MAX_LINE = 1_000_000


@dataclass(frozen=True)
class StructureRecord:
    """One structure of a file, as it stands there."""

    number: int
    """Counts from 0."""
    text: str
    """SMILES as it stands in the file; empty where there is none."""
    name: str = ""
    fault: str = ""
    """Why there is no text."""


def read_structures(path: Path, column: str = "smiles", skip: int = 0) -> Iterator[StructureRecord]:
    """Stream records from number `skip` on. The ending tells the format: .csv, .smi, .txt or .sdf, and .gz of these.

    Raises InputFileError for an unknown ending, a missing column, or bytes that are not text; a bad record is
    handed on with its fault, so that one broken line never ends a campaign.
    """
    suffixes = [s.lower() for s in path.suffixes]
    kind = suffixes[-2] if suffixes[-1:] == [".gz"] and len(suffixes) > 1 else (suffixes[-1] if suffixes else "")
    readers = {".csv": _csv, ".smi": _smi, ".smiles": _smi, ".txt": _smi, ".sdf": _sdf}
    if kind not in readers:
        raise InputFileError(
            f'{path}:1:1: cannot tell the format of "{path.name}"; use .csv, .smi or .sdf (or .gz of these)'
        )
    records = _csv(path, column) if kind == ".csv" else readers[kind](path)  # type: ignore[operator]
    for record in records:
        if record.number >= skip:
            yield record


def _lines(path: Path) -> Iterator[str]:
    with open_input(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputFileError(f"{path}:{number}:{error.start + 1}: not UTF-8 text") from error
            yield text.replace("\0", "\N{SYMBOL FOR NULL}")  # csv refuses null bytes; the parser then names them


def _csv(path: Path, column: str) -> Iterator[StructureRecord]:
    reader = csv.DictReader(_lines(path))
    try:
        header = reader.fieldnames or []
    except csv.Error as error:
        raise csv_fault(path, 0, error) from error
    if column not in header:
        if len(header) == 1 and ";" in header[0]:
            raise InputFileError(f"{path}:1:1: the columns are separated by semicolons; use commas")
        raise InputFileError(
            f'{path}:1:1: no column "{column}"{did_you_mean(column, header)}; '
            f"the header has: {', '.join(header) or 'nothing'}"
        )
    for number, row in enumerate(_rows(reader, path)):
        text, name = (row.get(column) or "").strip(), (row.get("name") or "").strip()
        yield StructureRecord(number, text, name, "" if text else f"row {number + 2}: nothing in column {column}")


def _rows(reader: csv.DictReader[str], path: Path) -> Iterator[Mapping[str, Any]]:
    try:
        yield from reader
    except csv.Error as error:
        raise csv_fault(path, reader.line_num, error) from error


def csv_fault(path: Path, lines_read: int, error: csv.Error) -> InputFileError:
    """What Python's reader of CSV says of the line after those that it has read."""
    line = lines_read + 1
    if "new-line character" in str(error):
        why = "a carriage return without a line feed; save the file with line feeds, or put the cell in quotes"
        return InputFileError(f"{path}:{line}:1: {why}")
    return InputFileError(f"{path}:{line}:1: {error}")


def _smi(path: Path) -> Iterator[StructureRecord]:
    number = 0
    for line in _lines(path):
        text = line.rstrip("\r\n")
        if not text.strip() or text.startswith("#"):
            continue
        head, _, name = text.strip().partition(" ") if " " in text.strip() else text.strip().partition("\t")
        yield StructureRecord(number, head, name.strip())
        number += 1


def _sdf(path: Path) -> Iterator[StructureRecord]:
    from rdkit import Chem

    from sciagent.chemistry.rdkit_log import rdkit_messages

    with open_input(path) as file, rdkit_messages():
        supplier: Any = Chem.ForwardSDMolSupplier(file, sanitize=True, removeHs=True)
        for number, mol in enumerate(supplier):
            if mol is None:
                yield StructureRecord(number, "", fault=f"record {number + 1} is not a readable mol block")
                continue
            name = mol.GetProp("_Name") if mol.HasProp("_Name") else ""
            yield StructureRecord(number, Chem.MolToSmiles(mol), name)
