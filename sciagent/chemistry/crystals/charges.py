"""Oxidation states that balance a formula, the likeliest first.

Each element has one state; if no such assignment is neutral, one element may have a mean between two of its states, as
iron in Fe3O4. States are ranked by how many are unusual, and assignments after those in which the anions are the more
electronegative elements (Pauling's order).

States: pymatgen's `common_oxidation_states` and those found in the ICSD.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from sciagent.chemistry.crystals.contacts import electronegativity

MAX_ASSIGNMENTS = 200_000
"""Largest number of assignments that are looked at."""
ALIKE = 0.3
"""Difference of electronegativities up to which the order of two elements does not count; lead telluride has 0.2."""


@dataclass(frozen=True)
class Assignment:
    """Oxidation states that add up to zero."""

    states: Mapping[str, float]
    """State of each element; not whole for an element with a mean of two states."""
    unusual: int
    """Number of elements whose state is only known from the ICSD or only from textbooks, 2 for a mean of two states."""
    misordered: int
    """Number of pairs in which the cation is more electronegative than the anion."""


def assignment_of(counts: Mapping[str, int]) -> Assignment | None:
    """Returns the likeliest neutral assignment of a formula; None if there is none. counts: atoms by symbol."""
    divisor = math.gcd(*counts.values())
    return _assignment(tuple(sorted((symbol, n // divisor) for symbol, n in counts.items())))


@lru_cache(maxsize=1 << 14)
def _assignment(formula: tuple[tuple[str, int], ...]) -> Assignment | None:
    symbols = [symbol for symbol, _ in formula]
    if len(symbols) == 1:
        return Assignment({symbols[0]: 0.0}, 0, 0)
    found = _whole(formula) or _mixed(formula)
    return min(found, key=lambda a: (a.misordered, a.unusual, _spread(a)), default=None)


def _spread(assignment: Assignment) -> float:
    """Returns the sum of the sizes of the states: the smaller ones are likelier."""
    return sum(map(abs, assignment.states.values()))


def _whole(formula: tuple[tuple[str, int], ...]) -> list[Assignment]:
    combinations = itertools.product(*(known_states(symbol).items() for symbol, _ in formula))
    return [
        _made(formula, [state for state, _ in chosen], sum(unusual for _, unusual in chosen))
        for chosen in itertools.islice(combinations, MAX_ASSIGNMENTS)
        if sum(state * n for (state, _), (_, n) in zip(chosen, formula, strict=True)) == 0
    ]


def _mixed(formula: tuple[tuple[str, int], ...]) -> list[Assignment]:
    found = []
    for place, (symbol, n) in enumerate(formula):
        others = formula[:place] + formula[place + 1 :]
        combinations = itertools.product(*(known_states(other).items() for other, _ in others))
        states = sorted(known_states(symbol))
        for chosen in itertools.islice(combinations, MAX_ASSIGNMENTS // len(formula)):
            mean = -sum(state * m for (state, _), (_, m) in zip(chosen, others, strict=True)) / n
            if any(low < mean < high and low * high > 0 for low, high in itertools.pairwise(states)):
                values: list[float] = [state for state, _ in chosen]
                values.insert(place, mean)
                found.append(_made(formula, values, 2 + sum(unusual for _, unusual in chosen)))
    return found


def _made(formula: tuple[tuple[str, int], ...], states: list[float] | list[int], unusual: int) -> Assignment:
    named = {symbol: float(state) for (symbol, _), state in zip(formula, states, strict=True)}
    pairs = [(a, b) for a in named for b in named if named[a] > 0 > named[b]]
    values = {symbol: electronegativity(symbol) for symbol in named}
    misordered = sum((values[a] or 0.0) > (values[b] or 0.0) + ALIKE for a, b in pairs)
    return Assignment(named, unusual, misordered)


@cache
def known_states(symbol: str) -> Mapping[int, int]:
    """Returns the oxidation states of an element, with 0 for usual ones and 1 for others."""
    from pymatgen.core import Element

    element = Element(symbol)
    common, observed = set(element.common_oxidation_states), set(element.icsd_oxidation_states)
    usual = common & observed or common or observed
    return {int(state): int(state not in usual) for state in sorted(common | observed) if state}
