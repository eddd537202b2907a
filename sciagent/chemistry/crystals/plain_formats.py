"""Reads POSCAR, extended XYZ and JSON as crystals, without objects that a text could name.

The readers are our own, since those of libraries allocate what a count in the text asks for, or import the classes
that a JSON names. POSCAR: VASP 5 with a line of symbols. Extended XYZ: one frame with `Lattice` and `Properties`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from sciagent.chemistry.crystal import MAX_SITES, Crystal
from sciagent.chemistry.crystals.cell import crystal_of
from sciagent.domain.outcomes import Reason
from sciagent.errors import InvalidCandidateError

_LATTICE = re.compile(r"""\bLattice\s*=\s*["'{]([^"'}]*)["'}]""", re.IGNORECASE)
_PROPERTIES = re.compile(r"""\bProperties\s*=\s*["']?([\w:]+)""", re.IGNORECASE)
_SYMBOL = re.compile(r"[A-Z][a-z]?")


def unparsable(detail: str) -> InvalidCandidateError:
    """Returns the error for a text that cannot be read."""
    return InvalidCandidateError(Reason.UNPARSABLE, " ".join(detail.split())[:300])


def is_extended_xyz(text: str) -> bool:
    """Returns whether the text looks like a frame of extended XYZ."""
    first, _, rest = text.lstrip().partition("\n")
    return first.strip().isdigit() and _LATTICE.search(rest.partition("\n")[0]) is not None


def crystal_from_xyz(text: str) -> Crystal:
    """Returns the crystal of one frame of extended XYZ. Raises InvalidCandidateError."""
    import numpy as np

    lines = text.strip().splitlines()
    n = _count(lines[0])
    comment = lines[1] if len(lines) > 1 else ""
    lattice = _LATTICE.search(comment)
    if lattice is None:
        raise unparsable('no Lattice="..." in the second line of the XYZ')
    matrix = np.array(_numbers(lattice[1].split(), 9)).reshape(3, 3)
    columns = _PROPERTIES.search(comment)
    symbol, first = _columns(columns[1] if columns else "species:S:1:pos:R:3")
    if len(lines) != n + 2:
        raise unparsable(f"{len(lines) - 2} lines of atoms; the first line says {n}")
    rows = [line.split() for line in lines[2:]]
    if any(len(row) < max(symbol + 1, first + 3) for row in rows):
        raise unparsable("a line of atoms is too short")
    cartesian = np.array([_numbers(row[first : first + 3], 3) for row in rows])
    return crystal_of(matrix, [row[symbol] for row in rows], _fractional(cartesian, matrix))


def _columns(properties: str) -> tuple[int, int]:
    """Returns the columns of the symbol and of the first coordinate. Raises InvalidCandidateError."""
    parts = properties.split(":")
    place, found = 0, dict[str, int]()
    for name, width in zip(parts[::3], parts[2::3], strict=False):
        found[name.lower()] = place
        place += int(width) if width.isdecimal() and len(width) < 4 else 0
    if "species" not in found or "pos" not in found:
        raise unparsable("Properties of the XYZ name no species or no pos")
    return found["species"], found["pos"]


def crystal_from_poscar(text: str) -> Crystal:
    """Returns the crystal of a POSCAR. Raises InvalidCandidateError."""
    import numpy as np

    lines = text.strip("\n").splitlines()
    if len(lines) < 8:
        raise unparsable("neither CIF, POSCAR, extended XYZ, JSON nor a prototype such as `rocksalt: Na Cl`")
    matrix = np.array([_numbers(line.split(), 3) for line in lines[2:5]])
    matrix, factor = _scaled(matrix, lines[1])
    symbols, counts = lines[5].split(), lines[6].split()
    if not symbols or symbols[0][0].isdigit():
        raise unparsable("the POSCAR has no line of symbols (VASP 5)")
    if len(symbols) != len(counts):
        raise unparsable(f"{len(symbols)} symbols and {len(counts)} counts in the POSCAR")
    species: list[str] = []
    for symbol, count in zip(symbols, counts, strict=True):
        known = _SYMBOL.match(symbol)  # `Na_pv` and `Na/0123abcd` name potentials
        species += [known[0] if known else symbol] * _count(count)
        _count(str(len(species)))
    start = 8 if lines[7].strip()[:1].lower() == "s" else 7
    if len(lines) < start + 1 + len(species):
        raise unparsable(f"{max(0, len(lines) - start - 1)} lines of coordinates; {len(species)} atoms")
    mode = lines[start].strip()[:1].lower()
    rows = [_numbers(line.split()[:3], 3) for line in lines[start + 1 : start + 1 + len(species)]]
    coordinates = np.array(rows)
    return crystal_of(matrix, species, _fractional(coordinates * factor, matrix) if mode in ("c", "k") else coordinates)


def _scaled(matrix: Any, line: str) -> tuple[Any, Any]:
    """Returns the scaled lattice vectors and the factor of Cartesian coordinates. A negative number is a volume."""
    import numpy as np

    words = line.split()
    numbers = np.array(_numbers(words[:3], 3) if len(words) == 3 else _numbers(words[:1], 1))
    if len(numbers) == 1 and numbers[0] < 0:
        volume = abs(np.linalg.det(matrix))
        numbers = (-numbers / volume) ** (1 / 3) if volume > 0 else np.zeros(1)
    return matrix * numbers, numbers


def crystal_from_json(text: str) -> Crystal:
    """Returns the crystal of our own payload or of pymatgen's JSON of a Structure. Raises InvalidCandidateError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        raise InvalidCandidateError(
            Reason.TOO_DEEP if deep else Reason.UNPARSABLE, f"not JSON: {error}"[:300]
        ) from error
    if isinstance(data, dict) and isinstance(data.get("structure"), dict):
        data = data["structure"]
    if not isinstance(data, dict) or "lattice" not in data:
        raise unparsable("the JSON is no structure; it lacks `lattice`")
    if "species" in data:
        return crystal_of(data["lattice"], _texts(data["species"]), data.get("coordinates"))
    return _from_sites(data)


def _from_sites(data: Mapping[str, Any]) -> Crystal:
    """Returns the crystal of pymatgen's JSON. Only its cell, symbols, occupancies and coordinates are read."""
    try:
        matrix = data["lattice"]["matrix"]
        species, coordinates = [], []
        for site in data["sites"]:
            parts = site["species"]
            if len(parts) != 1 or abs(float(parts[0].get("occu", 1)) - 1) > 1e-6:
                raise unparsable("partly occupied sites; give an ordered structure")
            species.append(parts[0]["element"])
            coordinates.append(site["abc"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise unparsable(f"not pymatgen's JSON of a structure: {type(error).__name__}: {error}") from error
    return crystal_of(matrix, _texts(species), coordinates)


def _texts(species: object) -> Sequence[str]:
    if not isinstance(species, list) or not all(isinstance(symbol, str) for symbol in species):
        raise unparsable("the species are not a list of symbols")
    return species


def _count(text: str) -> int:
    text = text.strip()
    if not text.isascii() or not text.isdigit():
        raise unparsable(f'"{text[:20]}" is not a number of atoms')
    if len(text) > 6 or int(text) > MAX_SITES:
        raise InvalidCandidateError(Reason.TOO_LARGE, f"{text[:12]} sites; at most {MAX_SITES}")
    return int(text)


def _numbers(words: Sequence[str], n: int) -> list[float]:
    """Returns exactly n numbers. Raises InvalidCandidateError."""
    if len(words) < n:
        raise unparsable(f"{len(words)} numbers where {n} are needed")
    try:
        return [float(word.replace("D", "E").replace("d", "e")) for word in words[:n]]
    except ValueError as error:
        raise unparsable(str(error)) from error


def _fractional(cartesian: Any, matrix: Any) -> Any:
    import numpy as np

    try:
        return cartesian @ np.linalg.inv(matrix)
    except np.linalg.LinAlgError as error:
        raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, "the cell is flat") from error
