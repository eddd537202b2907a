"""Reads structures from files one by one: CSV, SMILES and SDF, plain or gzipped, of any length."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sciagent.errors import InputFileError, did_you_mean
from sciagent.input_files import open_input

MAX_LINE = 1_000_000


@dataclass(frozen=True)
class StructureRecord:
    """One structure of a file, unchanged."""

    number: int
    """Number of the record, from 0."""
    text: str
    """SMILES as written in the file; empty if there is none."""
    name: str = ""
    fault: str = ""
    """Why the text is empty; empty otherwise."""


def read_structures(path: Path, column: str = "smiles", skip: int = 0) -> Iterator[StructureRecord]:
    """Yields records from number `skip` on. The name gives the format: .csv, .smi, .txt or .sdf, and .gz of these.

    Raises InputFileError for an unknown format, a missing column, or bytes that are not text. A bad record is yielded
    with its fault, so that a broken line never ends a campaign.
    """
    kind = Path(path.name.lower().removesuffix(".gz")).suffix
    match kind:
        case ".csv":
            records = _csv(path, column)
        case ".smi" | ".smiles" | ".txt":
            records = _smi(path)
        case ".sdf":
            records = _sdf(path)
        case _:
            raise InputFileError(
                f'{path}:1:1: cannot tell the format of "{path.name}"; use .csv, .smi or .sdf (or .gz of these)'
            )
    yield from (record for record in records if record.number >= skip)


def _lines(path: Path) -> Iterator[str]:
    with open_input(path) as file:
        for number, raw in enumerate(iter(lambda: file.readline(MAX_LINE), b""), start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise InputFileError(f"{path}:{number}:{error.start + 1}: not UTF-8 text") from error
            yield text.replace("\0", "\N{SYMBOL FOR NULL}")  # csv refuses null bytes; the parser reports this symbol


def _csv(path: Path, column: str) -> Iterator[StructureRecord]:
    reader = csv.DictReader(_lines(path))
    try:
        header = reader.fieldnames or []
        if column not in header:
            if len(header) == 1 and ";" in header[0]:
                raise InputFileError(f"{path}:1:1: the columns are separated by semicolons; use commas")
            raise InputFileError(
                f'{path}:1:1: no column "{column}"{did_you_mean(column, header)}; '
                f"the header has: {', '.join(header) or 'nothing'}"
            )
        for number, row in enumerate(reader):
            text, name = (row.get(column) or "").strip(), (row.get("name") or "").strip()
            yield StructureRecord(number, text, name, "" if text else f"row {number + 2}: nothing in column {column}")
    except csv.Error as error:
        raise csv_fault(path, reader.line_num, error) from error


def csv_fault(path: Path, lines_read: int, error: csv.Error) -> InputFileError:
    """Returns the error of Python's CSV reader, with its line: the one after the lines read."""
    why = str(error)
    if "new-line character" in why:
        why = "a carriage return without a line feed; save the file with line feeds, or put the cell in quotes"
    return InputFileError(f"{path}:{lines_read + 1}:1: {why}")


def _smi(path: Path) -> Iterator[StructureRecord]:
    texts = (line.strip() for line in _lines(path) if line.strip() and not line.startswith("#"))
    for number, text in enumerate(texts):
        head, _, name = text.partition(" " if " " in text else "\t")
        yield StructureRecord(number, head, name.strip())


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
