"""Families of crystals: prototypes, and the structure matches that find near-duplicates.

The key of a crystal cannot survive noise: a distance at the edge of a bin changes it. `same` tells whether two crystals
are one structure at nearly one volume, such as a structure before and after a copy with fewer digits.
`relaxed_distance` asks the same of two relaxed cells, which differ by what their relaxations have left.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.cells import CrystalSymmetry, symmetry_of

REMEMBERED = 1 << 14
COMPARED = 1 << 9  # reduced cells kept, which are larger than families
FAMILY_SYMPREC = 0.1
"""Tolerance of a family's space group, in angstrom; a tenth of an angstrom is what relaxed cells differ by."""
TIGHT_SYMPREC = 0.01
"""Tolerance where spglib finds no group at the first one, in angstrom."""
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
    """Returns the largest distance, in angstrom, between the two positions of an atom in two relaxed crystals that are
    one structure; None if they are two structures.

    The symmetry that a relaxation has nearly restored counts as restored (FAMILY_SYMPREC), so that a supercell or a
    slightly distorted cell is compared with its parent. The volumes may differ by as much as for `same`.
    """
    if first.formula != second.formula or not _near_volumes(first, second):
        return None
    one = _symmetrised(first)
    other = _symmetrised(second)
    if len(one) != len(other):
        return None
    distances = _relaxed_matcher().get_rms_dist(one, other)
    if distances is None or distances[1] > RELAXED_SITE:
        return None
    scale: float = (one.volume / len(one)) ** (1 / 3)
    return float(distances[1]) * scale


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
