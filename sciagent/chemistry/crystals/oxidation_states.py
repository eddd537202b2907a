"""Oxidation states that balance the formula of a crystal.

They come in order, the likeliest first. Each element has one state; if no such
assignment is neutral, one element may have a mean between two of its states, as iron in Fe3O4. Assignments are ranked
by the number of pairs in which the cation is more electronegative than the anion (Pauling's order), then by the number
of unusual states. The states are pymatgen's `common_oxidation_states`, and the states that were found in the ICSD.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from sciagent.chemistry.crystals.bonds import electronegativity

MAX_ASSIGNMENTS = 200_000
"""Largest number of combinations of states that are tried."""
SAME_NEGATIVITY = 0.3
"""Difference of electronegativities up to which the order of two elements does not count; lead telluride has 0.2."""


@dataclass(frozen=True)
class Assignment:
    """Oxidation states that add up to zero."""

    states: Mapping[str, float]
    """State of each element; not whole for an element with a mean of two states."""
    unusual: int
    """Number of elements whose state is known from the ICSD alone or from textbooks alone; an element with a mean of
    two states counts 2."""
    misordered: int
    """Number of pairs in which the cation is more electronegative than the anion."""


def assignment_of(counts: Mapping[str, int]) -> Assignment | None:
    """Returns the likeliest neutral assignment of a formula; None if there is none. counts: atoms by symbol."""
    divisor = math.gcd(*counts.values())
    return _assignment(tuple(sorted((symbol, n // divisor) for symbol, n in counts.items())))


def assignments_of(counts: Mapping[str, int]) -> list[Assignment]:
    """Returns the neutral assignments of a formula in which each element has one known state, the likeliest first.

    counts: atoms by symbol."""
    divisor = math.gcd(*counts.values())
    formula = tuple(sorted((symbol, n // divisor) for symbol, n in counts.items()))
    return sorted(_with_one_state_each(formula), key=_unlikeliness)


@lru_cache(maxsize=1 << 14)
def _assignment(formula: tuple[tuple[str, int], ...]) -> Assignment | None:
    symbols = [symbol for symbol, _ in formula]
    if len(symbols) == 1:
        return Assignment({symbols[0]: 0.0}, unusual=0, misordered=0)
    assignments = _with_one_state_each(formula)
    if not assignments:
        assignments = _with_one_mean_state(formula)
    return min(assignments, key=_unlikeliness, default=None)


def _unlikeliness(assignment: Assignment) -> tuple[int, int, float]:
    """Returns the key by which assignments are ranked, the likeliest first. If all else is equal, smaller states are
    likelier."""
    sum_of_sizes = sum(abs(state) for state in assignment.states.values())
    return assignment.misordered, assignment.unusual, sum_of_sizes


def _with_one_state_each(formula: tuple[tuple[str, int], ...]) -> list[Assignment]:
    """Returns the neutral assignments in which each element has one known state."""
    assignments = []
    combinations = itertools.product(*(known_states(symbol).items() for symbol, _ in formula))
    for combination in itertools.islice(combinations, MAX_ASSIGNMENTS):
        states = [state for state, _ in combination]
        if _charge(states, formula) == 0:
            n_unusual = sum(unusual for _, unusual in combination)
            assignments.append(_assignment_with(formula, states, n_unusual))
    return assignments


def _with_one_mean_state(formula: tuple[tuple[str, int], ...]) -> list[Assignment]:
    """Returns the neutral assignments in which one element has a mean of two neighbouring states of one sign."""
    assignments = []
    for place, (symbol, n) in enumerate(formula):
        others = formula[:place] + formula[place + 1 :]
        combinations = itertools.product(*(known_states(other).items() for other, _ in others))
        own_states = sorted(known_states(symbol))
        for combination in itertools.islice(combinations, MAX_ASSIGNMENTS // len(formula)):
            other_states = [state for state, _ in combination]
            mean = -_charge(other_states, others) / n  # the state that makes the formula neutral
            is_between_two = False
            for low, high in itertools.pairwise(own_states):
                have_one_sign = low * high > 0
                if have_one_sign and low < mean < high:
                    is_between_two = True
            if is_between_two:
                states = [*other_states[:place], mean, *other_states[place:]]
                n_unusual = 2 + sum(unusual for _, unusual in combination)
                assignments.append(_assignment_with(formula, states, n_unusual))
    return assignments


def _charge(states: Sequence[int], formula: tuple[tuple[str, int], ...]) -> int:
    """Returns the sum of the states of all atoms."""
    return sum(state * n for state, (_, n) in zip(states, formula, strict=True))


def _assignment_with(formula: tuple[tuple[str, int], ...], states: Sequence[float], unusual: int) -> Assignment:
    """Returns the assignment of these states, one for each element, with its number of misordered pairs."""
    state_of = {symbol: float(state) for (symbol, _), state in zip(formula, states, strict=True)}
    negativity = {symbol: electronegativity(symbol) or 0.0 for symbol in state_of}
    cations = [symbol for symbol, state in state_of.items() if state > 0]
    anions = [symbol for symbol, state in state_of.items() if state < 0]
    misordered = 0
    for cation in cations:
        for anion in anions:
            if negativity[cation] > negativity[anion] + SAME_NEGATIVITY:
                misordered += 1
    return Assignment(state_of, unusual, misordered)


@cache
def known_states(symbol: str) -> Mapping[int, int]:
    """Returns the oxidation states of an element: the value is 0 for a usual state and 1 for another."""
    from pymatgen.core import Element

    element = Element(symbol)
    common = set(element.common_oxidation_states)
    observed = set(element.icsd_oxidation_states)
    usual = common & observed
    if not usual:  # the sources agree on none
        usual = common or observed
    return {int(state): int(state not in usual) for state in sorted(common | observed) if state}
