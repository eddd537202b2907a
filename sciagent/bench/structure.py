"""Likeness of structures from what a table says of them: SMILES, formulas, numbers or labels."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np
from ase.data import atomic_numbers
from scipy.sparse import csr_matrix

from sciagent.chemistry.fingerprint import structure_of
from sciagent.scheduling.arrays import Array
from sciagent.scheduling.law.similarity import OF_TRAITS, CountTanimoto, Mixed, Overlap, Radial, Similarity

_PART = re.compile(r"([A-Z][a-z]?|[()])(\d+(?:\.\d+)?|\.\d+)?")


class UnreadableError(ValueError):
    """place: of the first text that is neither a SMILES nor a formula."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def of_identifiers(texts: Sequence[str]) -> Similarity:
    """Likeness of molecules if all are SMILES, else overlap of compositions."""
    structures = [structure_of(text) for text in texts]
    found = [one for one in structures if one is not None]
    if len(found) == len(texts):
        parts = CountTanimoto(_matrix([one.counts for one in found])), Radial(np.array([one.traits for one in found]))
        return Mixed(parts, (1 - OF_TRAITS, OF_TRAITS))
    fractions = [composition(text) for text in texts]
    read = [one for one in fractions if one is not None]
    if len(read) == len(texts):
        return Overlap(_matrix([{atomic_numbers[e]: x for e, x in one.items()} for one in read]).toarray())
    kind, place = ("formula", fractions.index(None)) if len(read) > len(found) else ("SMILES", structures.index(None))
    raise UnreadableError(place, f'"{texts[place]}" is no {kind}, as most others are')


def of_features(numbers: Sequence[Array], labels: Sequence[Sequence[str]]) -> Similarity:
    """numbers: columns, (n,) each; labels: columns of n texts. Radial of the first, share of equal ones of the second,
    and where there are both, their mean by the number of columns."""
    parts: list[Similarity] = []
    if numbers:
        points = np.column_stack(numbers)
        spread = points.std(0)
        parts.append(Radial((points - points.mean(0)) / np.where(spread > 0, spread, 1.0)))
    if labels:
        columns = [np.unique(np.array(texts), return_inverse=True)[1] for texts in labels]
        parts.append(Overlap(np.hstack([np.eye(places.max() + 1)[places] for places in columns]) / len(labels)))
    if len(parts) == 1:
        return parts[0]
    total = len(numbers) + len(labels)
    return Mixed(parts, [len(numbers) / total, len(labels) / total])


def composition(text: str) -> dict[str, float] | None:
    """Fraction of each element in a formula such as Ca(OH)2 or La0.5Sr0.5MnO3; None if it is none."""
    formula = text.replace("[", "(").replace("]", ")")
    if not re.fullmatch(f"(?:{_PART.pattern})+", formula):
        return None
    groups: list[dict[str, float]] = [{}]
    for part, times in _PART.findall(formula):
        amount = float(times or 1)
        if part == "(":
            if times:
                return None
            groups.append({})
            continue
        if part == ")":
            if len(groups) == 1:
                return None
            found = groups.pop()
        else:
            if not atomic_numbers.get(part):  # "X" is 0
                return None
            found = {part: 1.0}
        for element, x in found.items():
            groups[-1][element] = groups[-1].get(element, 0.0) + amount * x
    total = sum(groups[0].values())
    return {element: x / total for element, x in groups[0].items()} if len(groups) == 1 and total > 0 else None


def _matrix(rows: Sequence[Mapping[int, float]]) -> csr_matrix:
    """(n, features) from what each row has of each feature."""
    of = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    keys = np.fromiter(chain.from_iterable(rows), dtype=np.int64)
    values = np.fromiter(chain.from_iterable(row.values() for row in rows), dtype=np.float64)
    known, columns = np.unique(keys, return_inverse=True)
    return csr_matrix((values, (of, columns)), shape=(len(rows), len(known)))
