"""Space groups by spglib: positions from an asymmetric unit, orbits with Wyckoff letters, and prototype labels.

Sources: Togo, Shinohara, Tanaka, Sci. Technol. Adv. Mater. Meth. 4, 2384822 (2024), spglib; Mehl et al., Comput. Mater.
Sci. 136, S1 (2017), labels; Goodall et al., Sci. Adv. 8, eabn4117 (2022), the letters that other origins and axes give.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from pathlib import Path
from typing import Any

SAME_POSITION = 1e-3
"""Largest difference of fractional coordinates of one position."""
_SYSTEMS = ((2, "a"), (15, "m"), (74, "o"), (142, "t"), (194, "h"), (230, "c"))
_DATA = "prototypes/wyckoff-position-relabelings.json.gz"


@dataclass(frozen=True)
class Orbit:
    """Sites of a primitive cell that symmetry makes alike."""

    number: int
    """Number of the orbit, from 1, in the order of the sites."""
    element: str
    """Symbol of the element."""
    letter: str
    """Wyckoff letter in the standard setting."""
    multiplicity: int
    """Number of sites in the conventional cell."""
    sites: tuple[int, ...]
    """Indexes of the sites in the primitive cell, from 0."""


@dataclass(frozen=True)
class CrystalSymmetry:
    """The space group of a structure and its orbits."""

    number: int
    """Number of the space group in the International Tables."""
    symbol: str
    """Short Hermann-Mauguin symbol."""
    orbits: tuple[Orbit, ...]
    """All orbits, by the first of their sites."""
    n_conventional: int
    """Number of sites in the conventional cell."""

    @property
    def label(self) -> str:
        """The prototype: anonymous formula, Pearson symbol, space group, Wyckoff letters by element. It is the same for
        every choice of origin and axes; elements of equal count are sorted by their letters."""
        counts = Counter[str]()
        for orbit in self.orbits:
            counts[orbit.element] += orbit.multiplicity
        divisor = reduce(math.gcd, counts.values())
        words = [
            sorted(
                (
                    counts[element] // divisor,
                    _letters(o.letter.translate(table) for o in self.orbits if o.element == element),
                )
                for element in counts
            )
            for table in _relabellings(self.number)
        ]
        best = min(words, key=lambda word: (sum(_weight(text) for _, text in word), [text for _, text in word]))
        formula = "".join(f"{chr(65 + i)}{n if n > 1 else ''}" for i, (n, _) in enumerate(best))
        return f"{formula}_{self._pearson}_{self.number}_{'_'.join(text for _, text in best)}"

    @property
    def _pearson(self) -> str:
        system = next(letter for last, letter in _SYSTEMS if self.number <= last)
        centring = {"A": "C"}.get(self.symbol[0], self.symbol[0])
        return f"{system}{centring}{self.n_conventional // 3 if centring == 'R' else self.n_conventional}"


def symmetry_of(structure: Any, symprec: float) -> CrystalSymmetry | None:
    """Returns the symmetry of a pymatgen Structure; None if spglib finds none. symprec: in angstrom."""
    import spglib

    cell = (structure.lattice.matrix, structure.frac_coords, [site.specie.Z for site in structure])
    try:
        data = spglib.get_symmetry_dataset(cell, symprec=symprec)
    except spglib.SpglibError:
        return None
    if data is None:
        return None
    ratio = len(data.std_types) / len(structure)
    groups: dict[int, list[int]] = {}
    for site, orbit in enumerate(data.crystallographic_orbits):
        groups.setdefault(int(orbit), []).append(site)
    orbits = tuple(
        Orbit(i, structure[s[0]].specie.symbol, data.wyckoffs[s[0]], round(len(s) * ratio), tuple(s))
        for i, s in enumerate(groups.values(), start=1)
    )
    return CrystalSymmetry(int(data.number), str(data.international), orbits, len(data.std_types))


def expanded(hall: int, position: Sequence[float]) -> list[list[float]]:
    """Returns all positions of the orbit of one position, in [0, 1). hall: number of the setting in spglib's table."""
    import numpy as np

    rotations, translations = _operations(hall)
    images = (rotations @ np.asarray(position) + translations) % 1.0
    kept: list[Any] = []
    for image in images:
        if not kept or np.abs((np.array(kept) - image + 0.5) % 1.0 - 0.5).max(axis=1).min() > SAME_POSITION:
            kept.append(image)
    return [[float(x) for x in image] for image in kept]


@cache
def _operations(hall: int) -> tuple[Any, Any]:
    import spglib

    found: Any = spglib.get_symmetry_from_database(hall)
    return found["rotations"], found["translations"]


@cache
def _relabellings(number: int) -> tuple[dict[int, str], ...]:
    """Returns the tables for `str.translate` of Wyckoff letters under other origins and axes, from pymatgen's data."""
    return tuple({int(k): v for k, v in table.items()} for table in _tables()[str(number)])


@cache
def _tables() -> dict[str, list[dict[str, str]]]:
    with gzip.open(analysis_folder() / _DATA) as file:
        tables: dict[str, list[dict[str, str]]] = json.load(file)
    return tables


def analysis_folder() -> Path:
    """Returns the folder of pymatgen's analysis data, without importing that package, which takes seconds."""
    spec = importlib.util.find_spec("pymatgen.analysis")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pymatgen.analysis")
    return Path(next(iter(spec.submodule_search_locations)))


def _letters(letters: Iterable[str]) -> str:
    """Returns sorted letters with their counts: `a`, `2c`."""
    return "".join(f"{n if n > 1 else ''}{letter}" for letter, n in sorted(Counter(letters).items()))


def _weight(text: str) -> int:
    """Returns the sum of the places of letters in the alphabet, each counted once for an element, as AFLOW does."""
    return sum(27 if c == "A" else ord(c) - 96 for c in text if c.isalpha())
