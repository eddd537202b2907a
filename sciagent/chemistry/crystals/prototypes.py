"""The shorthand `perovskite: Cs Sn I`: a prototype and the elements on its places, in the order of its formula.

Common prototypes are in `prototypes.csv`: the setting of the space group by its number in spglib, the cell relative to
a, and one position for each orbit, with a letter for its element. Other prototypes are named by their AFLOW label,
such as `AB3_oC8_65_a_bf: Cd Pt`; their elements are in the order of the letters. Cells have the volume of `scaling`.

Sources: Mehl et al., Comput. Mater. Sci. 136, S1 (2017), the AFLOW library, as pymatgen ships it. Not from there:
Shannon, Rogers, Prewitt, Inorg. Chem. 10, 713 (1971), delafossite; Hill, Craig, Gibbs, Phys. Chem. Miner. 4, 317
(1979), spinel; Smyth, Hazen, Am. Mineral. 58, 588 (1973), olivine; Streltsov et al., Acta Cryst. B 49, 147 (1993),
triphylite; Hazen, Finger, Mariathasan, J. Phys. Chem. Solids 46, 253 (1985), scheelite; Novak, Gibbs, Am. Mineral. 56,
791 (1971), garnet; Nelmes, Kuhs, Solid State Commun. 54, 721 (1985), tetragonal perovskite; textbook values for others.
"""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sciagent.chemistry.crystal import NO_PYMATGEN, Crystal, crystal_from_structure
from sciagent.chemistry.crystals.cells import analysis_folder, expanded
from sciagent.chemistry.crystals.scaling import rescaled
from sciagent.domain.outcomes import Reason
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
        numbers = dict(zip(sorted(self.order), _FORMULA.findall(self.label.partition("_")[0]), strict=True))
        formula = [int(numbers[letter] or 1) for letter in self.order]
        return len(counts) == len(formula) and all(
            n * formula[0] == counts[0] * m for n, m in zip(counts, formula, strict=True)
        )


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
    sites = [(site.split()[0], tuple(_number(x) for x in site.split()[1:])) for site in row["sites"].split("; ")]
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
    top, _, bottom = text.partition("/")
    return float(top) / float(bottom or 1)


@cache
def _by_name() -> Mapping[str, tuple[Prototype, str]]:
    """Returns prototypes with the order of their elements, by name, alias and AFLOW label in small letters."""
    found: dict[str, tuple[Prototype, str]] = {}
    for prototype in prototypes().values():
        found.setdefault(prototype.label.lower(), (prototype, "".join(sorted(prototype.order))))
    for prototype in prototypes().values():
        for name in prototype.aliases:
            found.setdefault(name.lower(), (prototype, prototype.order))
    for prototype in prototypes().values():
        found[prototype.name.lower()] = prototype, prototype.order
    return found


def decorated(name: str, elements: Sequence[str]) -> Crystal:
    """Returns the crystal of a prototype with these elements, in the order of its formula or of its label.

    Raises InvalidCandidateError for an unknown prototype, a wrong number of elements, or text that is no element.
    """
    known = _by_name().get(name.lower())
    if known is None and not _LABEL.fullmatch(name):
        hint = did_you_mean(name, prototypes()) or f"; there are {', '.join(prototypes())}, and AFLOW labels"
        raise InvalidCandidateError(Reason.UNPARSABLE, f'no prototype is called "{name[:60]}"{hint}')
    order = known[1] if known else "".join(_LETTERS.findall(name.partition("_")[0]))
    example = f" ({known[0].name}: {known[0].example})" if known and order == known[0].order else ""
    if len(elements) != len(order):
        detail = f"{name} takes {len(order)} elements{example}; {len(elements)} were given"
        raise InvalidCandidateError(Reason.UNPARSABLE, detail)
    _check_elements(elements)
    letters = dict(zip(order, elements, strict=True))
    structure = built(known[0], letters) if known else _from_aflow(name, letters)
    return crystal_from_structure(rescaled(structure))


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


def built(prototype: Prototype, letters: Mapping[str, str]) -> Any:
    """Returns the pymatgen Structure of a prototype with a = 1 angstrom per site, before it is rescaled."""
    from pymatgen.core import Lattice, Structure

    species: list[str] = []
    positions: list[list[float]] = []
    for letter, position in prototype.sites:
        orbit = expanded(prototype.hall, position)
        species += [letters[letter]] * len(orbit)
        positions += orbit
    a = 2.0 * len(species) ** (1 / 3)
    b, c = prototype.lengths
    return Structure(Lattice.from_parameters(a, a * b, a * c, *prototype.angles), species, positions)


def _from_aflow(label: str, letters: Mapping[str, str]) -> Any:
    """Returns the structure of pymatgen's AFLOW library with this label. Raises InvalidCandidateError."""
    from pymatgen.core import Lattice, Structure

    entry = _aflow().get(label)
    if entry is None:
        detail = f'no prototype is called "{label[:60]}"{did_you_mean(label, _aflow())}; pymatgen has {len(_aflow())}'
        raise InvalidCandidateError(Reason.UNPARSABLE, detail)
    symbols = [site["species"][0]["element"] for site in entry["sites"]]
    names = dict(zip(sorted(set(symbols)), sorted(letters), strict=True))
    species = [letters[names[symbol]] for symbol in symbols]
    return Structure(Lattice(entry["lattice"]["matrix"]), species, [site["abc"] for site in entry["sites"]])


@cache
def _aflow() -> Mapping[str, Any]:
    """Returns the cells and sites of pymatgen's AFLOW library by label; of entries with one label, the first."""
    with gzip.open(analysis_folder() / _AFLOW) as file:
        entries = json.load(file)
    found: dict[str, Any] = {}
    for entry in entries:
        label, cell = entry["tags"]["aflow"], entry["snl"]
        n_elements = len({site["species"][0]["element"] for site in cell["sites"]})
        if _LABEL.fullmatch(label) and n_elements == len(_LETTERS.findall(label.partition("_")[0])):
            found.setdefault(label, cell)
    return found
