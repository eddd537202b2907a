"""Draws the cell of a crystal as SVG with colours from CSS, so that a drawing suits light, dark and print.

The conventional cell is seen from above and from the side, in parallel projection. Atoms on its faces are repeated, and
so is a slender cell. Lines are bonds (`contacts`); the radii of the atoms are in proportion to their atomic radii.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sciagent.chemistry.crystal import SYMPREC, Crystal
from sciagent.chemistry.crystals.bonds import contacts, electronegativity, is_metal, radius
from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import NO_NEGATIVITY

Point = tuple[float, float, float]
"""x to the right, y upwards, and the distance towards the eye, in angstrom."""
TURN = math.radians(-24)
"""Rotation of the cell about its third axis."""
LIFT = math.radians(14)
"""Elevation of the eye."""
MAX_SITES = 100
"""Largest number of sites of a conventional cell that is drawn; of a larger cell the primitive one is drawn."""
MAX_ATOMS = 500
"""Largest number of atoms drawn, with those repeated on faces."""
MAX_REPEATED = 60
"""Largest number of sites to which a slender cell is repeated."""
SLENDER = 0.95
"""Share of its longest vector up to which the others are repeated."""
ON_FACE = 1e-3
"""Fractional distance from a face up to which an atom is repeated."""
BOND = 1.2
"""Multiple of an atom's tightest bond up to which bonds are drawn, relative to the radii."""
ATOM_SHARE = 0.34
"""Radius of a drawn atom in radii of the element."""
LEGEND = 18
"""Height of the line with the elements, in pixels."""
MARGIN = 6
"""Width of the empty edge, in pixels."""
LEGEND_STEP = 34
"""Distance between two elements of the legend, in pixels."""
_NONMETALS = {
    "atom-n": ("N",),
    "atom-o": ("O",),
    "atom-x": ("F", "Cl", "Br", "I", "At"),
    "atom-s": ("S", "Se", "Te"),
    "atom-p": ("P", "As"),
    "atom-b": ("B", "Si", "Ge", "Sb"),
    "atom": ("C", "H"),
}
"""Nonmetals by the CSS variable of their colour."""
_METAL_COLOURS = ("atom-n", "atom-p", "atom-b", "atom-s", "atom", "atom-x", "atom-o")
"""Colours of metals, in the order in which they are taken if no nonmetal of the crystal has them."""


@dataclass(frozen=True)
class Ball:
    """An atom in the plane of the drawing, in angstrom."""

    x: float
    y: float
    depth: float
    """Distance towards the eye."""
    symbol: str


def drawing(crystal: Crystal, width: int = 260, height: int = 190) -> str:
    """Returns an SVG without prolog, scaled by its viewBox; colours are CSS variables (`--atom`, `--atom-n`, …).

    width, height: pixels of the viewBox.
    """
    structure = _drawn_cell(crystal)
    balls, sticks = _balls_and_sticks(_repeated(structure))
    corners = {}
    for corner in itertools.product((0, 1), repeat=3):
        corners[corner] = _projected(structure.lattice.get_cartesian_coords(corner))
    largest = ATOM_SHARE * max(radius(symbol) for symbol in crystal.species)
    xs = [ball.x for ball in balls] + [x for x, _, _ in corners.values()]
    ys = [ball.y for ball in balls] + [y for _, y, _ in corners.values()]
    wide = max(xs) - min(xs) + 2 * largest
    high = max(ys) - min(ys) + 2 * largest
    scale = min((width - 2 * MARGIN) / wide, (height - 2 * MARGIN - LEGEND) / high)
    x0 = width / 2 - scale * (max(xs) + min(xs)) / 2
    y0 = (height - LEGEND) / 2 + scale * (max(ys) + min(ys)) / 2

    def place(point: Sequence[float]) -> str:
        return f"{x0 + scale * point[0]:.1f} {y0 - scale * point[1]:.1f}"

    edges = "".join(f"M{place(corners[a])}L{place(corners[b])}" for a, b in _edges())
    bonds = "".join(f"M{place(a)}L{place(b)}" for a, b in sticks)
    cations_first = sorted(
        set(crystal.species), key=lambda symbol: (electronegativity(symbol) or NO_NEGATIVITY, symbol)
    )
    colours = _colours(cations_first)
    parts = [_line(edges, width=0.9, opacity=0.55)]
    if bonds:
        bond_width = max(0.8, min(2.5, 0.09 * scale))  # in proportion to the drawing, within bounds in pixels
        parts.append(_line(bonds, width=bond_width, opacity=0.45))
    for ball in balls:
        size = scale * ATOM_SHARE * radius(ball.symbol)
        parts.append(_circle(place((ball.x, ball.y)), size, colours[ball.symbol]))
    parts.append(_legend(colours, width, height))
    head = f'<svg class="crystal" viewBox="0 0 {width} {height}" role="img" aria-hidden="true" focusable="false">'
    return f"{head}{''.join(parts)}</svg>"


def _drawn_cell(crystal: Crystal) -> Any:
    """Returns the conventional cell; the primitive one if the conventional cell is too large."""
    import spglib
    from pymatgen.core import Element, Lattice, Structure

    structure = crystal.structure
    cell = (structure.lattice.matrix, structure.frac_coords, [site.specie.Z for site in structure])
    try:
        data = spglib.get_symmetry_dataset(cell, symprec=SYMPREC)
    except spglib.SpglibError:
        data = None
    if data is None or len(data.std_types) > MAX_SITES:
        return structure
    species = [Element.from_Z(int(number)) for number in data.std_types]
    return Structure(Lattice(data.std_lattice), species, data.std_positions, to_unit_cell=True)


def _repeated(structure: Any) -> Any:
    """Returns a slender cell repeated along its short vectors, so that its bonds can be seen."""
    lengths = structure.lattice.abc
    repeats = [max(1, min(3, round(SLENDER * max(lengths) / length))) for length in lengths]
    n_repeated = len(structure) * math.prod(repeats)
    return structure * repeats if n_repeated <= MAX_REPEATED else structure


def _balls_and_sticks(structure: Any) -> tuple[list[Ball], list[tuple[Point, Point]]]:
    """Returns the atoms of the cell, the farthest from the eye first, and the bonds between them."""
    import numpy as np

    points = dict(itertools.islice(_points_in_cell(structure), MAX_ATOMS))
    bonds = contacts(structure, BOND)
    smallest = np.full(len(structure), np.inf)
    np.minimum.at(smallest, bonds.first, bonds.ratios)
    is_drawn = bonds.ratios <= BOND * np.minimum(smallest[bonds.first], smallest[bonds.second])
    sticks = []
    drawn_bonds = zip(bonds.first[is_drawn], bonds.second[is_drawn], bonds.images[is_drawn], strict=True)
    for first_site, second_site, vector in drawn_bonds:
        for index, image in points:
            if index != first_site:
                continue
            first = (first_site, image)
            second = (second_site, tuple(int(a + b) for a, b in zip(image, vector, strict=True)))
            if second in points and first < second:  # each bond once
                sticks.append((points[first], points[second]))
    balls = [Ball(*point, structure[index].specie.symbol) for (index, _), point in points.items()]
    return sorted(balls, key=lambda ball: ball.depth), sticks


def _points_in_cell(structure: Any) -> Iterator[tuple[tuple[int, tuple[int, ...]], Point]]:
    """Yields ((site, lattice vector of its periodic image), point) of the atoms inside the cell and on its faces."""
    import numpy as np

    for index, site in enumerate(structure):
        inside = site.frac_coords - np.floor(site.frac_coords + ON_FACE)  # coordinates within the cell
        shifts = [(0, 1) if abs(x) <= ON_FACE else (0,) for x in inside]  # 1: repeated on the opposite face
        for shift in itertools.product(*shifts):
            image = tuple(int(n) for n in np.round(inside + shift - site.frac_coords))
            yield (index, image), _projected(structure.lattice.get_cartesian_coords(site.frac_coords + image))


def _projected(point: Sequence[float]) -> Point:
    """Returns a Cartesian point as the eye sees it."""
    x = math.cos(TURN) * point[0] - math.sin(TURN) * point[1]
    backwards = math.sin(TURN) * point[0] + math.cos(TURN) * point[1]
    y = math.cos(LIFT) * point[2] + math.sin(LIFT) * backwards
    towards_eye = math.sin(LIFT) * point[2] - math.cos(LIFT) * backwards
    return x, y, towards_eye


def _edges() -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Returns the edges of a cell as pairs of corners, which differ in one coordinate."""
    corners = list(itertools.product((0, 1), repeat=3))
    edges = []
    for a, b in itertools.combinations(corners, 2):
        n_different = sum(x != y for x, y in zip(a, b, strict=True))
        if n_different == 1:
            edges.append((a, b))
    return edges


def _colours(symbols: Sequence[str]) -> Mapping[str, str]:
    """Returns the CSS variable of each element, metals first: nonmetals have fixed colours, metals get the others."""
    fixed = dict[str, str]()
    for name, members in _NONMETALS.items():
        fixed.update(dict.fromkeys(members, name))
    nonmetals = {symbol: fixed[symbol] for symbol in symbols if symbol in fixed and not is_metal(symbol)}
    free = [name for name in _METAL_COLOURS if name not in nonmetals.values()] or list(_METAL_COLOURS)
    others = [symbol for symbol in symbols if symbol not in nonmetals]
    metals = {symbol: free[place % len(free)] for place, symbol in enumerate(others)}
    return metals | nonmetals


def _line(path: str, width: float, opacity: float) -> str:
    return f'<path style="fill:none;stroke:var(--atom);stroke-width:{width:.2g};stroke-opacity:{opacity}" d="{path}"/>'


def _circle(centre: str, size: float, colour: str) -> str:
    x, y = centre.split()
    return f'<circle cx="{x}" cy="{y}" r="{size:.1f}" style="fill:var(--{colour});stroke:var(--atom);stroke-width:.6"/>'


def _legend(colours: Mapping[str, str], width: int, height: int) -> str:
    """Returns a line with a circle and a symbol for each element."""
    y = height - LEGEND / 2
    x = width / 2 - LEGEND_STEP * len(colours) / 2 + 8  # of the first circle, so that the line is in the middle
    parts = []
    for symbol, colour in colours.items():
        parts.append(_circle(f"{x:.1f} {y:.1f}", size=4, colour=colour))
        parts.append(f'<text x="{x + 7:.1f}" y="{y + 4:.1f}" style="fill:var(--atom);font-size:11px">{symbol}</text>')
        x += LEGEND_STEP
    return "".join(parts)
