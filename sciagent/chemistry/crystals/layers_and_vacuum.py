"""Parts of a crystal that hang together, and in how many directions each repeats: layers, chains, molecules, vacuum.

Sites that are near each other are linked. A part is a set of linked sites with all images that the links reach; the
lattice translations within it span 0 to 3 directions. Which sites are near depends on the question:

- `bonded_part`: linked by bonds, so that graphite is layers and a crystal of CO2 molecules. Along other directions such
  crystals are soft.
- `part_in_vacuum`: linked unless more than VACUUM lies between the surfaces of the atoms. Whatever then does not repeat
  in three directions is a slab, a chain or a molecule in a box, and no bulk crystal.

Source: Mounet et al., Nat. Nanotechnol. 13, 246 (2018), which finds layers by the rank of the translations, too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.bonds import contacts, is_metal, radius

VACUUM = 4.0
"""Distance between the surfaces of two atoms above which vacuum lies between them, in angstrom. The surfaces of atoms
lie one atomic radius from the nuclei. The gap between van der Waals layers is 1.5 to 2 angstrom, and vacuum of a
calculation is 8 or more."""
LONGEST_BOND = 1.45
"""Longest bond of a site over its shortest one, both relative to the sums of the radii."""
LONGEST_ALLOY_BOND = 1.2
"""Longest bond of two metals over the sum of their radii."""
MAX_DIMENSION = 3
NAMES = ("a molecule", "a chain", "a slab", "a bulk crystal")
"""Names of a part by the number of directions in which it repeats."""
CANDIDATES_REMEMBERED = 4096


@dataclass(frozen=True)
class CrystalPart:
    """A part of a crystal whose sites are linked."""

    translations: tuple[tuple[int, int, int], ...]
    """Independent lattice translations within the part, in units of the lattice vectors; at most three."""

    @property
    def dimension(self) -> int:
        """Number of directions in which the part repeats: 3 for bulk, 2 for a layer, 1 for a chain, else 0."""
        return len(self.translations)

    @property
    def name(self) -> str:
        """The part in words, such as `a slab`."""
        return NAMES[self.dimension]


def bonded_part(structure: Any) -> CrystalPart:
    """Returns the part of a pymatgen Structure that repeats in most directions, where bonds link the sites.

    Two metals that differ are bonded, too, as titanium and aluminium in Ti2AlC.
    """
    import numpy as np

    bonds = contacts(structure, LONGEST_BOND)
    shortest = np.full(len(structure), np.inf)
    np.minimum.at(shortest, bonds.first, bonds.ratios)
    is_bond = bonds.ratios <= LONGEST_BOND * np.minimum(shortest[bonds.first], shortest[bonds.second])
    links = _links(bonds.first[is_bond], bonds.second[is_bond], bonds.images[is_bond])
    symbols = [site.specie.symbol for site in structure]
    metals = {symbol for symbol in symbols if is_metal(symbol)}
    if len(metals) > 1:
        radii = np.array([radius(symbol) for symbol in symbols])
        number = np.array([site.specie.Z if site.specie.symbol in metals else 0 for site in structure])
        reach = 2 * float(radii.max()) * LONGEST_ALLOY_BOND
        first, second, images, distances = structure.get_neighbor_list(reach, exclude_self=True)
        differ = (number[first] != number[second]) & (number[first] > 0) & (number[second] > 0)
        is_bond = differ & (distances <= LONGEST_ALLOY_BOND * (radii[first] + radii[second]))
        links += _links(first[is_bond], second[is_bond], images[is_bond])
    return _largest_part(len(structure), links)


@lru_cache(maxsize=CANDIDATES_REMEMBERED)
def part_in_vacuum(crystal: Crystal) -> CrystalPart | None:
    """Returns the slab, chain or molecule with vacuum around it of which a crystal consists; None for bulk."""
    import numpy as np

    structure = crystal.structure
    radii = np.array([radius(symbol) for symbol in crystal.species])
    nearest_images = 2 * float(radii.max()) + VACUUM
    if max(structure.lattice.abc) <= nearest_images:  # each atom of the largest element is linked to its own images
        return None
    first, second, images, distances = structure.get_neighbor_list(nearest_images, exclude_self=True)
    is_near = distances <= radii[first] + radii[second] + VACUUM
    part = _largest_part(len(structure), _links(first[is_near], second[is_near], images[is_near]))
    return None if part.dimension == MAX_DIMENSION else part


def soft_vectors(structure: Any) -> tuple[bool, bool, bool]:
    """Returns for each lattice vector whether it leaves the bonded part of the crystal: c of a layered crystal.

    Along such a vector only weak forces act. All three are soft in a crystal of molecules.
    """
    inside = bonded_part(structure).translations
    a = _is_independent(inside, (1, 0, 0))
    b = _is_independent(inside, (0, 1, 0))
    c = _is_independent(inside, (0, 0, 1))
    return a, b, c


Translation = tuple[int, int, int]
"""A lattice translation, in units of the lattice vectors."""
Link = tuple[int, int, Translation]
"""Two linked sites, with the cell of the second one."""


def _links(first: Any, second: Any, images: Any) -> list[Link]:
    """Returns the links of arrays of sites, (n,), and of the cells of the second ones, (n, 3)."""
    links = []
    for site, neighbour, image in zip(first.tolist(), second.tolist(), images.tolist(), strict=True):
        x, y, z = (round(value) for value in image)
        links.append((site, neighbour, (x, y, z)))
    return links


def _largest_part(n_sites: int, links: Sequence[Link]) -> CrystalPart:
    """Returns the part that repeats in most directions. links: each in both directions."""
    neighbours: list[list[tuple[int, Translation]]] = [[] for _ in range(n_sites)]
    for site, neighbour, cell in links:
        neighbours[site].append((neighbour, cell))
    cells: dict[int, Translation] = {}
    largest = CrystalPart(())
    for start in range(n_sites):
        if start not in cells:
            part = CrystalPart(_translations(start, neighbours, cells))
            largest = max(largest, part, key=lambda each: each.dimension)
    return largest


def _translations(
    start: int, neighbours: Sequence[Sequence[tuple[int, Translation]]], cells: dict[int, Translation]
) -> tuple[Translation, ...]:
    """Returns independent translations of the part of a site, and enters its sites.

    cells: {site: cell in which it was reached}. Another way to a site that ends in another cell is a translation.
    """
    translations: list[Translation] = []
    cells[start] = (0, 0, 0)
    waiting = deque([start])
    while waiting:
        site = waiting.popleft()
        x, y, z = cells[site]
        for neighbour, (u, v, w) in neighbours[site]:
            known = cells.get(neighbour)
            if known is None:
                cells[neighbour] = (x + u, y + v, z + w)
                waiting.append(neighbour)
                continue
            difference = (x + u - known[0], y + v - known[1], z + w - known[2])
            if _is_independent(translations, difference):
                translations.append(difference)
    return tuple(translations)


def _is_independent(translations: Sequence[Translation], other: Translation) -> bool:
    """Returns whether a translation is linearly independent of others, which are so among themselves."""
    if len(translations) == MAX_DIMENSION:
        return False
    if not translations:
        return other != (0, 0, 0)
    normal = _cross(translations[0], other)
    if len(translations) == 1:
        return normal != (0, 0, 0)
    return sum(a * b for a, b in zip(normal, translations[1], strict=True)) != 0


def _cross(first: Translation, second: Translation) -> Translation:
    """Returns the vector product of the components."""
    a, b, c = first
    u, v, w = second
    return b * w - c * v, c * u - a * w, a * v - b * u
