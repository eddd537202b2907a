"""Crystals: periodic structures with a fingerprint that does not depend on the choice of the cell.

The fingerprint is computed on the primitive cell that spglib standardises: reduced formula, space group, volume per
atom, and for each crystallographic orbit its element, site symmetry, multiplicity and neighbour distances up to RADIUS.
Relabelling, supercells, origin shifts, rotations or other lattice vectors do not change it.

Limits. Lengths are sorted into bins of BIN. An experimental and a relaxed cell are thus two candidates, just as they
are two inputs of a calculation. So may be two copies that differ by rounding, if a distance lies at the edge of a bin
(about 1 in 10,000 per distance for coordinates of six decimals). Structures with the same distances around every orbit
are the same candidate; so are mirror images, unless their space groups are an enantiomorphic pair. Magnetic order and
oxidation states are ignored; disorder is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from sciagent.domain.candidate_and_its_names_in_files import candidate_key
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UsageError

FINGERPRINT_VERSION = "1"
SYMPREC = 0.01  # angstrom
# tolerance of angles: -1 leaves it to spglib, which derives it from SYMPREC; with the 5 degrees of pymatgen, iron that
# is stretched to c/a = 1.06 would count as cubic
ANGLES = -1.0
RADIUS = 6.0  # angstrom
BIN = 0.02  # angstrom
# shift of the bins: an irrational one keeps decimal lengths, such as half of 5.63, away from the edges of bins
BIN_SHIFT = BIN * (math.sqrt(5) - 1) / 2
MIN_DISTANCE = 0.5  # angstrom; the bond of H2 has 0.74
MIN_VOLUME = 1.0  # angstrom**3 per atom
MAX_SITES = 500
ESTIMATED_VOLUME = "estimated"
"""Value of `volume` in the payload of a crystal whose volume was estimated."""
MAX_DETAIL = 300  # characters of an error
NO_PYMATGEN = "crystals need pymatgen; install it with: pip install 'sciagent[crystals]'"


@dataclass(frozen=True)
class Crystal:
    """A perfect crystal in its standardised primitive cell. Crystals are equal if their fingerprints are."""

    identity: str
    """Version, formula, number of the space group, and hash of the fingerprint."""
    formula: str = field(compare=False)
    """Reduced formula."""
    space_group: str = field(compare=False)
    """Short Hermann-Mauguin symbol."""
    lattice: tuple[tuple[float, ...], ...] = field(compare=False)
    """Lattice vectors as rows, in angstrom."""
    species: tuple[str, ...] = field(compare=False)
    """Symbol of the element of each site."""
    coordinates: tuple[tuple[float, ...], ...] = field(compare=False)
    """Fractional coordinates of the sites."""
    charge: int = 0
    multiplicity: int = 1
    has_estimated_volume: bool = field(default=False, compare=False)
    """Whether the volume follows from atomic radii; False for a cell that was given."""
    isotopes: tuple[str, ...] = field(default=(), compare=False)
    """Isotopes that the text named, `D` or `T`; the sites hold hydrogen. A restored crystal has none."""

    @property
    def kind(self) -> str:
        return "crystal"

    @cached_property
    def key(self) -> str:
        return candidate_key("crystal", self.identity, self.charge, self.multiplicity)

    @property
    def text(self) -> str:
        return f"{self.formula} {self.space_group}"

    @property
    def n_atoms(self) -> int:
        """Number of atoms in the primitive cell."""
        return len(self.species)

    @property
    def inchikey(self) -> None:
        return None

    @cached_property
    def structure(self) -> Any:
        """The pymatgen Structure. It is shared: copy it before changing it."""
        return _structure(self.payload())

    def payload(self) -> Mapping[str, Any]:
        payload: dict[str, Any] = {
            "lattice": [list(row) for row in self.lattice],
            "species": list(self.species),
            "coordinates": [list(row) for row in self.coordinates],
        }
        if self.has_estimated_volume:
            payload["volume"] = ESTIMATED_VOLUME
        return payload

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> Crystal:
        crystal = crystal_from_structure(_structure(payload))
        return replace(crystal, has_estimated_volume=payload.get("volume") == ESTIMATED_VOLUME)

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> Crystal:
        """Returns the crystal with these fields, as read from JSON; its identity is not computed again. Other fields
        are ignored. Raises InvalidCandidateError for a missing field or one of a wrong type."""
        try:
            return cls(
                identity=str(fields["identity"]),
                formula=str(fields["formula"]),
                space_group=str(fields["space_group"]),
                lattice=tuple(tuple(map(float, row)) for row in fields["lattice"]),
                species=tuple(map(str, fields["species"])),
                coordinates=tuple(tuple(map(float, row)) for row in fields["coordinates"]),
                charge=int(fields["charge"]),
                multiplicity=int(fields["multiplicity"]),
                has_estimated_volume=fields.get("volume") == ESTIMATED_VOLUME
                or fields.get("has_estimated_volume") is True,
            )
        except (KeyError, ValueError, TypeError) as error:
            detail = f"not a crystal's record: {type(error).__name__}: {error}"
            raise InvalidCandidateError(Reason.UNPARSABLE, detail[:MAX_DETAIL]) from error


def space_group_of(structure: Any, symprec: float = 0.05) -> str:
    """Returns the symbol of a pymatgen Structure's space group; empty if spglib finds none. symprec: angstrom."""
    from pymatgen.symmetry.analyzer import SpacegroupAnalyzer

    try:
        return str(SpacegroupAnalyzer(structure, symprec=symprec).get_space_group_symbol())
    except Exception:  # noqa: BLE001  spglib and pymatgen raise several types without a common base
        return ""


def crystal_from_structure(structure: Any) -> Crystal:
    """Returns the crystal of a pymatgen Structure, without oxidation states and site properties.

    Raises InvalidCandidateError for disorder, overlapping sites, non-finite numbers and more than MAX_SITES sites.
    """
    from pymatgen.symmetry.analyzer import SpacegroupAnalyzer

    plain = _checked(structure)
    try:
        primitive = SpacegroupAnalyzer(plain, SYMPREC, ANGLES).get_primitive_standard_structure()
        data = SpacegroupAnalyzer(primitive, SYMPREC, ANGLES).get_symmetry_dataset()
    except Exception as error:  # spglib and pymatgen raise several types without a common base
        raise InvalidCandidateError(Reason.NO_IDENTITY, f"spglib finds no space group: {error}"[:MAX_DETAIL]) from error
    formula = primitive.composition.reduced_formula
    digest = hashlib.sha256(json.dumps(_fingerprint(primitive, data)).encode()).hexdigest()[:32]
    return Crystal(
        identity=f"crystal/{FINGERPRINT_VERSION}/{formula}/{data.number}/{digest}",
        formula=formula,
        space_group=str(data.international),
        lattice=tuple(tuple(round(float(x), 10) for x in row) for row in primitive.lattice.matrix),
        species=tuple(site.specie.symbol for site in primitive),
        coordinates=tuple(tuple(round(float(x) % 1.0, 10) for x in site.frac_coords) for site in primitive),
        isotopes=_isotopes(structure),
    )


def _isotopes(structure: Any) -> tuple[str, ...]:
    """Returns the isotopes of hydrogen that the sites of a pymatgen Structure name."""
    names = {getattr(site.specie, "element", site.specie).name for site in structure}
    return tuple(name for name in ("D", "T") if name in names)


def _checked(structure: Any) -> Any:
    """Returns a copy with only elements on its sites. Raises InvalidCandidateError."""
    import numpy as np
    from pymatgen.core import Element, Structure

    if not 0 < len(structure) <= MAX_SITES:
        reason = Reason.TOO_LARGE if len(structure) else Reason.EMPTY
        raise InvalidCandidateError(reason, f"{len(structure)} sites; between 1 and {MAX_SITES}")
    if not (np.isfinite(structure.lattice.matrix).all() and np.isfinite(structure.frac_coords).all()):
        raise InvalidCandidateError(Reason.NOT_FINITE, "the cell or a coordinate is not a finite number")
    if any(site.species.num_atoms > 1 + 1e-6 for site in structure):  # the sum of occupancies, which may be rounded
        raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, "more than one atom shares a site")
    if not structure.is_ordered:
        raise InvalidCandidateError(Reason.UNPARSABLE, "partly occupied sites; give an ordered structure")
    if not all(Element.is_valid_symbol(site.specie.symbol) for site in structure):
        raise InvalidCandidateError(Reason.UNKNOWN_ELEMENT, "a site holds no element")
    bare = Structure(structure.lattice, [site.specie.symbol for site in structure], structure.frac_coords)
    volume_per_atom = bare.volume / len(bare)
    if volume_per_atom < MIN_VOLUME:
        raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, f"{volume_per_atom:.3g} angstrom**3 per atom")
    first, second, _, distances = bare.get_neighbor_list(MIN_DISTANCE, exclude_self=True)
    if len(distances):
        detail = f"sites {first[0] + 1} and {second[0] + 1} are {distances[0]:.3f} angstrom apart"
        raise InvalidCandidateError(Reason.OVERLAPPING_ATOMS, f"{detail}; at least {MIN_DISTANCE}")
    return bare


def _fingerprint(primitive: Any, data: Any) -> list[Any]:
    """Returns the bin of the volume and a sorted list of the orbits, each with element, site symmetry, number of sites,
    and counts of neighbours by element and bin of distance.

    Wyckoff letters and the directions of site symmetries are left out, since they depend on origin and axes.
    Sites are counted in the primitive cell.
    """
    # neighbours are looked for a bin beyond RADIUS, so that the last bins that count are complete
    centres, neighbours, _, distances = primitive.get_neighbor_list(RADIUS + BIN, exclude_self=True)
    symbols = [site.specie.symbol for site in primitive]
    shells: list[Counter[tuple[str, int]]] = [Counter() for _ in symbols]
    end_bin = _bin(RADIUS)
    for centre, neighbour, distance in zip(centres, neighbours, distances, strict=True):
        distance_bin = _bin(distance)
        if distance_bin < end_bin:
            shells[centre][symbols[neighbour], distance_bin] += 1
    orbit_sizes = Counter(map(int, data.equivalent_atoms))
    entries = []
    for site, size in orbit_sizes.items():
        site_symmetry = "".join(sorted(data.site_symmetry_symbols[site]))
        neighbour_counts = sorted([symbol, place, n] for (symbol, place), n in shells[site].items())
        entries.append([symbols[site], site_symmetry, size, neighbour_counts])
    volume_bin = _bin((primitive.volume / len(symbols)) ** (1 / 3))  # a volume is binned as a length
    return [volume_bin, sorted(entries)]


def _bin(length: float) -> int:
    """Returns the number of the bin of a length in angstrom."""
    return math.floor((length + BIN_SHIFT) / BIN)


def needs_pymatgen() -> None:
    """Raises UsageError if pymatgen is not installed."""
    try:
        import pymatgen.core  # noqa: F401
    except ImportError as error:
        raise UsageError(NO_PYMATGEN) from error


def _structure(payload: Mapping[str, Any]) -> Any:
    """Returns the pymatgen Structure of a payload. Raises InvalidCandidateError."""
    needs_pymatgen()
    from pymatgen.core import Lattice, Structure

    try:
        return Structure(Lattice(payload["lattice"]), list(payload["species"]), payload["coordinates"])
    except (KeyError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
        detail = f"not a crystal's payload: {type(error).__name__}: {error}"
        raise InvalidCandidateError(Reason.UNPARSABLE, detail[:MAX_DETAIL]) from error
