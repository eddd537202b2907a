"""Counts and traits that compare crystals: composition, coordination and neighbours, the same for every cell.

The counts take the place of a molecule's atom environments in the models of the scheduler. They are shares of the
atoms, in units of a twenty-fourth, so that a supercell changes nothing.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.bonds import contacts, electronegativity, radius
from sciagent.chemistry.crystals.prototypes_and_same_structures import REMEMBERED
from sciagent.chemistry.fingerprints_and_families import StructureFingerprint

PARTS = 24
"""Number of parts that the atoms of a crystal are counted in."""
SHELL = 1.2
"""Neighbours are bonds up to this multiple of an atom's shortest one, both relative to the sum of the radii."""
# divisors of the traits of `structure_of`: about their spread among inorganic compounds
NEGATIVITY = 0.6
RADIUS = 0.4
VALENCE = 3.0
ROW = 1.2
VOLUME = 0.4


def structure_of(crystal: Crystal) -> StructureFingerprint:
    """Returns the fingerprint of a crystal.

    counts: shares of the atoms, times PARTS and rounded, by element, by element and number of neighbours, and by
    element and neighbouring element; names are hashed to 32 bits. traits: mean and spread of electronegativity, radius,
    number of valence electrons and row, and the logarithm of the volume per atom, each divided by a typical spread.
    """
    return _structure_of(crystal)


@lru_cache(maxsize=REMEMBERED)
def _structure_of(crystal: Crystal) -> StructureFingerprint:
    shares: defaultdict[str, float] = defaultdict(float)
    neighbours = _neighbours(crystal.structure)
    for symbol, neighbour_symbols in zip(crystal.species, neighbours, strict=True):
        n_neighbours = len(neighbour_symbols)
        shares[symbol] += 1
        shares[f"{symbol}/{n_neighbours}"] += 1
        for other, n in Counter(neighbour_symbols).items():
            shares[f"{symbol}-{other}"] += n / max(1, n_neighbours)
    rounded = {name: round(PARTS * share / crystal.n_atoms) for name, share in shares.items()}
    counts = {zlib.crc32(name.encode()): n for name, n in rounded.items() if n}
    return StructureFingerprint(counts, _traits(crystal))


def nearest(crystal: Crystal, others: Sequence[Crystal]) -> float | None:
    """Returns the similarity to the most similar of the others, as in `likeness`; None if there are none."""
    return max((likeness(crystal, other) for other in others), default=None)


def likeness(crystal: Crystal, other: Crystal) -> float:
    """Returns the Tanimoto similarity of the counts of two crystals, in [0, 1]; 1 if the counts are equal."""
    first = structure_of(crystal).counts
    second = structure_of(other).counts
    shared = sum(min(n, second.get(name, 0)) for name, n in first.items())
    total = sum(first.values()) + sum(second.values()) - shared
    return shared / total if total else 0.0


def _neighbours(structure: Any) -> list[list[str]]:
    """Returns the symbols of the bonded neighbours of each site."""
    import numpy as np

    bonds = contacts(structure, SHELL)
    smallest = np.full(len(structure), np.inf)
    np.minimum.at(smallest, bonds.first, bonds.ratios)
    is_near = bonds.ratios <= SHELL * smallest[bonds.first]
    symbols = [site.specie.symbol for site in structure]
    neighbours: list[list[str]] = [[] for _ in symbols]
    for centre, neighbour in zip(bonds.first[is_near], bonds.second[is_near], strict=True):
        neighbours[centre].append(symbols[neighbour])
    return neighbours


def _traits(crystal: Crystal) -> tuple[float, ...]:
    """Returns the traits of `structure_of`."""
    # (property of an element, divisor)
    columns: tuple[tuple[Callable[[str], float], float], ...] = (
        (lambda symbol: electronegativity(symbol) or 0.0, NEGATIVITY),
        (radius, RADIUS),
        (_valence_electrons, VALENCE),
        (_row, ROW),
    )
    traits: list[float] = []
    for value_of, spread in columns:
        values = [value_of(symbol) for symbol in crystal.species]
        mean = math.fsum(values) / len(values)
        deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
        traits += [mean / spread, deviation / spread]
    return (*traits, math.log(crystal.structure.volume / crystal.n_atoms) / VOLUME)


@lru_cache(maxsize=128)
def _row(symbol: str) -> float:
    """Returns the row of the periodic table."""
    from pymatgen.core import Element

    return float(Element(symbol).row)


@lru_cache(maxsize=128)
def _valence_electrons(symbol: str) -> float:
    """Returns the number of electrons outside closed shells: the group of the periodic table, less 10 from 13 on."""
    from pymatgen.core import Element

    group = Element(symbol).group
    return float(group - 10 if group > 12 else group)
