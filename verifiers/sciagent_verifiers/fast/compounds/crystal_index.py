"""An index on disk of a reference file of crystals, for membership and nearest-neighbour queries.

Crystals are known by key, and by structure match inside their family, so that a copy with fewer digits is found as
well. Counts of likeness are kept in one sparse matrix. Indexing takes 20 to 100 ms a structure.
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
from sciagent.chemistry.crystals.files import ENDINGS, read_crystals
from sciagent.chemistry.crystals.notation import read_crystal
from sciagent.chemistry.crystals.prototypes import family, same
from sciagent.errors import InvalidCandidateError
from sciagent.verification.contract import ReferenceFile
from sciagent_verifiers.fast.novelty_base import Neighbour, ReferenceFolder

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
        made_of = {
            "format": FORMAT,
            "fingerprint": FINGERPRINT_VERSION,
            "sha256": file.sha256,
            "column": file.column,
            "spglib": version("spglib"),
            "ending": "".join(Path(file.path).suffixes[-2:]).lower(),
        }
        super().__init__(file, made_of)

    def attach(self) -> None:
        if self.is_built:
            _ = self._counts

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
        similarities = shared / (totals + sum(own_counts.values()) - shared)
        best = int(similarities.argmax())
        ((text, name, _),) = self._rows("id = ?", best)
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
        names, columns = np.unique(stored["names"], return_inverse=True)
        shape = (self.about["crystals"], max(1, len(names)))
        matrix = csc_array((stored["counts"].astype(float), (stored["rows"], columns)), shape=shape)
        return matrix, {int(name): i for i, name in enumerate(names)}, np.asarray(matrix.sum(axis=1)).ravel()

    def _write(self, path: Path, folder: Path) -> dict[str, int]:
        import numpy as np

        found = {"crystals": 0, "unreadable": 0}
        rows = list[int]()
        names = list[int]()
        counts = list[int]()
        with closing(sqlite3.connect(folder / "structures.db")) as database:
            database.execute("PRAGMA journal_mode=OFF")
            database.execute(
                "CREATE TABLE structure (id INTEGER PRIMARY KEY, key TEXT, family TEXT, formula TEXT, text TEXT,"
                " name TEXT, payload TEXT)"
            )
            for crystal, name in _crystals(path, self.column, found):
                number = found["crystals"]
                row = number, crystal.key, family(crystal), crystal.formula, crystal.text, name
                database.execute(
                    "INSERT INTO structure VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, json.dumps(crystal.payload()))
                )
                for part, n in structure_of(crystal).counts.items():
                    rows.append(number)
                    names.append(part)
                    counts.append(n)
                found["crystals"] += 1
            database.execute("CREATE INDEX by_key ON structure (key)")
            database.execute("CREATE INDEX by_family ON structure (family, formula)")
            database.commit()
        np.savez(folder / "counts.npz", rows=rows, names=np.array(names, dtype=np.int64), counts=counts)
        return found


def _crystals(path: Path, column: str, found: dict[str, int]) -> Iterator[tuple[Crystal, str]]:
    """Yields (crystal, name) of each readable record; the others are counted as unreadable."""
    for record in read_crystals(path, column):
        try:
            crystal = read_crystal(record.text)  # an empty text, the sign of a fault, is refused as well
        except InvalidCandidateError:
            found["unreadable"] += 1
            continue
        yield crystal, record.name


@lru_cache(maxsize=32)
def crystal_index(file: CrystalFile) -> CrystalIndex:
    """Returns the index of a file, one per process, so that forked processes use what was attached before the fork."""
    return CrystalIndex(file)
