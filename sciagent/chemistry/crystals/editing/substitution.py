"""Substitutes of an element, weighted by how often known compounds of one structure exchange their ions.

An ion is only exchanged for one of the same charge. Where the charge is unknown or unlisted, as in an alloy, all
charges of the element count.

Source: Hautier et al., Inorg. Chem. 50, 656 (2011); the weights are those of pymatgen-core.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from sciagent.chemistry.crystal import Crystal
from sciagent.chemistry.crystals.charges import assignment_of
from sciagent.chemistry.crystals.contacts import is_metal

_ION = re.compile(r"([A-Z][a-z]?)(\d*)([+-])")
_DATA = "structure_prediction/data/lambda.json"


def substitutes(crystal: Crystal, symbol: str) -> Mapping[str, float]:
    """Returns weights of the elements that replace an element of a crystal, the heaviest first; the sum is 1."""
    counts = {one: crystal.species.count(one) for one in crystal.species}
    assignment = None if all(map(is_metal, counts)) else assignment_of(counts)
    state = assignment.states[symbol] if assignment else 0.0
    charge = int(state) if state and state == int(state) else None
    others = frozenset(counts) - {symbol}
    return _species_weights(symbol, charge, others) or _species_weights(symbol, None, others)


@lru_cache(maxsize=4096)
def _species_weights(symbol: str, charge: int | None, others: frozenset[str]) -> Mapping[str, float]:
    weights: defaultdict[str, float] = defaultdict(float)
    for (first, second, ion_charge), weight in _exchanges().items():
        if first == symbol and second != symbol and second not in others and charge in (None, ion_charge):
            weights[second] += weight
    total = sum(weights.values())
    return {name: weights[name] / total for name in sorted(weights, key=lambda name: (-weights[name], name))}


@cache
def _exchanges() -> Mapping[tuple[str, str, int], float]:
    """Returns exp(lambda) of pairs of ions of one charge, in both directions, as (symbol, other symbol, charge)."""
    spec = importlib.util.find_spec("pymatgen.core")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("pymatgen.core")
    rows = json.loads((Path(spec.origin).parent / _DATA).read_text(encoding="utf-8"))
    found: dict[tuple[str, str, int], float] = {}
    for first, second, weight in rows:
        ions = _ion(first), _ion(second)
        if None in ions or ions[0][1] != ions[1][1]:  # type: ignore[index]
            continue
        (a, charge), (b, _) = ions  # type: ignore[misc]
        found[a, b, charge] = found[b, a, charge] = math.exp(float(weight))
    return found


def _ion(text: str) -> tuple[str, int] | None:
    """Returns the element and the charge of `Na1+`; None for other texts, such as dummy ions."""
    known = _ION.fullmatch(text)
    return (known[1], int(known[2] or 1) * (1 if known[3] == "+" else -1)) if known else None
