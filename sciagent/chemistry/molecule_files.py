"""Reads structures from files one by one: CSV, SMILES and SDF, plain or gzipped, of any length."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import MAX_CYCLES, MAX_HEAVY_ATOMS
from sciagent.domain.candidate_and_its_names_in_files import identifier_columns
from sciagent.errors import InputFileError
from sciagent.inputs.open_input import open_input
from sciagent.inputs.saved_tables import check_columns, csv_fault

MAX_LINE = 1_000_000
"""Longest line, in bytes; the rest is read as another line."""
MAX_RECORD = 16 << 20
"""Characters of a record of an sdf file that are read."""
MAX_ATOMS = 4 * MAX_HEAVY_ATOMS
"""Largest number of atoms, hydrogens included, that a mol block may have."""
_SIZE_LIMIT = f"the limit is {MAX_HEAVY_ATOMS} heavy atoms"
_V3000_COUNTS = re.compile(r"^M  V30\s+COUNTS\s+(\d+)\s+(\d+)", re.MULTILINE | re.IGNORECASE)
_V3000_CONTINUATION = re.compile(r"-[ \t\r]*\nM  V30 ")  # a line that ends in - goes on in the next one
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


def names_in(row: Mapping[str, str | None], columns: Sequence[str]) -> dict[str, str]:
    """Returns the texts of the columns in a row, without empty ones, each cut to MAX_NAME characters."""
    names = {}
    for column in columns:
        words = (row.get(column) or "").split()
        text = " ".join(words)[:MAX_NAME]
        if text:
            names[column] = text
    return names


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

    with rdkit_messages():
        for number, text in enumerate(_sdf_records(path)):
            place = f"record {number + 1}"
            fault = _size_fault(text)
            if fault:
                yield StructureRecord(number, "", fault=f"{place} {fault}")
                continue
            supplier: Any = Chem.ForwardSDMolSupplier(io.BytesIO(text.encode()), sanitize=True, removeHs=True)
            mol = next(iter(supplier), None)
            if mol is None:
                yield StructureRecord(number, "", fault=f"{place} is not a readable mol block")
                continue
            if not mol.GetNumAtoms():
                yield StructureRecord(number, "", fault=f"{place} has no atoms")
                continue
            fields = {name: mol.GetProp(name) for name in keep if mol.HasProp(name)}
            fields["name"] = mol.GetProp("_Name") if mol.HasProp("_Name") else ""
            names = names_in(fields, tuple(fields))
            heavy = mol.GetNumHeavyAtoms()
            if heavy > MAX_HEAVY_ATOMS:
                yield StructureRecord(number, "", names, f"{place} has {heavy} heavy atoms; {_SIZE_LIMIT}")
                continue
            yield StructureRecord(number, cxsmiles(mol), names)


def _sdf_records(path: Path) -> Iterator[str]:
    """Yields the text of each record, cut after MAX_RECORD characters. Bytes that are not UTF-8 are read as Latin-1."""
    with open_input(path) as file:
        lines = list[str]()
        n_characters = 0
        for raw in iter(lambda: file.readline(MAX_LINE), b""):  # until the end of the file
            try:
                line = raw.decode()
            except UnicodeDecodeError:  # names of authors in older files
                line = raw.decode("latin-1")
            n_characters += len(line)
            if n_characters <= MAX_RECORD:
                lines.append(line)
            if line.startswith("$$$$"):
                yield "".join(lines)
                lines = []
                n_characters = 0
        rest = "".join(lines)
        if rest.strip():  # the last record may lack its end
            yield rest


def _size_fault(text: str) -> str:
    """Returns what is wrong with the size that the counts lines of an sdf record state; empty if it may be read.

    RDKit reads at most as many atoms and bonds as these lines state. The size is looked at first, since RDKit ends the
    process when it writes the SMILES of a chain of 20,000 atoms, and takes hours for some larger molecules.
    """
    block = text.partition("M  END")[0]
    head = block.split("\n", 4)
    counts_line = head[3] if len(head) > 3 else ""
    stated = list[tuple[str, str]]()
    if "V3000" in counts_line:
        stated = _V3000_COUNTS.findall(_V3000_CONTINUATION.sub("", block))
    else:
        stated.append((counts_line[:3], counts_line[3:6]))
    sizes = [(int(atoms), int(bonds)) for atoms, bonds in stated if _is_count(atoms) and _is_count(bonds)]
    if not sizes:
        return "is not a readable mol block"
    atoms = max(n for n, _ in sizes)
    bonds = max(n for _, n in sizes)
    if atoms > MAX_ATOMS:
        return f"has {atoms} atoms; {_SIZE_LIMIT}"
    if bonds > MAX_ATOMS + MAX_CYCLES:
        return f"has {bonds} bonds; the limit is {MAX_ATOMS + MAX_CYCLES}"
    return ""


def _is_count(text: str) -> bool:
    """Returns whether a field of a counts line is a number, as RDKit reads it: digits after blanks."""
    digits = text.strip()
    return digits.isascii() and digits.isdigit() and len(digits) < 10
