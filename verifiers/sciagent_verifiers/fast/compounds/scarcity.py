"""The Herfindahl-Hirschman index of a compound: how few countries its elements come from.

The index of an element is the sum of the squared market shares of the countries, in percent: 10,000 for a single
country; markets above 2,500 count as highly concentrated. That of a compound is the mean by mass. Production is what is
mined today, reserve what is known to be in the ground.

Source: Gaultois et al., Chem. Mater. 25, 2911 (2013), table 1, by data of the U.S. Geological Survey for 2011 (public
domain). The table is read from pymatgen, which ships it under the MIT licence.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from sciagent.chemistry.crystals.cells import analysis_folder


class Scarcity(NamedTuple):
    """The index by production and by reserve, 0 to 10,000."""

    production: float
    reserve: float


def scarcity(counts: Mapping[str, int]) -> Scarcity | None:
    """Returns the index of a compound; None if an element is not in the table. counts: atoms by symbol."""
    if not counts.keys() <= _table().keys():
        return None
    masses = {symbol: n * _mass(symbol) for symbol, n in counts.items()}
    total = sum(masses.values())
    production, reserve = (sum(m * _table()[s][i] for s, m in masses.items()) / total for i in (0, 1))
    return Scarcity(production, reserve)


@cache
def _table() -> Mapping[str, tuple[float, float]]:
    with (analysis_folder() / "hhi_data.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == 3 and not row[0].startswith("#")]
    return {symbol.strip(): (float(production), float(reserve)) for symbol, production, reserve in rows}


@cache
def _mass(symbol: str) -> float:
    from pymatgen.core import Element

    return float(Element(symbol).atomic_mass)
