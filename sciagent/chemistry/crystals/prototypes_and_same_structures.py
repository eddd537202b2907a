"""Prototypes of crystals: the shorthand `perovskite: Cs Sn I`, and families of one structure.

A shorthand is a prototype and the elements on its places, in the order of its formula. Common prototypes are in
`prototypes.csv`: the setting of the space group by its number in spglib, the cell relative to a, and one position for
each orbit, with a letter for its element. Other prototypes are named by their AFLOW label, such as `AB3_oC8_65_a_bf: Cd
Pt`; their elements are in the order of the letters. Cells have the volume of
`cell_building_scaling_and_symmetry.rescaled`.

Sources: Mehl et al., Comput. Mater. Sci. 136, S1 (2017), the AFLOW library, as pymatgen ships it. Not from there:
Shannon, Rogers, Prewitt, Inorg. Chem. 10, 713 (1971), delafossite; Hill, Craig, Gibbs, Phys. Chem. Miner. 4, 317
(1979), spinel; Smyth, Hazen, Am. Mineral. 58, 588 (1973), olivine; Streltsov et al., Acta Cryst. B 49, 147 (1993),
triphylite; Hazen, Finger, Mariathasan, J. Phys. Chem. Solids 46, 253 (1985), scheelite; Novak, Gibbs, Am. Mineral. 56,
791 (1971), garnet; Nelmes, Kuhs, Solid State Commun. 54, 721 (1985), tetragonal perovskite; textbook values for others.

A family is all crystals of one prototype. Near-duplicates are found by matching structures, since small noise may
change the key of a crystal: a distance at the edge of a bin falls into another one. `same` tells whether two crystals
are one structure at nearly one volume, such as a structure and its copy with fewer digits. `relaxed_distance` tells the
same of two relaxed cells, which differ more, since a relaxation ends before all forces are zero.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from sciagent.chemistry.crystal import NO_PYMATGEN, Crystal, crystal_from_structure
from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import (
    CrystalSymmetry,
    analysis_folder,
    expanded,
    rescaled,
    symmetry_of,
)
from sciagent.domain.outcomes_verdicts_and_reasons import Reason
from sciagent.errors import InvalidCandidateError, UsageError, did_you_mean

MAX_SHORTHAND = 200
"""Longest shorthand, in characters."""
_LABEL = re.compile(r"((?:[A-Z]\d*)+)_[a-z][A-Z]\d+_\d{1,3}(?:_\w+)+")
_LETTERS = re.compile(r"[A-Z](?=\d|[A-Z]|_|$)")
_FORMULA = re.compile(r"[A-Z](\d*)")
_AFLOW = "prototypes/aflow_prototypes.json.gz"


@dataclass(frozen=True)
class Prototype:
    """A structure type whose places take any elements."""

    name: str
    """Name in the shorthand."""
    aliases: tuple[str, ...]
    """Other names that are understood."""
    label: str
    """The AFLOW label; its letters name the elements."""
    family: str
    """The label that `family` gives its members."""
    order: str
    """Letters of the elements in the order in which they are typed."""
    example: str
    """Elements of a known member, as typed."""
    hall: int
    """Number of the space group's setting in spglib's table."""
    lengths: tuple[float, float]
    """b/a and c/a."""
    angles: tuple[float, float, float]
    """Angles of the cell, in degrees."""
    sites: tuple[tuple[str, tuple[float, ...]], ...]
    """Letter and fractional position of each orbit."""

    def fits(self, counts: Sequence[int]) -> bool:
        """Returns whether elements with these counts, in the order in which they are typed, have its formula."""
        numbers = _FORMULA.findall(self.label.partition("_")[0])  # texts; empty for 1
        # a label names its letters in alphabetical order
        number_by_letter = dict(zip(sorted(self.order), numbers, strict=True))
        formula = [int(number_by_letter[letter] or 1) for letter in self.order]
        if len(counts) != len(formula):
            return False
        # the counts are in the same proportion as the numbers of the formula
        return all(n * formula[0] == counts[0] * m for n, m in zip(counts, formula, strict=True))


def is_shorthand(text: str) -> bool:
    """Returns whether the text is one short line `NAME: ELEMENTS`."""
    head, colon, tail = text.strip().partition(":")
    return bool(colon and tail) and len(text) <= MAX_SHORTHAND and "\n" not in text.strip() and "{" not in head


def crystal_from_shorthand(text: str) -> Crystal:
    """Returns the crystal of a shorthand. Raises InvalidCandidateError for an unknown name or wrong elements."""
    name, _, rest = text.strip().partition(":")
    elements = tuple(word for word in re.split(r"[\s,]+", rest.strip()) if word)
    return decorated(name.strip(), elements)


@cache
def prototypes() -> Mapping[str, Prototype]:
    """Returns the prototypes of the table by name."""
    with Path(__file__).with_name("prototypes.csv").open(encoding="utf-8", newline="") as file:
        return {row["name"]: _prototype(row) for row in csv.DictReader(file)}


def _prototype(row: Mapping[str, str]) -> Prototype:
    """Returns the prototype of a row of the table."""
    sites = []
    for site in row["sites"].split("; "):
        letter, *position = site.split()
        sites.append((letter, tuple(_number(x) for x in position)))
    alpha, beta, gamma = (float(angle) for angle in row["angles"].split())
    return Prototype(
        name=row["name"],
        aliases=tuple(row["aliases"].split()),
        label=row["label"],
        family=row["family"],
        order=row["order"],
        example=row["example"],
        hall=int(row["hall"]),
        lengths=(float(row["b"]), float(row["c"])),
        angles=(alpha, beta, gamma),
        sites=tuple(sites),
    )


def _number(text: str) -> float:
    """Returns the value of a number or of a fraction such as `1/3`."""
    numerator, _, denominator = text.partition("/")
    return float(numerator) / float(denominator or 1)


@cache
def _by_name() -> Mapping[str, tuple[Prototype, str]]:
    """Returns prototypes with the order of their elements, by name, alias and AFLOW label in small letters. If a text
    is several of these, it is taken as a name."""
    by_name: dict[str, tuple[Prototype, str]] = {}
    for prototype in prototypes().values():
        by_name.setdefault(prototype.label.lower(), (prototype, "".join(sorted(prototype.order))))
    for prototype in prototypes().values():
        for alias in prototype.aliases:
            by_name.setdefault(alias.lower(), (prototype, prototype.order))
    for prototype in prototypes().values():
        by_name[prototype.name.lower()] = prototype, prototype.order
    return by_name


def decorated(name: str, elements: Sequence[str]) -> Crystal:
    """Returns the crystal of a prototype with these elements, in the order of its formula or of its label.

    Raises InvalidCandidateError for an unknown prototype, a wrong number of elements, or text that is no element.
    """
    known = _by_name().get(name.lower())
    if known is not None:
        prototype, order = known
        example = f" ({prototype.name}: {prototype.example})" if order == prototype.order else ""
        element_by_letter = _element_by_letter(name, order, elements, example)
        structure = built(prototype, element_by_letter)
    elif _LABEL.fullmatch(name):
        order = "".join(_LETTERS.findall(name.partition("_")[0]))
        structure = _from_aflow(name, _element_by_letter(name, order, elements))
    else:
        hint = did_you_mean(name, prototypes()) or f"; there are {', '.join(prototypes())}, and AFLOW labels"
        raise InvalidCandidateError(Reason.UNPARSABLE, f'no prototype is called "{name[:60]}"{hint}')
    return replace(crystal_from_structure(rescaled(structure)), has_estimated_volume=True)


def _element_by_letter(name: str, order: str, elements: Sequence[str], example: str = "") -> Mapping[str, str]:
    """Returns the element for each letter of a prototype. order: its letters as elements are typed. example: words for
    the error. Raises InvalidCandidateError for a wrong number of elements, or text that is no element."""
    if len(elements) != len(order):
        detail = f"{name} takes {len(order)} elements{example}; {len(elements)} were given"
        raise InvalidCandidateError(Reason.UNPARSABLE, detail)
    _check_elements(elements)
    return dict(zip(order, elements, strict=True))


def _check_elements(elements: Sequence[str]) -> None:
    try:
        from pymatgen.core import Element
    except ImportError as error:
        raise UsageError(NO_PYMATGEN) from error
    for element in elements:
        if not Element.is_valid_symbol(element):
            raise InvalidCandidateError(Reason.UNKNOWN_ELEMENT, f'"{element[:20]}" is not an element')
    if len(set(elements)) < len(elements):
        raise InvalidCandidateError(Reason.UNPARSABLE, f"an element is named twice: {' '.join(elements)}")


def built(prototype: Prototype, element_by_letter: Mapping[str, str]) -> Any:
    """Returns the pymatgen Structure of a prototype, before it is rescaled: a is 2 angstrom times the cube root of the
    number of sites. element_by_letter: the element for each letter of the prototype."""
    from pymatgen.core import Lattice, Structure

    species: list[str] = []
    positions: list[list[float]] = []
    for letter, position in prototype.sites:
        orbit = expanded(prototype.hall, position)
        species += [element_by_letter[letter]] * len(orbit)
        positions += orbit
    a = 2.0 * len(species) ** (1 / 3)
    b, c = prototype.lengths
    return Structure(Lattice.from_parameters(a, a * b, a * c, *prototype.angles), species, positions)


def _from_aflow(label: str, element_by_letter: Mapping[str, str]) -> Any:
    """Returns the structure of pymatgen's AFLOW library with this label. element_by_letter: the element for each letter
    of the label. Raises InvalidCandidateError."""
    from pymatgen.core import Lattice, Structure

    entry = _aflow().get(label)
    if entry is None:
        detail = f'no prototype is called "{label[:60]}"{did_you_mean(label, _aflow())}; pymatgen has {len(_aflow())}'
        raise InvalidCandidateError(Reason.UNPARSABLE, detail)
    symbols = [site["species"][0]["element"] for site in entry["sites"]]
    # the letters of a label are given to the elements of its entry in alphabetical order
    letter_by_symbol = dict(zip(sorted(set(symbols)), sorted(element_by_letter), strict=True))
    species = [element_by_letter[letter_by_symbol[symbol]] for symbol in symbols]
    return Structure(Lattice(entry["lattice"]["matrix"]), species, [site["abc"] for site in entry["sites"]])


@cache
def _aflow() -> Mapping[str, Any]:
    """Returns the cells and sites of pymatgen's AFLOW library by label. Of several entries with one label, the first
    is taken."""
    with gzip.open(analysis_folder() / _AFLOW) as file:
        entries = json.load(file)
    by_label: dict[str, Any] = {}
    for entry in entries:
        label = entry["tags"]["aflow"]
        cell = entry["snl"]
        n_elements = len({site["species"][0]["element"] for site in cell["sites"]})
        n_letters = len(_LETTERS.findall(label.partition("_")[0]))
        if _LABEL.fullmatch(label) and n_elements == n_letters:
            by_label.setdefault(label, cell)
    return by_label


REMEMBERED = 1 << 14
"""Number of crystals whose families or notations are cached."""
COMPARED = 1 << 9
"""Number of crystals whose reduced cells are cached."""
FAMILY_SYMPREC = 0.1
"""Tolerance of a family's space group, in angstrom; relaxed cells of one structure differ by about as much."""
TIGHT_SYMPREC = 0.01
"""Tolerance, in angstrom, that is tried if spglib finds no group with FAMILY_SYMPREC."""
SAME_LENGTH = 0.005
"""Largest relative difference of lattice vectors of one structure; a strain of 3 % is another one."""
SAME_ANGLE = 0.5
"""Largest difference of the cell's angles, in degrees."""
SAME_SITE = 0.01
"""Largest root mean square displacement of the atoms, in cube roots of the volume per atom: 0.03 angstrom in rock
salt."""

RELAXED_LENGTH = 0.03
"""Largest relative difference of lattice vectors of one structure that was relaxed from two starts. Forces of 0.02
eV/angstrom leave 0.02 in ZrNiSn, with 0.4 meV an atom."""
RELAXED_ANGLE = 2.0
"""Largest difference of the angles of such cells, in degrees."""
RELAXED_SITE = 0.03
"""Largest displacement of an atom between such cells, in cube roots of the volume per atom: 0.1 angstrom in CsCaCl3.
Such forces leave up to 0.024 in flat perovskites; the phases of BaTiO3 and of KNbO3 lie further apart."""


def family(crystal: Crystal) -> str:
    """Returns the prototype label of a crystal without elements, such as `AB_cF8_225_a_b`.

    Crystals of one family agree in anonymous formula, space group and Wyckoff sequence. Where spglib finds no group,
    the formula is the family.
    """
    return _family(crystal)


@lru_cache(maxsize=REMEMBERED)
def _family(crystal: Crystal) -> str:
    symmetry = loose_symmetry(crystal)
    return crystal.formula if symmetry is None else symmetry.label


def loose_symmetry(crystal: Crystal) -> CrystalSymmetry | None:
    """Returns the symmetry of a crystal at the tolerance of families; None if spglib finds none."""
    return symmetry_of(crystal.structure, FAMILY_SYMPREC) or symmetry_of(crystal.structure, TIGHT_SYMPREC)


def same(first: Crystal, second: Crystal) -> bool:
    """Returns whether two crystals are one structure within the tolerances of this module.

    Lengths may differ by SAME_LENGTH; a relaxed cell is thus no duplicate of its prototype.
    """
    if first == second:
        return True
    if first.formula != second.formula or not _near_volumes(first, second) or family(first) != family(second):
        return False
    return bool(_matcher().fit(_reduced(first), _reduced(second), skip_structure_reduction=True))


def relaxed_distance(first: Crystal, second: Crystal) -> float | None:
    """Returns how far an atom lies apart in two relaxed crystals of one structure: the largest distance of all atoms,
    in angstrom. Returns None if the crystals are two structures.

    A symmetry that holds within FAMILY_SYMPREC counts as exact, so that a supercell or a slightly distorted cell is
    compared with its parent. The volumes may differ by as much as for `same`.
    """
    if first.formula != second.formula or not _near_volumes(first, second):
        return None
    first_cell = _symmetrised(first)
    second_cell = _symmetrised(second)
    if len(first_cell) != len(second_cell):
        return None
    distances = _relaxed_matcher().get_rms_dist(first_cell, second_cell)
    if distances is None:
        return None
    _, largest = distances  # in cube roots of the volume per atom
    if largest > RELAXED_SITE:
        return None
    unit: float = (first_cell.volume / len(first_cell)) ** (1 / 3)
    return float(largest) * unit


@lru_cache(maxsize=COMPARED)
def _symmetrised(crystal: Crystal) -> Any:
    """Returns the Niggli cell of the primitive cell at the tolerance of families."""
    from pymatgen.symmetry.analyzer import SpacegroupAnalyzer

    try:
        primitive = SpacegroupAnalyzer(crystal.structure, FAMILY_SYMPREC).get_primitive_standard_structure()
    except Exception:  # noqa: BLE001  spglib and pymatgen raise several types without a common base
        return _reduced(crystal)
    return primitive.get_reduced_structure(reduction_algo="niggli")


@cache
def _relaxed_matcher() -> Any:
    from pymatgen.core.structure_matcher import StructureMatcher

    return StructureMatcher(
        ltol=RELAXED_LENGTH, stol=RELAXED_SITE, angle_tol=RELAXED_ANGLE, primitive_cell=False, scale=True
    )


def _near_volumes(first: Crystal, second: Crystal) -> bool:
    """Returns whether the volumes per atom differ by no more than lengths that differ by SAME_LENGTH."""
    volumes = [float(crystal.structure.volume) / crystal.n_atoms for crystal in (first, second)]
    return max(volumes) <= min(volumes) * (1 + SAME_LENGTH) ** 3


@lru_cache(maxsize=COMPARED)
def _reduced(crystal: Crystal) -> Any:
    """Returns the Niggli cell, in which structures are matched."""
    return crystal.structure.get_reduced_structure(reduction_algo="niggli")


@cache
def _matcher() -> Any:
    from pymatgen.core.structure_matcher import StructureMatcher

    return StructureMatcher(ltol=SAME_LENGTH, stol=SAME_SITE, angle_tol=SAME_ANGLE, primitive_cell=False, scale=True)
