"""Text notations of crystals: reads all that people use, within bounds, and writes a crystal as one line without loss.

CIF text of strangers is trimmed and counted, block by block, before pymatgen interprets it.

pymatgen parses symmetry operations by regular expressions and evaluates no text. The bounds limit its time, which grows
with the number of atoms times the number of operations (a short text can state large numbers of both), and with the
square of the length of some runs of characters.

POSCAR, extended XYZ and JSON are read by code of our own, since the readers of libraries allocate what a count in the
text asks for, or import the classes that a JSON names. POSCAR: VASP 5 with a line of symbols. Extended XYZ: one frame
with `Lattice` and `Properties`.
"""

from __future__ import annotations

import itertools
import json
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sciagent.chemistry.crystal import ESTIMATED_VOLUME, MAX_SITES, NO_PYMATGEN, Crystal
from sciagent.chemistry.crystals.bonds import electronegativity
from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import (
    MAX_CHARACTERS,
    NO_NEGATIVITY,
    bounded_crystal,
    crystal_of,
)
from sciagent.chemistry.crystals.prototypes_and_same_structures import (
    REMEMBERED,
    Prototype,
    crystal_from_shorthand,
    decorated,
    family,
    is_shorthand,
    prototypes,
)
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UsageError

MAX_OPERATIONS = 192
"""Operations of the largest space groups, with the translations of a face-centred cell."""
MAX_IMAGES = 20_000
"""Largest number of atom rows times operations."""
MAX_QUOTES = 4000
"""Largest number of quotation marks in a block; 192 quoted operations have 384."""
MAX_LINE = 4096
"""Longest line, in characters; the standard has 2,048."""
EXACT_DECIMALS = 6
"""Number of decimals from which on coordinates are taken as they are."""
SNAP = 1e-4
"""A coordinate with fewer decimals is set to a special value, such as 1/3, if it is no further away than this."""
FORMULA_TOLERANCE = 0.01
"""Largest difference between the shares of an element among all atoms, by the stated formula and by the sites."""
_ELEMENT_AND_COUNT = re.compile(r"([A-Z][a-z]?)(\d+\.?\d*|\.\d+)?")
_OPERATION_TAGS = (
    "_symmetry_equiv_pos_as_xyz",
    "_space_group_symop_operation_xyz",
    "_symmetry_equiv_pos_as_xyz_",
    "_space_group_symop_operation_xyz_",
)
_START = re.compile(r"^[ \t]*data_|^[ \t]*_cell_length_a\b", re.MULTILINE | re.IGNORECASE)
_ATOMS = re.compile(r"^[ \t]*_atom_site_fract_x\b", re.MULTILINE | re.IGNORECASE)
_MAGNETIC = re.compile(r"^[ \t]*_(space_group_magn|cell_wave_vector|atom_site_moment)", re.MULTILINE | re.IGNORECASE)


def is_cif(text: str) -> bool:
    """Returns whether the text looks like CIF."""
    return _START.search(text) is not None


def cif_blocks(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yields (name, text) of each data block that lists atoms, without blank lines, comments and text fields.

    A text field, such as embedded reflections, becomes a question mark, which is CIF for an unknown value.
    """
    name = ""
    kept = list[str]()
    size = 0
    in_text_field = False  # a text field begins and ends with a line that starts with a semicolon
    for raw in lines:
        line = raw.rstrip()
        if line.startswith(";"):
            in_text_field = not in_text_field
            rest = line[1:].strip()
            if in_text_field:
                kept.append("?")
                size += 2
            elif rest:  # values may follow the end of a text field
                kept.append(rest)
            continue
        if in_text_field or not line.strip() or line.lstrip().startswith("#"):
            continue
        if line.lstrip().lower().startswith("data_"):
            block = "\n".join(kept)
            if _ATOMS.search(block):
                yield name, block
            name = line.strip()[len("data_") :]
            kept = []
            size = 0
        if size <= MAX_CHARACTERS:  # a longer block is refused by its length, so the rest of it is not needed
            kept.append(line)
            size += len(line) + 1
    last_block = "\n".join(kept)
    if _ATOMS.search(last_block):
        yield name, last_block


def crystal_from_cif(text: str) -> Crystal:
    """Returns the crystal of a CIF with one structure. Raises InvalidCandidateError."""
    blocks = [block for _, block in cif_blocks(text.splitlines())]
    if len(blocks) != 1:
        detail = f"the CIF lists the atoms of {len(blocks)} structures; give one"
        raise InvalidCandidateError(Reason.UNPARSABLE if blocks else Reason.EMPTY, detail)
    block = blocks[0]
    if _MAGNETIC.search(block):
        detail = "a magnetic or modulated CIF; give the nuclear structure"
        raise InvalidCandidateError(Reason.UNPARSABLE, detail)
    n_quotes = block.count("'") + block.count('"')
    longest_line = max(map(len, block.splitlines()))
    if n_quotes > MAX_QUOTES or longest_line > MAX_LINE:
        detail = f"the CIF has a line of over {MAX_LINE} characters, or over {MAX_QUOTES} quotation marks"
        raise InvalidCandidateError(Reason.TOO_LONG, detail)
    if not block.lstrip().lower().startswith("data_"):
        block = f"data_x\n{block}"
    return _parse_block(block)


def _parse_block(block: str) -> Crystal:
    """Returns the crystal of a data block, as pymatgen reads it. Raises InvalidCandidateError."""
    try:
        from pymatgen.io.cif import CifFile, CifParser
    except ImportError as error:
        raise UsageError(NO_PYMATGEN) from error

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            (content,) = CifFile.from_str(block).data.values()
            _check_counts(content.data)
            parser = CifParser.from_str(block, check_cif=False, frac_tolerance=_snap_distance(content.data))
            structure = parser.parse_structures(primitive=False, on_error="raise")[0]
            _require_formula(content.data, structure)
        except InvalidCandidateError:
            raise
        except Exception as error:  # pymatgen's parser raises many types without a common base
            detail = f"not a readable CIF: {type(error).__name__}: {error}"
            raise InvalidCandidateError(Reason.UNPARSABLE, " ".join(detail.split())[:300]) from error
        return bounded_crystal(structure)


def _require_formula(data: Mapping[str, object], structure: Any) -> None:
    """Raises InvalidCandidateError if the sites make another formula than the file states: hydrogen is often left out.

    A formula that is no list of elements with numbers is not compared, and neither are partly occupied sites.
    """
    text = data.get("_chemical_formula_sum")
    if not isinstance(text, str) or not structure.is_ordered:
        return
    stated: dict[str, float] = {}
    for word in text.split():
        element = _ELEMENT_AND_COUNT.fullmatch(word)
        if element is None:
            return
        symbol = "H" if element[1] in ("D", "T") else element[1]
        stated[symbol] = stated.get(symbol, 0.0) + float(element[2] or 1)
    found = structure.composition.get_el_amt_dict()
    n_stated = sum(stated.values())
    n_found = sum(found.values())
    if not n_stated:
        return
    for symbol in sorted({*stated, *found}):
        share = stated.get(symbol, 0.0) / n_stated
        share_found = found.get(symbol, 0.0) / n_found
        if abs(share - share_found) > FORMULA_TOLERANCE or (not share) != (not share_found):
            sites = structure.composition.reduced_formula
            detail = (
                f"the sites make {sites}, and _chemical_formula_sum is {text!r}: {symbol} differs; complete the sites"
            )
            raise InvalidCandidateError(Reason.FORMULA_MISMATCH, detail[:300])


def _check_counts(data: Mapping[str, object]) -> None:
    """Raises InvalidCandidateError for more atoms or symmetry operations than a crystal of MAX_SITES sites has."""
    rows = _n_rows(data.get("_atom_site_fract_x"))
    operations = max(_n_rows(data.get(tag)) for tag in _OPERATION_TAGS)
    if rows > MAX_SITES or operations > MAX_OPERATIONS or rows * operations > MAX_IMAGES:
        detail = f"{rows} atom rows and {operations} symmetry operations; at most {MAX_SITES} sites"
        raise InvalidCandidateError(Reason.TOO_LARGE, detail)


def _snap_distance(data: Mapping[str, object]) -> float:
    """Returns the distance from 1/3 or another special value up to which a coordinate is set to this value.

    The distance is 0 for coordinates of many decimals, which are taken as they are."""
    columns = [data.get(f"_atom_site_fract_{axis}") for axis in "xyz"]
    values = []
    for column in columns:
        for value in column if isinstance(column, list) else [column]:
            values.append(str(value))
    most_decimals = 0
    for value in values:
        number, _, _ = value.partition("(")  # without the uncertainty in parentheses
        _, _, decimals = number.partition(".")
        most_decimals = max(most_decimals, len(decimals))
    return 0.0 if most_decimals >= EXACT_DECIMALS else SNAP


def _n_rows(values: object) -> int:
    """Returns the number of rows of a column of a CIF, which is a text if it has one row."""
    return len(values) if isinstance(values, list) else 1


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
    n = _atom_count(lines[0])
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
    """Returns the columns of the symbol and of the first coordinate. Raises InvalidCandidateError.

    properties: `name:type:width` of each property, joined by colons.
    """
    parts = properties.split(":")
    place = 0
    first_columns = dict[str, int]()  # first column of each property
    names = parts[::3]
    widths = parts[2::3]
    for name, width in zip(names, widths, strict=False):
        first_columns[name.lower()] = place
        if width.isdecimal() and len(width) < 4:  # a longer number is no width, and slow to convert
            place += int(width)
    if "species" not in first_columns or "pos" not in first_columns:
        raise unparsable("Properties of the XYZ name no species or no pos")
    return first_columns["species"], first_columns["pos"]


def crystal_from_poscar(text: str) -> Crystal:
    """Returns the crystal of a POSCAR. Raises InvalidCandidateError."""
    import numpy as np

    # lines: comment, scale, three lattice vectors, symbols, counts, perhaps "Selective dynamics", kind of coordinates
    lines = text.strip("\n").splitlines()
    if len(lines) < 8:
        raise unparsable("neither CIF, POSCAR, extended XYZ, JSON nor a prototype such as `rocksalt: Na Cl`")
    matrix = np.array([_numbers(line.split(), 3) for line in lines[2:5]])
    matrix, factor = _scaled(matrix, lines[1])
    symbols = lines[5].split()
    counts = lines[6].split()
    if not symbols or symbols[0][0].isdigit():
        raise unparsable("the POSCAR has no line of symbols (VASP 5)")
    if len(symbols) != len(counts):
        raise unparsable(f"{len(symbols)} symbols and {len(counts)} counts in the POSCAR")
    species: list[str] = []
    for symbol, count in zip(symbols, counts, strict=True):
        known = _SYMBOL.match(symbol)  # `Na_pv` and `Na/0123abcd` name potentials
        species += [known[0] if known else symbol] * _atom_count(count)
        _check_atom_count(len(species))
    has_selective_dynamics = lines[7].strip()[:1].lower() == "s"
    mode_line = 8 if has_selective_dynamics else 7
    first_atom = mode_line + 1
    if len(lines) < first_atom + len(species):
        raise unparsable(f"{max(0, len(lines) - first_atom)} lines of coordinates; {len(species)} atoms")
    atom_lines = lines[first_atom : first_atom + len(species)]
    coordinates = np.array([_numbers(line.split()[:3], 3) for line in atom_lines])
    is_cartesian = lines[mode_line].strip()[:1].lower() in ("c", "k")
    if is_cartesian:
        coordinates = _fractional(coordinates * factor, matrix)
    return crystal_of(matrix, species, coordinates)


def _scaled(matrix: Any, line: str) -> tuple[Any, Any]:
    """Returns the scaled lattice vectors and the factors of Cartesian coordinates.

    line: one factor, three factors, or the volume with a minus sign.
    """
    import numpy as np

    words = line.split()
    n_factors = 3 if len(words) == 3 else 1
    factors = np.array(_numbers(words[:n_factors], n_factors))
    if n_factors == 1 and factors[0] < 0:
        volume = abs(np.linalg.det(matrix))
        factors = (-factors / volume) ** (1 / 3) if volume > 0 else np.zeros(1)
    return matrix * factors, factors


def crystal_from_json(text: str) -> Crystal:
    """Returns the crystal of our own payload or of pymatgen's JSON of a Structure. Raises InvalidCandidateError."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = Reason.TOO_DEEP if isinstance(error, RecursionError) else Reason.UNPARSABLE
        raise InvalidCandidateError(reason, f"not JSON: {error}"[:300]) from error
    if isinstance(data, dict) and isinstance(data.get("structure"), dict):
        data = data["structure"]
    if not isinstance(data, dict) or "lattice" not in data:
        raise unparsable("the JSON is no structure; it lacks `lattice`")
    if "species" in data:
        crystal = crystal_of(data["lattice"], _checked_symbols(data["species"]), data.get("coordinates"))
        return replace(crystal, has_estimated_volume=data.get("volume") == ESTIMATED_VOLUME)
    return _from_sites(data)


def _from_sites(data: Mapping[str, Any]) -> Crystal:
    """Returns the crystal of pymatgen's JSON. Only its cell, symbols, occupancies and coordinates are read."""
    try:
        matrix = data["lattice"]["matrix"]
        species = []
        coordinates = []
        for site in data["sites"]:
            occupants = site["species"]
            if len(occupants) != 1 or abs(float(occupants[0].get("occu", 1)) - 1) > 1e-6:
                raise unparsable("partly occupied sites; give an ordered structure")
            species.append(occupants[0]["element"])
            coordinates.append(site["abc"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise unparsable(f"not pymatgen's JSON of a structure: {type(error).__name__}: {error}") from error
    return crystal_of(matrix, _checked_symbols(species), coordinates)


def _checked_symbols(species: object) -> Sequence[str]:
    """Returns the species if they are a list of texts. Raises InvalidCandidateError."""
    if not isinstance(species, list) or not all(isinstance(symbol, str) for symbol in species):
        raise unparsable("the species are not a list of symbols")
    return species


def _atom_count(text: str) -> int:
    """Returns the number of atoms that a text states, at most MAX_SITES. Raises InvalidCandidateError."""
    text = text.strip()
    if not text.isascii() or not text.isdigit():
        raise unparsable(f'"{text[:20]}" is not a number of atoms')
    if len(text) > 6:  # before it is converted, since a number may have thousands of digits
        raise _too_many_sites(text[:12])
    _check_atom_count(int(text), text)
    return int(text)


def _check_atom_count(n: int, text: str = "") -> None:
    """Raises InvalidCandidateError for more than MAX_SITES atoms. text: the number as it was written."""
    if n > MAX_SITES:
        raise _too_many_sites(text or str(n))


def _too_many_sites(number: str) -> InvalidCandidateError:
    return InvalidCandidateError(Reason.TOO_LARGE, f"{number} sites; at most {MAX_SITES}")


def _numbers(words: Sequence[str], n: int) -> list[float]:
    """Returns the first n words as numbers. Raises InvalidCandidateError."""
    if len(words) < n:
        raise unparsable(f"{len(words)} numbers where {n} are needed")
    try:
        return [float(word.replace("D", "E").replace("d", "e")) for word in words[:n]]
    except ValueError as error:
        raise unparsable(str(error)) from error


def _fractional(cartesian: Any, matrix: Any) -> Any:
    """Returns the fractional coordinates of Cartesian ones. Raises InvalidCandidateError for a flat cell."""
    import numpy as np

    try:
        return cartesian @ np.linalg.inv(matrix)
    except np.linalg.LinAlgError as error:
        raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, "the cell is flat") from error


MAX_ASSIGNMENTS = 24
"""Largest number of assignments of elements to the places of a prototype that are tried."""


def read_crystal(text: str) -> Crystal:
    """Returns the crystal of a CIF, POSCAR, extended XYZ, JSON (ours or pymatgen's) or shorthand `rocksalt: Na Cl`.

    Raises InvalidCandidateError for any other text. Time and memory are bounded by the length of the text, the number
    of sites and the shape of the cell, which are checked before anything is computed.
    """
    if not isinstance(text, str):
        raise InvalidCandidateError(Reason.NOT_TEXT, f"a {type(text).__name__}, not a text")
    if len(text) > MAX_CHARACTERS:
        raise InvalidCandidateError(Reason.TOO_LONG, f"{len(text)} characters; at most {MAX_CHARACTERS}")
    if not text.strip():
        raise InvalidCandidateError(Reason.EMPTY, "no text")
    if any(ord(c) < 32 and c not in "\t\n\r\f\v" for c in text):
        raise InvalidCandidateError(Reason.NOT_TEXT, "the text holds control characters")
    text = text.lstrip("\ufeff")  # the byte order mark
    if text.lstrip()[:1] in ("{", "["):
        return crystal_from_json(text)
    if is_cif(text):
        return crystal_from_cif(text)
    if is_shorthand(text):
        return crystal_from_shorthand(text)
    if is_extended_xyz(text):
        return crystal_from_xyz(text)
    return crystal_from_poscar(text)


@lru_cache(maxsize=REMEMBERED)
def write_notation(crystal: Crystal) -> str:
    """Returns one line that `read_crystal` reads back to the same key: a shorthand if there is one with this key, else
    our JSON."""
    for prototype in prototypes().values():
        if prototype.family != family(crystal):
            continue
        text = _shorthand(prototype, crystal)
        if text:
            return text
    return payload_notation(crystal.payload())


def payload_notation(payload: Mapping[str, Any]) -> str:
    """Returns the payload of a crystal as one line of JSON."""
    return json.dumps(payload, separators=(",", ":"))


def _shorthand(prototype: Prototype, crystal: Crystal) -> str:
    """Returns the shorthand of a crystal in a prototype; empty if no assignment of its elements gives its key."""
    counts = Counter(crystal.species)
    cations_first = sorted(counts, key=lambda symbol: electronegativity(symbol) or NO_NEGATIVITY)
    for elements in itertools.islice(itertools.permutations(cations_first), MAX_ASSIGNMENTS):
        if not prototype.fits([counts[element] for element in elements]):
            continue
        if decorated(prototype.name, elements).key == crystal.key:
            return f"{prototype.name}: {' '.join(elements)}"
    return ""
