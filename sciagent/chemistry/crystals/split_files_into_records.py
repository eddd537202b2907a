"""Reads crystals from files one by one: CIF, POSCAR, extended XYZ, JSON, CSV and folders of them, plain or gzipped."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import MAX_CHARACTERS
from sciagent.chemistry.crystals.notation_and_structure_text_readers import cif_blocks
from sciagent.chemistry.molecule_files import StructureRecord, names_in, read_structures
from sciagent.errors import InputFileError
from sciagent.inputs.open_input import open_input

MAX_FILE = 256 << 20
"""Largest JSON file, in bytes, since it is read as a whole; other formats are read in parts."""
MAX_FILES = 1_000_000
"""Largest number of files of a folder that are read."""
ENDINGS = (".cif", ".mcif", ".vasp", ".poscar", ".contcar", ".xyz", ".extxyz", ".json", ".jsonl", ".csv")
"""Endings of files with crystals, each also with .gz. Files whose names begin with POSCAR or CONTCAR need none."""


def read_crystals(
    path: Path, column: str = "structure", skip: int = 0, keep: Sequence[str] | None = None
) -> Iterator[StructureRecord]:
    """Yields records from number `skip` on; the text of a record is the text of one structure, for `read_crystal`.

    A CIF may hold several blocks, an XYZ several frames, a JSON a list or an object of structures. A csv has any
    notation in `column`; `keep` are its columns whose texts stay with the record, as in `read_structures`. Of a folder,
    all files with a known ending are read, in the order of their names. Raises InputFileError for an unknown format, a
    missing column, or bytes that are not text. A bad record is yielded with its fault.
    """
    files = _files_of(path) if path.is_dir() else [path]
    records = itertools.chain.from_iterable(_records_of(file, column, keep) for file in files)
    for number, record in enumerate(records):
        if number >= skip:
            yield StructureRecord(number, record.text, record.names, record.fault)


def is_crystal_file(path: Path) -> bool:
    """Returns whether the name is one of a file with crystals."""
    return _ending(path) in ENDINGS


def _files_of(folder: Path) -> list[Path]:
    """Returns the crystal files below a folder, sorted, at most MAX_FILES. Raises InputFileError if there is none."""
    crystal_files = (path for path in folder.rglob("*") if is_crystal_file(path) and path.is_file())
    files = sorted(itertools.islice(crystal_files, MAX_FILES))
    if not files:
        raise InputFileError(f"{folder}:1:1: no file with crystals; their names end in {', '.join(ENDINGS)}")
    return files


def _ending(path: Path) -> str:
    """Returns the ending of a name without .gz; `.poscar` for names that begin with POSCAR or CONTCAR."""
    plain = path.name.lower().removesuffix(".gz")
    ending = Path(plain).suffix
    if ending not in ENDINGS and plain.startswith(("poscar", "contcar")):
        return ".poscar"
    return ending


def _records_of(path: Path, column: str, keep: Sequence[str] | None) -> Iterator[StructureRecord]:
    """Yields the records of one file, all with number 0, since the caller numbers them. Raises InputFileError."""
    # parts: (name, text) of each structure in the file
    match _ending(path):
        case ".csv":
            yield from read_structures(path, column, keep=keep)
            return
        case ".cif" | ".mcif":
            parts = cif_blocks(_lines(path))
        case ".xyz" | ".extxyz":
            parts = _frames(_lines(path))
        case ".json":
            parts = _structures(path)
        case ".jsonl":
            parts = ((f"line {number}", text) for number, text in enumerate(_lines(path), start=1) if text.strip())
        case ".vasp" | ".poscar" | ".contcar":
            parts = iter([("", _joined(_lines(path)))])
        case _:
            raise InputFileError(
                f'{path}:1:1: cannot tell the format of "{path.name}"; use {", ".join(ENDINGS)} (or .gz of these)'
            )
    has_structure = False
    for name, text in parts:
        has_structure = True
        names = names_in({"name": name or path.name, "file": path.name}, ("name", "file"))
        fault = f"{path.name} {name}: over {MAX_CHARACTERS} characters" if len(text) > MAX_CHARACTERS else ""
        yield StructureRecord(0, "" if fault else text, names, fault)
    if not has_structure:
        yield StructureRecord(0, "", {"name": path.name}, f"{path.name}: no structure in the file")


def _lines(path: Path) -> Iterator[str]:
    """Yields the lines of a text file with their ends; a line that is too long for a structure comes in pieces."""
    with open_input(path) as file:
        while True:
            raw = file.readline(MAX_CHARACTERS)
            if not raw:
                return
            try:
                yield raw.decode("utf-8-sig")
            except UnicodeDecodeError:  # names of authors in older CIFs
                yield raw.decode("latin-1")


def _joined(lines: Iterator[str]) -> str:
    """Returns the lines as one text, cut after the one that exceeds MAX_CHARACTERS; all lines are consumed."""
    kept = list[str]()
    size = 0
    for line in lines:
        if size <= MAX_CHARACTERS:
            kept.append(line)
            size += len(line)
    return "".join(kept)


def _frames(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each frame of an XYZ file. If a frame does not begin with a number of atoms, all lines
    from there on are one unreadable frame."""
    first_lines = (line for line in lines if line.strip())
    for number, first in enumerate(first_lines, start=1):
        count = first.strip()
        is_count = count.isascii() and count.isdigit() and len(count) < 10
        further_lines = itertools.islice(lines, int(count) + 1) if is_count else lines  # a comment, then the atoms
        yield f"frame {number}", _joined(itertools.chain([first], further_lines))


def _structures(path: Path) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of the structures of a JSON, which holds one structure, a list of structures, or an object
    with structures as values."""
    with open_input(path) as file:
        content = file.read(MAX_FILE + 1)
    if len(content) > MAX_FILE:
        raise InputFileError(f"{path}:1:1: over {MAX_FILE >> 20} MB; use .jsonl with a structure in each line")
    try:
        data = json.loads(content)
    except (ValueError, RecursionError) as error:
        place = f"{getattr(error, 'lineno', 1)}:{getattr(error, 'colno', 1)}"
        raise InputFileError(f"{path}:{place}: not JSON: {error}") from error
    if isinstance(data, list):
        yield from ((f"entry {number}", json.dumps(entry)) for number, entry in enumerate(data, start=1))
    elif isinstance(data, Mapping) and "lattice" not in data and "structure" not in data:
        yield from ((str(name), json.dumps(entry)) for name, entry in data.items())
    else:
        yield "", json.dumps(data)
