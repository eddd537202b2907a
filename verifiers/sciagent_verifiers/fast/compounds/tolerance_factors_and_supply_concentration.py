"""Descriptors of a composition alone: tolerance factors of perovskites, and how few countries the elements come
from.

    t   = (r_A + r_X) / (sqrt(2) (r_B + r_X))                  Goldschmidt; cubic perovskites have about 0.9 to 1
    mu  = r_B / r_X                                            octahedral factor; at least 0.41
    tau = r_X / r_B - n_A (n_A - (r_A / r_B) / ln(r_A / r_B))  Bartel; below 4.18 a perovskite is likely (92 %)

A is the larger cation, with 12 neighbours; B and X have 6. Where the table lacks that number of neighbours, the nearest
one below it is taken. Ions whose radius is unknown have no tolerance factors. Tin(II), which the table lacks, has
1.10 angstrom, an estimate between germanium(II) and lead(II).

Sources: Goldschmidt, Naturwissenschaften 14, 477 (1926); Bartel et al., Sci. Adv. 5, eaav0693 (2019); Shannon, Acta
Cryst. A 32, 751 (1976), radii, from pymatgen.

How few the countries are is told by the Herfindahl-Hirschman index. The index of an element is the sum of the squared
market shares of the countries, in percent: 10,000 for a single country; markets above 2,500 count as highly
concentrated. The index of a compound is the mean by mass. Production is what is mined today, reserve what is known to
be in the ground.

Source: Gaultois et al., Chem. Mater. 25, 2911 (2013), table 1, by data of the U.S. Geological Survey for 2011 (public
domain). The table is read from pymatgen, which ships it under the MIT licence.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from sciagent.chemistry.crystals.cell_building_scaling_and_symmetry import analysis_folder
from sciagent.chemistry.crystals.oxidation_states import assignment_of

ESTIMATED = {("Sn", 2): 1.10}
"""Radii of ions that the table lacks, in angstrom."""
_COORDINATION_NUMBERS = (  # those in Shannon's table, from the largest; IVSQ is square planar
    "XII",
    "XI",
    "X",
    "IX",
    "VIII",
    "VII",
    "VI",
    "V",
    "IVSQ",
    "IV",
    "III",
    "II",
)


@dataclass(frozen=True)
class ToleranceFactors:
    """Factors by which perovskites are told from other structures of ABX3."""

    goldschmidt: float
    octahedral: float
    bartel: float


def tolerance_factors(counts: Mapping[str, int]) -> ToleranceFactors | None:
    """Returns the factors of a compound ABX3; None for other formulas and unknown radii. counts: atoms by symbol."""
    smallest = min(counts.values())
    if sorted(counts.values()) != [smallest, smallest, 3 * smallest]:
        return None
    assignment = assignment_of(counts)
    if assignment is None:
        return None
    states = assignment.states
    [anion] = [symbol for symbol, n in counts.items() if n == 3 * smallest]
    first, second = [symbol for symbol in counts if symbol != anion]
    if states[anion] >= 0:
        return None
    if any(states[cation] <= 0 or not float(states[cation]).is_integer() for cation in (first, second)):
        return None
    r_x = ionic_radius(anion, int(states[anion]), "VI")
    factors = _factors(first, second, r_x, states)
    if factors is None:  # the other cation may be the larger one
        factors = _factors(second, first, r_x, states)
    return factors


def _factors(a: str, b: str, r_x: float | None, states: Mapping[str, float]) -> ToleranceFactors | None:
    """Returns the factors with these cations as A and B; None if A is not the larger one, or for an unknown radius.

    r_x: radius of the anion, angstrom."""
    n_a = int(states[a])
    r_a = ionic_radius(a, n_a, "XII")
    r_b = ionic_radius(b, int(states[b]), "VI")
    if r_a is None or r_b is None or r_x is None:
        return None
    # A has to be larger with the same number of neighbours; radii grow with that number.
    r_a_with_six_neighbours = ionic_radius(a, n_a, "VI") or r_a
    if r_a_with_six_neighbours <= r_b or r_a <= r_b:
        return None
    return ToleranceFactors(
        goldschmidt=(r_a + r_x) / (math.sqrt(2) * (r_b + r_x)),
        octahedral=r_b / r_x,
        bartel=r_x / r_b - n_a * (n_a - (r_a / r_b) / math.log(r_a / r_b)),
    )


@cache
def ionic_radius(symbol: str, state: int, neighbours: str) -> float | None:
    """Returns Shannon's ionic radius in angstrom, high spin where there are two; None if it is unknown.

    neighbours: coordination number as a Roman numeral; the nearest one below it stands in for a missing one.
    """
    from pymatgen.core import Element

    if (symbol, state) in ESTIMATED:
        return ESTIMATED[symbol, state]
    radii_by_number = Element(symbol).data.get("Shannon radii", {}).get(str(state), {})
    first = _COORDINATION_NUMBERS.index(neighbours)
    for number in _COORDINATION_NUMBERS[first:]:
        radii_by_spin = radii_by_number.get(number)
        if radii_by_spin:
            spin = _preferred_spin(list(radii_by_spin))
            return float(radii_by_spin[spin]["ionic_radius"])
    return None


def _preferred_spin(spins: list[str]) -> str:
    """Returns the table's only entry without a spin, else high spin, else the first entry."""
    for spin in ("", "High Spin"):
        if spin in spins:
            return spin
    return spins[0]


class Scarcity(NamedTuple):
    """The index by production and by reserve, 0 to 10,000."""

    production: float
    reserve: float


def scarcity(counts: Mapping[str, int]) -> Scarcity | None:
    """Returns the index of a compound; None if an element is not in the table. counts: atoms by symbol."""
    table = _scarcity_table()
    if not counts.keys() <= table.keys():
        return None
    masses = {symbol: n * _mass(symbol) for symbol, n in counts.items()}
    total = sum(masses.values())
    production = sum(mass * table[symbol].production for symbol, mass in masses.items()) / total
    reserve = sum(mass * table[symbol].reserve for symbol, mass in masses.items()) / total
    return Scarcity(production, reserve)


@cache
def _scarcity_table() -> Mapping[str, Scarcity]:
    """Returns {symbol: the index of the element}."""
    with (analysis_folder() / "hhi_data.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == 3 and not row[0].startswith("#")]
    return {symbol.strip(): Scarcity(float(production), float(reserve)) for symbol, production, reserve in rows}


@cache
def _mass(symbol: str) -> float:
    from pymatgen.core import Element

    return float(Element(symbol).atomic_mass)


def known_elements(symbols: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the symbols. Raises ValueError for one that is no element."""
    from rdkit import Chem

    known = {Chem.GetPeriodicTable().GetElementSymbol(number) for number in range(1, 119)}
    unknown = [symbol for symbol in symbols if symbol not in known]
    if unknown:
        raise ValueError(f"not an element: {', '.join(unknown)}")
    return symbols
