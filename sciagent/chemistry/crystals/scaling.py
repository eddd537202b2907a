"""Scales a structure to the volume at which its bonds are the sums of two atomic radii.

The volume follows from elements, shape of the cell and coordinates alone. Two routes to one decoration thus end at one
volume and one key. A bond belongs to its more electropositive atom. The mean bond of an atom is weighted as in the
effective coordination number, and the atom with the tightest bonds sets the volume. For 31 common compounds the lattice
constants lie 4 % from the measured ones on average (tests/chemistry/crystals/test_scaling.py); relax them before
anything depends on them.

Source: Hoppe, Z. Kristallogr. 150, 23 (1979), weights. The radii are those of `contacts`.
"""

from __future__ import annotations

from typing import Any

from sciagent.chemistry.crystals.contacts import contacts, electronegativity

FULL_SHELL = 1.5
"""Multiple of the shortest bond from which on Hoppe's weight is below 0.0001."""
ESTIMATED = 1e-5
"""Largest distance of the tightness of an estimated cell from 1; digits are lost where a cell is written and read."""
ERROR = "4 %"
"""Mean error of the lattice constants."""
NO_NEGATIVITY = 5.0
"""Stands for the electronegativity of an element without one, such as neon."""


def tightness(structure: Any) -> float:
    """Returns the mean ratio of bond to sum of radii around the atom where it is smallest."""
    import numpy as np

    found = contacts(structure, FULL_SHELL)
    negativity = np.array([electronegativity(site.specie.symbol) or NO_NEGATIVITY for site in structure])
    own = negativity[found.first] <= negativity[found.second]
    sites, ratios = found.first[own], found.ratios[own]
    return min(_mean_bond(ratios[sites == site]) for site in set(sites.tolist()))


def _mean_bond(ratios: Any) -> float:
    """Returns the mean of the ratios of one atom, with Hoppe's weights."""
    import numpy as np

    weights = np.exp(1 - (ratios / ratios.min()) ** 6)
    return float((ratios * weights).sum() / weights.sum())


def rescaled(structure: Any) -> Any:
    """Returns a copy whose bonds are as long as the sums of their radii."""
    scaled = structure.copy()
    scaled.scale_lattice(structure.volume / tightness(structure) ** 3)
    return scaled


def is_estimated(structure: Any) -> bool:
    """Returns whether the volume of a cell is the one that `rescaled` gives; a measured cell has it by chance only."""
    return abs(tightness(structure) - 1) < ESTIMATED
