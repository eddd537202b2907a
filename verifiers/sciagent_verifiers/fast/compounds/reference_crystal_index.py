"""An index on disk of a reference file of crystals, for membership and nearest-neighbour queries.

Crystals are known by key, and by structure match inside their family, so that a copy with fewer digits is found as
well. Likeness is computed from counts of the parts of a structure, which are elements, coordination numbers and bonds.
The counts are kept in one sparse matrix. Indexing takes 20 to 100 ms a structure.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from sciagent.chemistry.crystal import FINGERPRINT_VERSION, Crystal
from sciagent.chemistry.crystals.crystal_similarity import structure_of
from sciagent.chemistry.crystals.notation_and_structure_text_readers import read_crystal
from sciagent.chemistry.crystals.prototypes_and_same_structures import family, same
from sciagent.chemistry.crystals.split_files_into_records import ENDINGS, read_crystals
from sciagent.errors import InvalidCandidateError
from sciagent.verification.verifier_contract import ReferenceFile
from sciagent_verifiers.fast.reference_index_and_novelty_base import Neighbour, ReferenceFolder

FORMAT = 1  # increase it when the stored format, families or likeness change
MAX_MATCHES = 200
"""Largest number of references of one family and formula that a crystal is matched to."""


class CrystalFile(ReferenceFile):
    """A file of crystals: cif, extended xyz, json, jsonl or csv, also .gz."""

    column: str = Field("structure", min_length=1, description="Column of a csv that holds the structures.")

    @model_validator(mode="after")
    def _known_format(self) -> CrystalFile:
        if not self.path.lower().removesuffix(".gz").endswith(ENDINGS):
            raise ValueError(f'"{self.name}" is no file of crystals; use {", ".join(ENDINGS)}, each also with .gz')
        return self


class CrystalIndex(ReferenceFolder):
    """The index of a file of crystals. The constructor is cheap; `build` writes missing files."""

    counted = "crystals"

    def __init__(self, file: CrystalFile) -> None:
        self.column = file.column
        depends_on = {
            "format": FORMAT,
            "fingerprint": FINGERPRINT_VERSION,
            "sha256": file.sha256,
            "column": file.column,
            "spglib": version("spglib"),
            "ending": "".join(Path(file.path).suffixes[-2:]).lower(),
        }
        super().__init__(file, depends_on)

    def attach(self) -> None:
        if self.is_built:
            _ = self._counts  # reads the matrix

    def holds(self, crystal: Crystal) -> str | None:
        """Returns the name in the file, or the text, of the same crystal; None if there is none."""
        self.build()
        for text, name, _ in self._rows("key = ? LIMIT 1", crystal.key):
            return name or text
        close = self._rows("family = ? AND formula = ? LIMIT ?", family(crystal), crystal.formula, MAX_MATCHES)
        for text, name, payload in close:
            if same(crystal, Crystal.from_payload(json.loads(payload))):
                return name or text
        return None

    def nearest(self, crystal: Crystal) -> Neighbour:
        """Returns the reference with the highest likeness; on a tie, the first in the file."""
        import numpy as np

        own_counts = structure_of(crystal).counts
        matrix, columns, totals = self._counts
        shared = np.zeros(matrix.shape[0])  # sum over the parts of the smaller of both counts, for each reference
        for part, n in own_counts.items():
            column = columns.get(part)
            if column is not None:
                start = matrix.indptr[column]
                end = matrix.indptr[column + 1]
                references = matrix.indices[start:end]
                shared[references] += np.minimum(matrix.data[start:end], n)
        union = totals + sum(own_counts.values()) - shared
        similarities = shared / union  # Tanimoto similarity of counts
        best = int(similarities.argmax())
        [(text, name, _)] = self._rows("id = ?", best)
        return Neighbour(round(float(similarities[best]), 6), text, name)

    def _rows(self, where: str, *values: str | int) -> list[tuple[str, str, str]]:
        """Returns (text, name, payload) of the structures that meet a condition."""
        with closing(sqlite3.connect(f"file:{self.folder / 'structures.db'}?mode=ro", uri=True)) as database:
            return database.execute(f"SELECT text, name, payload FROM structure WHERE {where}", values).fetchall()

    @cached_property
    def _counts(self) -> tuple[Any, dict[int, int], Any]:
        """The counts as a matrix, references x parts; {part: its column}; and the sum of each reference's counts."""
        import numpy as np
        from scipy.sparse import csc_array

        self.build()
        stored = np.load(self.folder / "counts.npz")
        parts, columns = np.unique(stored["names"], return_inverse=True)
        shape = (self.about["crystals"], max(1, len(parts)))
        matrix = csc_array((stored["counts"].astype(float), (stored["rows"], columns)), shape=shape)
        column_of_part = {int(part): column for column, part in enumerate(parts)}
        totals = np.asarray(matrix.sum(axis=1)).ravel()
        return matrix, column_of_part, totals

    def _write(self, path: Path, folder: Path) -> dict[str, int]:
        import numpy as np

        n_records = {"crystals": 0, "unreadable": 0}
        # an entry for each part of each crystal
        rows = list[int]()
        parts = list[int]()
        counts = list[int]()
        with closing(sqlite3.connect(folder / "structures.db")) as database:
            database.execute("PRAGMA journal_mode=OFF")
            database.execute(
                "CREATE TABLE structure (id INTEGER PRIMARY KEY, key TEXT, family TEXT, formula TEXT, text TEXT,"
                " name TEXT, payload TEXT)"
            )
            for crystal, name in _crystals(path, self.column, n_records):
                number = n_records["crystals"]
                payload = json.dumps(crystal.payload())
                row = (number, crystal.key, family(crystal), crystal.formula, crystal.text, name, payload)
                database.execute("INSERT INTO structure VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                for part, n in structure_of(crystal).counts.items():
                    rows.append(number)
                    parts.append(part)
                    counts.append(n)
                n_records["crystals"] += 1
            database.execute("CREATE INDEX by_key ON structure (key)")
            database.execute("CREATE INDEX by_family ON structure (family, formula)")
            database.commit()
        np.savez(folder / "counts.npz", rows=rows, names=np.array(parts, dtype=np.int64), counts=counts)
        return n_records


def _crystals(path: Path, column: str, n_records: dict[str, int]) -> Iterator[tuple[Crystal, str]]:
    """Yields (crystal, name) of each readable record; the others are counted as unreadable in `n_records`."""
    for record in read_crystals(path, column):
        try:
            crystal = read_crystal(record.text)  # an empty text, the sign of a fault, is refused as well
        except InvalidCandidateError:
            n_records["unreadable"] += 1
            continue
        yield crystal, record.name


@lru_cache(maxsize=32)
def crystal_index(file: CrystalFile) -> CrystalIndex:
    """Returns the index of a file, one per process, so that forked processes use what was attached before the fork."""
    return CrystalIndex(file)
