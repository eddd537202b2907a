"""Conventional cells of crystals, with their lattice constants and Wyckoff positions, and CIF files of them.

The setting is that of the International Tables that spglib takes as the standard one: hexagonal axes for rhombohedral
groups, b as the unique axis of monoclinic ones, and the first origin where there are two. A CIF names the setting by
its Hall symbol and lists all operations, so that a program without tables reads it, too.

Symmetry is sought within SYMPREC, as for the identity of a crystal. Atoms and cell are made exactly symmetric, so that
each moves by less than that. A distortion that is larger is kept, and lowers the space group.

Sources: Hall, McMahon (eds.), International Tables for Crystallography G (2006), the names of the data; Togo,
Shinohara, Tanaka, Sci. Technol. Adv. Mater. Meth. 4, 2384822 (2024), spglib.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sciagent.chemistry.crystal import ANGLES, MAX_SITES, SYMPREC

P1 = "P 1"
IDENTITY = "x, y, z"
DECIMALS = 8
"""Decimals of lengths, angles and coordinates in a CIF; fewer would move atoms off special positions such as 1/3."""
MAX_TEXT = 500
"""Longest text of a value in a CIF, in characters; lines of a CIF have at most 2,048."""
NEEDS_QUOTES = frozenset(" \t#'\"_$[];")
"""Characters with which a text stands between quotes. Some of them matter at its beginning only."""


@dataclass(frozen=True)
class LatticeConstants:
    """Lengths (angstrom) and angles (degrees) of a cell."""

    a: float
    b: float
    c: float
    alpha: float
    """Angle between b and c."""
    beta: float
    """Angle between a and c."""
    gamma: float
    """Angle between a and b."""


@dataclass(frozen=True)
class WyckoffOrbit:
    """Sites of a conventional cell that symmetry makes alike."""

    element: str
    """Symbol of the element."""
    letter: str
    """Wyckoff letter."""
    multiplicity: int
    """Number of sites in the conventional cell."""
    position: tuple[float, float, float]
    """Fractional coordinates of one of the sites."""


@dataclass(frozen=True)
class ConventionalCell:
    """The conventional cell of a crystal in the standard setting of its space group."""

    number: int
    """Number of the space group."""
    symbol: str
    """Hermann-Mauguin symbol with spaces, such as `F m -3 m`."""
    hall_symbol: str
    """The Hall symbol, which names the setting, too."""
    constants: LatticeConstants
    structure: Any
    """The pymatgen Structure with all sites of the cell."""
    orbits: tuple[WyckoffOrbit, ...]
    """All orbits, by their first site."""
    operations: tuple[str, ...]
    """All symmetry operations, those of the centring included, such as `-x, y+1/2, z`; the identity is the first."""

    @property
    def free_angles(self) -> frozenset[str]:
        """Names of the angles that the crystal system leaves free."""
        if self.number <= 2:  # triclinic
            return frozenset(("alpha", "beta", "gamma"))
        return frozenset(("beta",)) if self.number <= 15 else frozenset()  # monoclinic


def conventional_cell(structure: Any, symprec: float = SYMPREC) -> ConventionalCell:
    """Returns the conventional cell of a pymatgen Structure.

    symprec: in angstrom. Where spglib finds no space group, and where the cell would have more than MAX_SITES sites, it
    is the given cell in P1.
    """
    import numpy as np
    import spglib
    from pymatgen.core import Element, Lattice, Structure

    cell = (structure.lattice.matrix, structure.frac_coords, [site.specie.Z for site in structure])
    try:
        data = spglib.get_symmetry_dataset(cell, symprec=symprec, angle_tolerance=ANGLES)
    except spglib.SpglibError:
        data = None
    if data is None or len(data.std_types) > MAX_SITES:
        return _without_symmetry(structure)
    symbols = [Element.from_Z(int(number)).symbol for number in data.std_types]
    positions = np.asarray(data.std_positions) % 1.0
    conventional = Structure(Lattice(data.std_lattice), symbols, positions)
    kind = spglib.get_spacegroup_type(data.hall_number)
    assert kind is not None, "the number is spglib's own"
    # a site of the conventional cell, and one of the given cell, belong to the same site of the primitive cell
    given_sites = {int(primitive): site for site, primitive in enumerate(data.mapping_to_primitive)}
    sources = [given_sites[int(primitive)] for primitive in data.std_mapping_to_primitive]
    first_sites: dict[int, int] = {}
    multiplicities = Counter[int]()
    for site, source in enumerate(sources):
        orbit = int(data.crystallographic_orbits[source])
        first_sites.setdefault(orbit, site)
        multiplicities[orbit] += 1
    orbits = []
    for orbit, site in first_sites.items():
        x, y, z = (float(value) for value in positions[site])
        letter = str(data.wyckoffs[sources[site]])
        orbits.append(WyckoffOrbit(symbols[site], letter, multiplicities[orbit], (x, y, z)))
    return ConventionalCell(
        number=int(data.number),
        symbol=str(kind.international),
        hall_symbol=str(kind.hall_symbol),
        constants=_constants(conventional.lattice),
        structure=conventional,
        orbits=tuple(orbits),
        operations=_operations(int(data.hall_number)),
    )


def _without_symmetry(structure: Any) -> ConventionalCell:
    """Returns the cell as it is, in P1."""
    orbits = []
    for site in structure:
        x, y, z = (float(value) % 1.0 for value in site.frac_coords)
        orbits.append(WyckoffOrbit(site.specie.symbol, "a", 1, (x, y, z)))
    return ConventionalCell(1, P1, P1, _constants(structure.lattice), structure, tuple(orbits), (IDENTITY,))


def _constants(lattice: Any) -> LatticeConstants:
    return LatticeConstants(*(float(value) for value in lattice.parameters))


@cache
def _operations(hall: int) -> tuple[str, ...]:
    """Returns the operations of a setting as texts. hall: its number in spglib's table."""
    import spglib
    from pymatgen.core.operations import SymmOp

    operations: Any = spglib.get_symmetry_from_database(hall)
    texts = []
    for rotation, translation in zip(operations["rotations"], operations["translations"], strict=True):
        texts.append(SymmOp.from_rotation_and_translation(rotation, translation).as_xyz_str())
    return tuple(sorted(texts, key=lambda text: text != IDENTITY))


@dataclass(frozen=True)
class CifTable:
    """Data of a CIF with several rows: a loop."""

    names: tuple[str, ...]
    """Names of the data, each with its underscore."""
    rows: Sequence[Sequence[str]]
    """A text for each name."""

    @property
    def lines(self) -> list[str]:
        """The loop as lines of a CIF; none without rows."""
        if not self.rows:
            return []
        rows = ["  ".join(cif_text(value) for value in row) for row in self.rows]
        return ["loop_", *self.names, *rows]


def cif_of(
    structure: Any, name: str = "", items: Mapping[str, str] | None = None, tables: Sequence[CifTable] = ()
) -> str:
    """Returns a CIF of the conventional cell of a pymatgen Structure; further arguments as in `cif_of_cell`."""
    return cif_of_cell(conventional_cell(structure), name, items, tables)


def cif_of_cell(
    cell: ConventionalCell, name: str = "", items: Mapping[str, str] | None = None, tables: Sequence[CifTable] = ()
) -> str:
    """Returns a CIF with one data block: the cell, its space group, operations and Wyckoff positions.

    name: of the block, letters and digits; the formula if there is none. items, tables: further data.
    """
    composition = cell.structure.composition
    formula, n_units = composition.get_integer_formula_and_factor()
    constants = cell.constants
    data = {
        "_chemical_formula_structural": formula,
        "_chemical_formula_sum": composition.reduced_composition.alphabetical_formula,
        "_cell_formula_units_Z": f"{n_units:.0f}",
        "_cell_length_a": _number(constants.a),
        "_cell_length_b": _number(constants.b),
        "_cell_length_c": _number(constants.c),
        "_cell_angle_alpha": _number(constants.alpha),
        "_cell_angle_beta": _number(constants.beta),
        "_cell_angle_gamma": _number(constants.gamma),
        "_cell_volume": _number(float(cell.structure.volume)),
        "_space_group_IT_number": str(cell.number),
        "_space_group_name_H-M_alt": cell.symbol,
        "_space_group_name_Hall": cell.hall_symbol,
        **(items or {}),
    }
    lines = [f"data_{name or formula}"]
    lines += [f"{key}  {cif_text(value)}" for key, value in data.items()]
    operations = CifTable(("_space_group_symop_operation_xyz",), [(text,) for text in cell.operations])
    for table in (operations, _sites(cell), *tables):
        lines += table.lines
    return "\n".join(lines) + "\n"


def _sites(cell: ConventionalCell) -> CifTable:
    """Returns the loop of the sites, one for each orbit."""
    names = (
        "_atom_site_label",
        "_atom_site_type_symbol",
        "_atom_site_symmetry_multiplicity",
        "_atom_site_Wyckoff_symbol",
        "_atom_site_fract_x",
        "_atom_site_fract_y",
        "_atom_site_fract_z",
        "_atom_site_occupancy",
    )
    counts = Counter[str]()
    rows = []
    for orbit in cell.orbits:
        counts[orbit.element] += 1
        label = f"{orbit.element}{counts[orbit.element]}"
        position = [_number(value) for value in orbit.position]
        rows.append([label, orbit.element, str(orbit.multiplicity), orbit.letter, *position, "1"])
    return CifTable(names, rows)


def _number(value: float) -> str:
    """Returns the number with DECIMALS decimals, without a minus sign before 0."""
    return f"{value:.{DECIMALS}f}" if abs(value) >= 0.5 * 10**-DECIMALS else f"{0:.{DECIMALS}f}"


def cif_text(value: str) -> str:
    """Returns a value as it stands in a CIF: between quotes if it needs them, in one line and without the quotation
    marks that would end it; a question mark, which stands for an unknown value, for an empty text."""
    text = " ".join(value.split())[:MAX_TEXT]
    if not text:
        return "?"
    is_plain = not NEEDS_QUOTES.intersection(text) and text.isascii() and not text.lower().startswith(_RESERVED)
    if is_plain:
        return text
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return f'"{text}"' if '"' not in text else "'" + text.replace("'", "`") + "'"


_RESERVED = ("data_", "loop_", "global_", "save_", "stop_")
