"""Bonds of a crystal by distances and radii, and the elements' data that this needs.

Bonds are between different elements that are not both metals; in an element or an alloy all contacts are bonds.

Source of the radii, as pymatgen has them: Slater, J. Chem. Phys. 41, 3199 (1964). Sums of two radii differ from
measured distances by 0.12 angstrom on average. Noble gases have calculated radii (Clementi, Raimondi, Reinhardt, J.
Chem. Phys. 47, 1300 (1967)).
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

FIRST_REACH = 1.2
"""Reach, the distance up to which bonds are looked for, of the first search, in cube roots of the volume per site."""
GROWTH = 1.5
"""Factor by which the reach grows until no bond can be missing."""
UNKNOWN_RADIUS = 1.5
"""Radius of an element without a known one, in angstrom."""


@dataclass(frozen=True)
class Contacts:
    """Bonds of a structure, each in both directions; arrays of one length."""

    first: Any
    """Index of the site that is looked from."""
    second: Any
    """Index of its neighbour."""
    images: Any
    """Lattice vectors by which the neighbour is shifted, n x 3."""
    distances: Any
    """Lengths, in angstrom."""
    ratios: Any
    """Lengths over the sums of the radii."""


def contacts(structure: Any, multiple: float) -> Contacts:
    """Returns the bonds of a pymatgen Structure. For each site, they are complete up to `multiple` times the smallest
    ratio (length over the sum of the radii) of its bonds."""
    import numpy as np

    symbols = [site.specie.symbol for site in structure]
    radii = np.array([radius(symbol) for symbol in symbols])
    metal = np.array([is_metal(symbol) for symbol in symbols])
    atomic_number = np.array([site.specie.Z for site in structure])
    all_are_bonds = metal.all() or len(set(symbols)) == 1
    reach = FIRST_REACH * (structure.volume / len(structure)) ** (1 / 3)
    while True:
        first, second, images, distances = structure.get_neighbor_list(reach, exclude_self=True)
        differ = atomic_number[first] != atomic_number[second]
        bonds = all_are_bonds | (differ & ~(metal[first] & metal[second]))
        ratios = distances / (radii[first] + radii[second])
        smallest = np.full(len(symbols), np.inf)
        np.minimum.at(smallest, first[bonds], ratios[bonds])
        longest_bonds = smallest * multiple * (radii + radii.max())  # longest that are wanted, for each site
        if (longest_bonds <= reach).all():
            return Contacts(first[bonds], second[bonds], images[bonds], distances[bonds], ratios[bonds])
        reach *= GROWTH


def shortest_contact(structure: Any) -> float:
    """Returns the smallest distance of any two atoms over the sum of their radii."""
    import numpy as np

    radii = np.array([radius(site.specie.symbol) for site in structure])
    reach = FIRST_REACH * (structure.volume / len(structure)) ** (1 / 3)
    while True:
        first, second, _, distances = structure.get_neighbor_list(reach, exclude_self=True)
        smallest = float((distances / (radii[first] + radii[second])).min(initial=np.inf))
        longest_with_ratio = smallest * 2 * float(radii.max())  # a longer contact has a larger ratio
        if longest_with_ratio <= reach:
            return smallest
        reach *= GROWTH


@cache
def radius(symbol: str) -> float:
    """Returns the atomic radius of an element, in angstrom."""
    from pymatgen.core import Element

    element = Element(symbol)
    return float(element.atomic_radius or element.atomic_radius_calculated or UNKNOWN_RADIUS)


@cache
def is_metal(symbol: str) -> bool:
    """Returns whether pymatgen counts the element among the metals; metalloids are none."""
    from pymatgen.core import Element

    return bool(Element(symbol).is_metal)


@cache
def electronegativity(symbol: str) -> float | None:
    """Returns Pauling's electronegativity; None for an element without one, such as neon."""
    from pymatgen.core import Element

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = float(Element(symbol).X)
    return None if math.isnan(value) else value
