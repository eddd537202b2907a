"""Prototypes in which the elements of a chemical system compete with a crystal: pairs and triples, not yet relaxed.

A pair is decorated in those of BINARIES in which whole oxidation states balance; an alloy, or another pair without
such a prototype, in all of them. MORE_BINARIES and TERNARIES are the structures of common compounds that the ten do not
have: without them anatase, MoS2, LiCoO2 or a perovskite with tilted octahedra lie below all known phases, and a cubic
perovskite seems stable whose octahedra would tilt. They are decorated only where whole oxidation states balance, and
where ions of such charges have the structure. Several sets of states may balance a triple, as Sn(II) Mn(IV) and Sn(IV)
Mn(II) do in SnMnO3: each set that is as usual as the likeliest counts. Copper of CuFeO2 would be Cu(II) by the usual
states, but an ion with two neighbours has the charge 1 in a delafossite, palladium and platinum, too.

Other ternary compounds and all with four and more elements are not among them (`not_compared`).

Sources: the prototypes are those of `prototypes_and_same_structures`; Muller and Roy, The Major Ternary Structural
Families (1974), for the charges of spinels, layered ABX2 and delafossites.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

from sciagent.errors import InvalidCandidateError

BINARIES = (
    "rocksalt", "CsCl", "zincblende", "NiAs", "fluorite", "rutile", "CdI2", "antifluorite", "corundum", "BiI3",
)  # fmt: skip
"""Prototypes of AX, AX2, A2X, A2X3 and AX3, with the more electropositive element as A."""
MORE_BINARIES: Mapping[str, frozenset[str]] = {
    "wurtzite": frozenset(),
    "anatase": frozenset({"O"}),
    "MoS2": frozenset({"S", "Se", "Te"}),
}
"""Further prototypes of pairs, each with the anions that it takes; none for any."""
TERNARIES = ("orthorhombic-perovskite", "spinel", "alpha-NaFeO2", "delafossite")
"""Prototypes of triples; the first is the perovskite with tilted octahedra."""
LINEAR_IONS = frozenset({"Cu", "Ag", "Pd", "Pt"})
"""Elements that have two neighbours in delafossites."""
NO_CATIONS = frozenset({"H", "C", "N", "P", "O", "S", "Se", "F", "Cl", "Br", "I"})
"""Elements that are no cations of TERNARIES; their ions of positive charge lie within complex anions."""
TOO_LARGE_FOR_SPINELS = frozenset(["K", "Rb", "Cs", "Sr", "Ba", "Tl", "Pb", "La", "Ce", "Pr", "Nd", "Sm", "Eu", "Gd"])
"""Elements whose ions are too large for the places of a spinel."""
MAX_SPINEL_STATE = 4
"""Largest oxidation state of the first ion of a spinel."""


def not_compared(n_elements: int, with_ternaries: bool = True) -> str:
    """Returns which phases of a system with this number of elements are not among the decorated ones, in words.

    with_ternaries: whether MORE_BINARIES and TERNARIES are decorated, besides BINARIES."""
    if n_elements == 1:
        return "other structures of the element"
    lacking = "binaries in other prototypes"
    if n_elements > 2 and with_ternaries:
        lacking += ", ternaries other than tilted perovskites, spinels, layered ABX2 and delafossites"
    elif n_elements > 2:
        lacking += ", ternaries"
    if n_elements > 3:
        lacking += ", compounds of four and more elements"
    return lacking


def decorated_pairs(system: Collection[str]) -> list[tuple[str, str]]:
    """Returns the pairs of elements of a system that are decorated.

    In a system of metals only, these are all pairs. In a system with a non-metal, two metals are decorated only if they
    make a salt."""
    from sciagent.chemistry.crystals.bonds import is_metal

    metals = {symbol for symbol in system if is_metal(symbol)}
    pairs = list(combinations(sorted(system), 2))
    if metals == set(system):
        return pairs
    return [pair for pair in pairs if not metals.issuperset(pair) or balanced(pair)]


@lru_cache(maxsize=4096)
def balanced(pair: tuple[str, str], names: tuple[str, ...] = BINARIES) -> tuple[str, ...]:
    """Returns the prototypes in which whole oxidation states of the two elements add up to zero."""
    return tuple(label for label, structure in _decorated(pair, names) if _whole_states(structure) is not None)


def pair_phases(pair: tuple[str, str]) -> list[tuple[str, Any]]:
    """Returns (prototype, pymatgen Structure) of a pair of elements in BINARIES."""
    return _decorated(pair, balanced(pair) or BINARIES)


def further_phases(symbols: Sequence[str]) -> list[tuple[str, Any]]:
    """Returns (prototype, pymatgen Structure) of two elements in MORE_BINARIES, or of three in TERNARIES."""
    if len(symbols) == 2:
        return _further_pair_phases((symbols[0], symbols[1]))
    *cations, anion = _by_electronegativity(symbols)
    starts = []
    for prototype in TERNARIES:
        for first, second in permutations(cations):
            structure = _structure(prototype, (first, second, anion))
            if structure is None:
                continue
            sets_of_states = _sets_of_states(structure, anion)
            if prototype == "delafossite" and first in LINEAR_IONS:
                sets_of_states.extend(_states_in_delafossite(first, second, anion))
            if any(_has_structure(prototype, first, second, states) for states in sets_of_states):
                starts.append((prototype, structure))
    return starts


def _further_pair_phases(pair: tuple[str, str]) -> list[tuple[str, Any]]:
    anion = _by_electronegativity(pair)[-1]
    names = [name for name, anions in MORE_BINARIES.items() if not anions or anion in anions]
    return _decorated(pair, balanced(pair, tuple(names)))


def _has_structure(prototype: str, first: str, second: str, states: Mapping[str, float]) -> bool:
    """Returns whether ions of these charges have a prototype of TERNARIES, with `first` on its first place."""
    from sciagent.chemistry.crystals.bonds import radius

    charges = (states[first], states[second])
    if min(charges) <= 0 or NO_CATIONS & {first, second}:
        return False
    if prototype == "orthorhombic-perovskite":  # the larger ion, which has the smaller charge, lies between octahedra
        return charges[0] < charges[1] or (charges[0] == charges[1] and radius(first) >= radius(second))
    if prototype == "spinel":
        return charges[0] <= MAX_SPINEL_STATE and not TOO_LARGE_FOR_SPINELS & {first, second}
    if prototype == "delafossite" and first not in LINEAR_IONS:
        return False
    return charges == (1, 3)


def _whole_states(structure: Any) -> Mapping[str, float] | None:
    """Returns the oxidation states that balance a structure's formula; None if there are none, or not whole ones."""
    from sciagent.chemistry.crystals.oxidation_states import assignment_of

    assignment = assignment_of(_counts(structure))
    # in a misordered pair the cation would be more electronegative than the anion
    if assignment is None or assignment.misordered != 0:
        return None
    are_whole = all(state.is_integer() for state in assignment.states.values())
    return assignment.states if are_whole else None


def _sets_of_states(structure: Any, anion: str) -> list[Mapping[str, float]]:
    """Returns the sets of whole oxidation states that balance a triple's formula, all as usual as the likeliest."""
    from sciagent.chemistry.crystals.oxidation_states import assignments_of

    sets_of_states = []
    likeliest_first = assignments_of(_counts(structure))
    for assignment in likeliest_first:
        is_as_usual = assignment.unusual == likeliest_first[0].unusual
        if is_as_usual and assignment.misordered == 0 and assignment.states[anion] < 0:
            sets_of_states.append(assignment.states)
    return sets_of_states


def _states_in_delafossite(first: str, second: str, anion: str) -> list[Mapping[str, float]]:
    """Returns the states 1, 3 and -2 if the second ion and the anion have them; the first is one of LINEAR_IONS."""
    from sciagent.chemistry.crystals.oxidation_states import known_states

    is_possible = 3 in known_states(second) and -2 in known_states(anion)
    return [{first: 1.0, second: 3.0, anion: -2.0}] if is_possible else []


def _counts(structure: Any) -> dict[str, int]:
    """Returns the atoms of a pymatgen Structure by symbol."""
    return {symbol: int(n) for symbol, n in structure.composition.get_el_amt_dict().items()}


def _decorated(symbols: Sequence[str], names: Sequence[str]) -> list[tuple[str, Any]]:
    """Returns (prototype, pymatgen Structure) of a pair of elements in each of these prototypes that takes them."""
    ordered = _by_electronegativity(symbols)
    structures = [(prototype, _structure(prototype, ordered)) for prototype in names]
    return [(prototype, structure) for prototype, structure in structures if structure is not None]


def _structure(prototype: str, elements: Sequence[str]) -> Any | None:
    """Returns the pymatgen Structure of a prototype with these elements; None if it does not take them."""
    from sciagent.chemistry.crystals.prototypes_and_same_structures import decorated

    with contextlib.suppress(InvalidCandidateError):
        return decorated(prototype, elements).structure
    return None


def _by_electronegativity(symbols: Collection[str]) -> list[str]:
    """Returns the elements, the most electropositive one first."""
    from sciagent.chemistry.crystals.bonds import electronegativity

    return sorted(symbols, key=lambda symbol: electronegativity(symbol) or 0.0)
