"""An index on disk of a reference file, for membership and nearest-neighbour queries.

An index is built once per file content, fingerprint and library versions, then shared: fingerprints by FPSim2 (HDF5,
sorted by popcount), InChIKeys in SQLite. A folder in the cache is complete or absent: it is built under a lock and
another name, then renamed. A salt is represented by its largest organic fragment. Records that RDKit cannot read are
counted and left out.
"""

from __future__ import annotations

import json
import logging
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

from sciagent.chemistry.molecule import MAX_CHARACTERS, MAX_HEAVY_ATOMS
from sciagent.chemistry.rdkit_log import rdkit_messages
from sciagent.chemistry.standardise import normalise, parent
from sciagent.chemistry.structure_files import read_structures
from sciagent.domain.evidence import content_hash
from sciagent.errors import InputFileError
from sciagent.settings import cache_folder
from sciagent.verification.contract import Outcome, Reason, SimulatorError, StructureFile

FORMAT = 1  # increase it when the stored format changes
LOCK_SECONDS = 3600.0
STEPS = (0.7, 0.4, 0.0)  # similarity thresholds; with a high one most of the file is skipped by popcount
log = logging.getLogger(__name__)


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

    def params(self) -> dict[str, Any]:
        return {"radius": self.radius, "fpSize": self.bits}


@dataclass(frozen=True)
class Neighbour:
    """The nearest molecule of a reference file."""

    similarity: float
    """Tanimoto similarity, 0 to 1."""
    text: str
    """The structure as written in the file."""
    name: str
    """The name in the file."""


class ReferenceIndex:
    """The index of a reference file. fingerprint: None if only membership is queried.

    The constructor is cheap; `build` writes missing files, and the first query opens them.
    """

    def __init__(self, file: StructureFile, fingerprint: Fingerprint | None = None) -> None:
        self.file = file
        self.fingerprint = fingerprint
        made_of = {
            "format": FORMAT,
            "sha256": file.sha256,
            "column": file.column,
            "rdkit": version("rdkit"),
            "ending": "".join(Path(file.path).suffixes[-2:]).lower(),
            "fingerprint": fingerprint and {**fingerprint.params(), "fpsim2": version("fpsim2")},
        }
        self.folder = cache_folder() / "references" / content_hash(made_of)[:32]

    @property
    def is_built(self) -> bool:
        return (self.folder / "about.json").is_file()

    def build(self) -> None:
        """Writes the index if it is missing. Concurrent builders wait for the first.

        Raises SimulatorError bad_environment (reference_file) if the file is gone, changed, or holds no molecule.
        """
        if self.is_built:
            return
        from filelock import FileLock, Timeout

        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with FileLock(f"{self.folder}.lock", timeout=LOCK_SECONDS):
                if not self.is_built:
                    self._build()
        except Timeout as error:
            detail = f"somebody has been indexing {self.file.name} for more than an hour; see {self.folder}.lock"
            raise _unusable(detail) from error
        except OSError as error:
            detail = f"the index of {self.file.name} cannot be written to {self.folder.parent}: {error.strerror}"
            raise _unusable(detail) from error

    def _build(self) -> None:
        path = self.file.check()
        log.info("indexing %s, once", self.file.name)
        for left in self.folder.parent.glob(f"{self.folder.name}.*.partial"):  # left by a killed process
            shutil.rmtree(left, ignore_errors=True)
        partial = Path(tempfile.mkdtemp(prefix=f"{self.folder.name}.", suffix=".partial", dir=self.folder.parent))
        try:
            about = self._write(path, partial)
            if not about["molecules"]:
                detail = f"{self.file.name} holds no molecule that can be read ({about['unreadable']} records)"
                raise _unusable(detail)
            (partial / "about.json").write_text(json.dumps(about))
            shutil.rmtree(self.folder, ignore_errors=True)  # left by an earlier format or a crash
            partial.rename(self.folder)
        except InputFileError as error:
            raise _unusable(str(error)) from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def _write(self, path: Path, folder: Path) -> dict[str, int]:
        counts = {"molecules": 0, "unreadable": 0}
        with closing(sqlite3.connect(folder / "structures.db")) as database:
            database.execute("PRAGMA journal_mode=OFF")
            database.execute("CREATE TABLE structure (id INTEGER PRIMARY KEY, key TEXT, text TEXT, name TEXT)")
            stream = _enter(path, self.file.column, database, counts)
            if self.fingerprint is not None:
                _write_fingerprints(stream, folder / "fingerprints.h5", self.fingerprint)
            deque(stream, maxlen=0)  # what is left, all of it where there are no fingerprints
            database.execute("CREATE INDEX by_key ON structure (key)")
            database.commit()
        return counts

    @cached_property
    def about(self) -> dict[str, int]:
        """The counts of `molecules` in the index and of `unreadable` records. Builds a missing index first."""
        self.build()
        counts: dict[str, int] = json.loads((self.folder / "about.json").read_text())
        return counts

    @cached_property
    def _engine(self) -> Any:
        from FPSim2 import FPSim2Engine

        _set_up_pytables()
        self.build()
        return FPSim2Engine(str(self.folder / "fingerprints.h5"))

    def attach(self) -> None:
        """Loads the fingerprints, if they are on disk, so that forked processes share them."""
        if self.is_built and self.fingerprint is not None:
            _ = self._engine

    def holds(self, inchikey: str | None, *, connectivity: bool = False) -> str | None:
        """Returns the name in the file, or the text, of the molecule with this standard InChIKey; None if absent.

        connectivity: ignore stereochemistry and isotopes (compare only the first block of the key).
        """
        if inchikey is None:
            return None
        self.build()
        keys = (inchikey[:14], f"{inchikey[:14]}.") if connectivity else (inchikey, inchikey)
        row = self._structure("key >= ? AND key <= ? ORDER BY key LIMIT 1", *keys)
        return None if row is None else row[1] or row[0]

    def nearest(self, mol: Any) -> Neighbour:
        """Returns the reference with the highest Tanimoto similarity; on a tie, the first in the index."""
        for threshold in STEPS:
            matches = self._engine.top_k(mol, k=1, threshold=threshold)
            if len(matches) and (row := self._structure("id = ?", int(matches[0][0]))):
                return Neighbour(round(float(matches[0][1]), 6), *row)  # single precision in the index
        return Neighbour(0.0, "", "")

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


def _unusable(detail: str) -> SimulatorError:
    return SimulatorError(Outcome.BAD_ENVIRONMENT, Reason.REFERENCE_FILE, detail)


def _enter(path: Path, column: str, database: sqlite3.Connection, counts: dict[str, int]) -> Iterator[tuple[Any, int]]:
    """Writes every readable structure to the database. Yields (molecule, id) of each."""
    for record in read_structures(path, column):
        read = None if record.fault else _molecule(record.text)
        if read is None:
            counts["unreadable"] += 1
            continue
        mol, key = read
        row = counts["molecules"], key, record.text[:MAX_CHARACTERS], record.name[:200]
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
    tables.leaf.get_cpu_info = dict


def _write_fingerprints(stream: Iterator[tuple[Any, int]], path: Path, fingerprint: Fingerprint) -> None:
    from FPSim2.io import create_db_file

    _set_up_pytables()
    if first := next(stream, None):  # FPSim2 takes no empty file
        create_db_file(chain([first], stream), str(path), "rdkit", "Morgan", fingerprint.params())
