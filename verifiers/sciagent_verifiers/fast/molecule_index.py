"""An index on disk of a reference file, for membership and nearest-neighbour queries.

An index is built once per file content, fingerprint and library versions, then shared: fingerprints by FPSim2 (HDF5,
sorted by popcount), InChIKeys in SQLite. A salt is represented by its largest organic fragment. Records that RDKit
cannot read are counted and left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import MAX_CHARACTERS, MAX_HEAVY_ATOMS
from sciagent.chemistry.molecule_files import read_structures
from sciagent.chemistry.molecule_normal_form import normalise, parent
from sciagent.chemistry.rdkit_messages import rdkit_messages
from sciagent.verification.verifier_contract import StructureFile
from sciagent_verifiers.fast.reference_index_and_novelty_base import Neighbour, ReferenceFolder

FORMAT = 1  # increase it when the stored format changes
THRESHOLDS = (0.7, 0.4, 0.0)  # similarities, tried in this order; with a high one popcounts exclude most of the file


@dataclass(frozen=True)
class Fingerprint:
    """A Morgan fingerprint."""

    radius: int = 2
    """Bonds around an atom; 2 gives ECFP4."""
    bits: int = 2048
    """Length of the fingerprint."""

    @property
    def label(self) -> str:
        return f"ECFP{2 * self.radius}/{self.bits}"

    def params(self) -> dict[str, int]:
        return {"radius": self.radius, "fpSize": self.bits}


class ReferenceIndex(ReferenceFolder):
    """The index of a reference file. fingerprint: None if only membership is queried.

    The constructor is cheap; `build` writes missing files, and the first query opens them.
    """

    counted = "molecules"

    def __init__(self, file: StructureFile, fingerprint: Fingerprint | None = None) -> None:
        self.fingerprint = fingerprint
        depends_on = {
            "format": FORMAT,
            "sha256": file.sha256,
            "column": file.column,
            "rdkit": version("rdkit"),
            "ending": "".join(Path(file.path).suffixes[-2:]).lower(),
            "fingerprint": None if fingerprint is None else {**fingerprint.params(), "fpsim2": version("fpsim2")},
        }
        super().__init__(file, depends_on)
        self.column = file.column

    def _write(self, path: Path, folder: Path) -> dict[str, int]:
        counts = {"molecules": 0, "unreadable": 0}
        with closing(sqlite3.connect(folder / "structures.db")) as database:
            database.execute("PRAGMA journal_mode=OFF")
            database.execute("CREATE TABLE structure (id INTEGER PRIMARY KEY, key TEXT, text TEXT, name TEXT)")
            written_molecules = _write_molecules(path, self.column, database, counts)
            if self.fingerprint is not None:
                _write_fingerprints(written_molecules, folder / "fingerprints.h5", self.fingerprint)
            for _ in written_molecules:  # writes the molecules that the fingerprints have not asked for
                pass
            database.execute("CREATE INDEX by_key ON structure (key)")
            database.commit()
        return counts

    @cached_property
    def _engine(self) -> Any:
        from FPSim2 import FPSim2Engine

        _set_up_pytables()
        self.build()
        return FPSim2Engine(str(self.folder / "fingerprints.h5"))

    def attach(self) -> None:
        if self.is_built and self.fingerprint is not None:
            _ = self._engine  # opens the fingerprints

    def holds(self, inchikey: str | None, *, connectivity: bool = False) -> str | None:
        """Returns the name in the file, or the text, of the molecule with this standard InChIKey; None if absent.

        connectivity: ignore stereochemistry and isotopes (compare only the first block of the key).
        """
        if inchikey is None:
            return None
        self.build()
        first_key = inchikey
        last_key = inchikey
        if connectivity:
            first_block = inchikey[:14]
            first_key = first_block
            last_key = f"{first_block}."  # sorts behind every key with this block, since "-" sorts before "."
        row = self._structure("key >= ? AND key <= ? ORDER BY key LIMIT 1", first_key, last_key)
        if row is None:
            return None
        text, name = row
        return name or text

    def nearest(self, mol: Any) -> Neighbour:
        """Returns the reference with the highest Tanimoto similarity; on a tie, the first in the index."""
        for threshold in THRESHOLDS:
            matches = self._engine.top_k(mol, k=1, threshold=threshold)
            if not len(matches):
                continue
            structure_id, similarity = matches[0]
            row = self._structure("id = ?", int(structure_id))
            if row:
                text, name = row
                return Neighbour(round(float(similarity), 6), text, name)  # single precision in the index
        return Neighbour(similarity=0.0, text="", name="")  # no reference is similar at all

    def _structure(self, where: str, *values: str | int) -> tuple[str, str] | None:
        """Returns text and name of the first structure that meets the condition, or None."""
        with closing(sqlite3.connect(f"file:{self.folder / 'structures.db'}?mode=ro", uri=True)) as database:
            row: tuple[str, str] | None = database.execute(
                f"SELECT text, name FROM structure WHERE {where}", values
            ).fetchone()
        return row


@lru_cache(maxsize=32)
def index_of(file: StructureFile, fingerprint: Fingerprint | None = None) -> ReferenceIndex:
    """Returns the index of a file, one per process, so that forked processes use what was attached before the fork."""
    return ReferenceIndex(file, fingerprint)


def _write_molecules(
    path: Path, column: str, database: sqlite3.Connection, counts: dict[str, int]
) -> Iterator[tuple[Any, int]]:
    """Writes every readable structure to the database and counts it. Yields (molecule, id) of each."""
    for record in read_structures(path, column):
        molecule_and_key = None if record.fault else _molecule(record.text)
        if molecule_and_key is None:
            counts["unreadable"] += 1
            continue
        mol, key = molecule_and_key
        row = (counts["molecules"], key, record.text[:MAX_CHARACTERS], record.name)
        database.execute("INSERT INTO structure VALUES (?, ?, ?, ?)", row)
        yield mol, counts["molecules"]
        counts["molecules"] += 1


def _molecule(text: str) -> tuple[Any, str] | None:
    """Returns the parent molecule and its standard InChIKey, or None if it is unreadable or too large."""
    from rdkit import Chem

    key_of: Any = Chem.MolToInchiKey
    if len(text) > MAX_CHARACTERS:
        return None
    with rdkit_messages():
        try:
            mol = Chem.MolFromSmiles(text)
            if mol is None or not 0 < mol.GetNumAtoms() <= MAX_HEAVY_ATOMS:
                return None
            mol = parent(mol) if "." in text else normalise(mol)
            key = key_of(mol)
        except (RuntimeError, ValueError):
            return None
    return (mol, key) if key else None


def _set_up_pytables() -> None:
    """Sets PyTables to one thread, since the process forks, and to the same chunk size on every machine.

    PyTables makes a chunk as large as the L3 cache. With a cache of 480 MB an index of nine molecules took 7 s and
    0.5 GB instead of 0.8 s.
    """
    import tables.leaf

    tables.set_blosc_max_threads(1)
    tables.leaf.get_cpu_info = dict  # returns {}, without the size of the cache


def _write_fingerprints(stream: Iterator[tuple[Any, int]], path: Path, fingerprint: Fingerprint) -> None:
    """Writes the fingerprints of (molecule, id)."""
    from FPSim2.io import create_db_file

    _set_up_pytables()
    first = next(stream, None)
    if first is not None:  # FPSim2 takes no empty file
        create_db_file(chain([first], stream), str(path), "rdkit", "Morgan", fingerprint.params())
