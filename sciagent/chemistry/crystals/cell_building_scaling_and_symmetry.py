"""Cells of crystals: built within bounds from sites or space groups, labelled by symmetry, and scaled to their bonds.

Space groups, orbits with Wyckoff letters and prototype labels come from spglib. Sources: Togo, Shinohara, Tanaka, Sci.
Technol. Adv. Mater. Meth. 4, 2384822 (2024), spglib; Mehl et al., Comput. Mater. Sci. 136, S1 (2017), labels; Goodall
et al., Sci. Adv. 8, eabn4117 (2022), the letters that other origins and axes give.

A structure is scaled to the volume at which its bonds are as long as the sums of two atomic radii. The volume follows
from elements, shape of the cell and coordinates alone. Two routes to one structure thus end at one volume and one key.
A bond belongs to its more electropositive atom. The mean bond of an atom is weighted as in the effective coordination
number, and the atom with the tightest bonds sets the volume. For 31 common compounds the lattice constants lie 4 % from
the measured ones on average (tests/chemistry/crystals/test_cell_building_scaling_and_symmetry_scaling.py); relax them
before anything depends on them.

Source: Hoppe, Z. Kristallogr. 150, 23 (1979), weights. The radii are those of `contacts`.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sciagent.chemistry.crystal import MAX_SITES, NO_PYMATGEN, Crystal, crystal_from_structure
from sciagent.chemistry.crystals.bonds import contacts, electronegativity
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UsageError

SAME_POSITION = 1e-3
"""Largest difference of fractional coordinates of one position."""
_SYSTEMS = ((2, "a"), (15, "m"), (74, "o"), (142, "t"), (194, "h"), (230, "c"))
"""The last space group of each crystal system, and the letter of the system."""
_RELABELLINGS_FILE = "prototypes/wyckoff-position-relabelings.json.gz"


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
        labelled = [self._elements_with_letters(table) for table in _relabellings(self.number)]
        elements = min(labelled, key=_label_order)
        formula = ""
        for place, (n, _) in enumerate(elements):
            formula += chr(ord("A") + place)
            if n > 1:
                formula += str(n)
        words = "_".join(letters for _, letters in elements)
        return f"{formula}_{self._pearson}_{self.number}_{words}"

    def _elements_with_letters(self, table: dict[int, str]) -> list[tuple[int, str]]:
        """Returns the number in the formula and the Wyckoff letters of each element, sorted. table: one of
        `_relabellings`."""
        counts = Counter[str]()
        for orbit in self.orbits:
            counts[orbit.element] += orbit.multiplicity
        divisor = math.gcd(*counts.values())
        elements = []
        for element, count in counts.items():
            letters = [orbit.letter.translate(table) for orbit in self.orbits if orbit.element == element]
            elements.append((count // divisor, _letters(letters)))
        return sorted(elements)

    @property
    def _pearson(self) -> str:
        """The Pearson symbol: crystal system, centring, and number of sites in the cell."""
        system = next(letter for last_group, letter in _SYSTEMS if self.number <= last_group)
        centring = self.symbol[0]
        if centring == "A":  # Pearson symbols name the side-face-centred cells of other axes C, too
            centring = "C"
        n_sites = self.n_conventional
        if centring == "R":
            n_sites //= 3  # counted in the rhombohedral cell
        return f"{system}{centring}{n_sites}"


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
    ratio = len(data.std_types) / len(structure)  # sites of the conventional cell for each site of the structure
    groups: dict[int, list[int]] = {}
    for site, orbit in enumerate(data.crystallographic_orbits):
        groups.setdefault(int(orbit), []).append(site)
    orbits = []
    for number, sites in enumerate(groups.values(), start=1):
        first = sites[0]
        element = structure[first].specie.symbol
        orbits.append(
            Orbit(
                number, element, letter=data.wyckoffs[first], multiplicity=round(len(sites) * ratio), sites=tuple(sites)
            )
        )
    return CrystalSymmetry(
        number=int(data.number),
        symbol=str(data.international),
        orbits=tuple(orbits),
        n_conventional=len(data.std_types),
    )


def expanded(hall: int, position: Sequence[float]) -> list[list[float]]:
    """Returns all positions of the orbit of one position, in [0, 1). hall: number of the setting in spglib's table."""
    import numpy as np

    rotations, translations = _operations(hall)
    images = (rotations @ np.asarray(position) + translations) % 1.0
    positions: list[Any] = []
    for image in images:
        if positions:
            differences = np.array(positions) - image
            nearest_differences = np.abs((differences + 0.5) % 1.0 - 0.5)  # modulo lattice translations
            if nearest_differences.max(axis=1).min() <= SAME_POSITION:
                continue
        positions.append(image)
    return [[float(x) for x in image] for image in positions]


@cache
def _operations(hall: int) -> tuple[Any, Any]:
    """Returns the rotations (n, 3, 3) and translations (n, 3) of a setting."""
    import spglib

    operations: Any = spglib.get_symmetry_from_database(hall)
    return operations["rotations"], operations["translations"]


@cache
def _relabellings(number: int) -> tuple[dict[int, str], ...]:
    """Returns the tables for `str.translate` of Wyckoff letters under other origins and axes, from pymatgen's data."""
    tables = []
    for table in _tables()[str(number)]:
        tables.append({int(code_point): letter for code_point, letter in table.items()})
    return tuple(tables)


@cache
def _tables() -> dict[str, list[dict[str, str]]]:
    """Returns the tables of `_relabellings` for all space groups, as in pymatgen's file."""
    with gzip.open(analysis_folder() / _RELABELLINGS_FILE) as file:
        tables: dict[str, list[dict[str, str]]] = json.load(file)
    return tables


def analysis_folder() -> Path:
    """Returns the folder of pymatgen's analysis data, without importing that package, which takes seconds."""
    spec = importlib.util.find_spec("pymatgen.analysis")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("pymatgen.analysis")
    folders = list(spec.submodule_search_locations)
    return Path(folders[0])


def _letters(letters: Iterable[str]) -> str:
    """Returns sorted letters with their counts: `a`, `2c`."""
    counts = sorted(Counter(letters).items())
    return "".join(letter if n == 1 else f"{n}{letter}" for letter, n in counts)


def _label_order(elements: Sequence[tuple[int, str]]) -> tuple[int, list[str]]:
    """Returns the key by which the label is chosen among equivalent ones: small letters first, as AFLOW does. elements:
    number and Wyckoff letters of each element."""
    letters = [text for _, text in elements]
    return sum(_alphabet_sum(text) for text in letters), letters


def _alphabet_sum(text: str) -> int:
    """Returns the sum of the places of the letters in the alphabet. `A`, the 27th Wyckoff letter, follows `z`."""
    total = 0
    for character in text:
        if character == "A":
            total += 27
        elif character.isalpha():
            total += ord(character) - ord("a") + 1
    return total


MAX_CHARACTERS = 1_000_000
"""Longest text of one structure. A CIF of 500 atoms has 50,000; published ones with reflections have more."""
MAX_LENGTH = 1000.0
"""Longest lattice vector, in angstrom."""
MIN_DETERMINANT = 1e-3
"""Volume of a cell, in angstrom**3, below which it is flat."""
MIN_HEIGHT = 0.5
"""Smallest distance between opposite faces of the reduced cell, in angstrom; flatter cells have too many images."""


def crystal_of(lattice: Any, species: Sequence[str], coordinates: Any) -> Crystal:
    """Returns the crystal with these lattice vectors (rows, in angstrom), symbols and fractional coordinates.

    Raises InvalidCandidateError for anything that is no crystal of at most MAX_SITES sites.
    """
    try:
        from pymatgen.core import Element, Lattice, Structure
    except ImportError as error:
        raise UsageError(NO_PYMATGEN) from error

    if not 0 < len(species) <= MAX_SITES:
        reason = Reason.TOO_LARGE if species else Reason.EMPTY
        raise InvalidCandidateError(reason, f"{len(species)} sites; between 1 and {MAX_SITES}")
    unknown = next((symbol for symbol in species if not Element.is_valid_symbol(symbol)), None)
    if unknown is not None:
        raise InvalidCandidateError(Reason.UNKNOWN_ELEMENT, f'"{str(unknown)[:20]}" is not an element')
    try:
        structure = Structure(Lattice(lattice), list(species), coordinates)
    except (ValueError, TypeError, AttributeError, ArithmeticError) as error:
        raise InvalidCandidateError(Reason.UNPARSABLE, f"no cell with sites: {error}"[:300]) from error
    return bounded_crystal(structure)


def bounded_crystal(structure: Any) -> Crystal:
    """Returns the crystal of a pymatgen Structure whose cell is checked first. Raises InvalidCandidateError."""
    import numpy as np

    matrix = structure.lattice.matrix
    if not np.isfinite(matrix).all():
        raise InvalidCandidateError(Reason.NOT_FINITE, "the cell is not made of finite numbers")
    longest = float(np.linalg.norm(matrix, axis=1).max())
    if longest > MAX_LENGTH:
        raise InvalidCandidateError(
            Reason.TOO_LARGE, f"a lattice vector of {longest:.4g} angstrom; {MAX_LENGTH:g} at most"
        )
    if _height(matrix) < 2 * MIN_HEIGHT:  # other lattice vectors of the same crystal may make a higher cell
        structure = _reduced(structure)
    return crystal_from_structure(structure)


def _reduced(structure: Any) -> Any:
    """Returns the structure in its most compact cell. Raises InvalidCandidateError if the cell is flat even then."""
    import numpy as np

    if abs(np.linalg.det(structure.lattice.matrix)) > MIN_DETERMINANT:
        compact = structure.get_reduced_structure(reduction_algo="LLL")
        if _height(compact.lattice.matrix) >= MIN_HEIGHT:
            return compact
    raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, f"the cell is flatter than {MIN_HEIGHT} angstrom")


def _height(matrix: Any) -> float:
    """Returns the smallest distance between opposite faces of a cell, in angstrom; 0 for a flat one."""
    import numpy as np

    volume = abs(np.linalg.det(matrix))
    # area of the face between the two other vectors, for each vector
    faces = [np.linalg.norm(np.cross(matrix[i - 2], matrix[i - 1])) for i in range(3)]
    return float(volume / max(faces)) if max(faces) > 0 else 0.0


FULL_SHELL = 1.5
"""Multiple of the shortest bond from which on Hoppe's weight is below 0.0001."""
MEAN_LENGTH_ERROR = "4 %"
"""Mean error of the lattice constants of estimated cells."""
NO_NEGATIVITY = 5.0
"""Stands for the electronegativity of an element without one, such as neon."""


def tightness(structure: Any) -> float:
    """Returns how long the tightest bonds are, relative to the sum of both radii: the smallest mean over the bonds of
    one atom."""
    import numpy as np

    bonds = contacts(structure, FULL_SHELL)
    negativity = np.array([electronegativity(site.specie.symbol) or NO_NEGATIVITY for site in structure])
    belongs_to_first = negativity[bonds.first] <= negativity[bonds.second]
    sites = bonds.first[belongs_to_first]
    ratios = bonds.ratios[belongs_to_first]
    return min(_mean_bond(ratios[sites == site]) for site in set(sites.tolist()))


def _mean_bond(ratios: Any) -> float:
    """Returns the mean of the ratios of one atom, with Hoppe's weights."""
    import numpy as np

    weights = np.exp(1 - (ratios / ratios.min()) ** 6)
    return float((ratios * weights).sum() / weights.sum())


def rescaled(structure: Any) -> Any:
    """Returns a copy whose bonds are as long as the sums of their radii."""
    scaled = structure.copy()
    scaled.scale_lattice(structure.volume / tightness(structure) ** 3)  # takes the new volume
    return scaled
