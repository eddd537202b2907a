"""Similarity of structures from the columns of a table: SMILES, formulas, numbers or labels."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from ase.data import atomic_numbers, chemical_symbols

from sciagent.chemistry.fingerprints_and_families import structure_of
from sciagent.scheduling.array_types import Array, RowIndices
from sciagent.scheduling.law.similarity import OF_TRAITS, GrowingTanimoto, Similarity, radial

_PART = re.compile(r"([A-Z][a-z]?|[()])(\d+(?:\.\d+)?|\.\d+)?")


@dataclass(frozen=True)
class Radial:
    """exp(-|x - x'|² / 2d): points that differ by 1 in each of d numbers have similarity 0.6. points: (n, d)."""

    points: Array

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        return radial(self.points[rows], self.points[columns])


@dataclass(frozen=True)
class Mixed:
    """A weighted mean of similarities; the weights sum to 1."""

    parts: Sequence[Similarity]
    weights: Sequence[float]

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        likeness = np.zeros((len(rows), len(columns)))
        for part, weight in zip(self.parts, self.weights, strict=True):
            likeness += weight * part.between(rows, columns)
        return likeness


class Overlap:
    """sum_i min(a_i, b_i) of fractions of sum 1, such as of elements in a composition. fractions: (n, features)."""

    def __init__(self, fractions: Array) -> None:
        self._fractions = fractions[:, fractions.any(0)]

    def between(self, rows: RowIndices, columns: RowIndices) -> Array:
        likeness = np.zeros((len(rows), len(columns)))
        for column in self._fractions.T:
            likeness += np.minimum(column[rows][:, None], column[columns])
        return likeness


class UnreadableError(ValueError):
    """A text is neither a SMILES nor a formula. place: row of the first such text."""

    def __init__(self, place: int, reason: str) -> None:
        super().__init__(reason)
        self.place = place


def of_identifiers(texts: Sequence[str]) -> Similarity:
    """Returns the similarity of molecules if all texts are SMILES, else the overlap of compositions."""
    structures = [structure_of(text) for text in texts]
    molecules = [structure for structure in structures if structure is not None]
    if len(molecules) == len(texts):
        column: dict[int, int] = {}
        likeness = GrowingTanimoto()
        likeness.add([{column.setdefault(f, len(column)): n for f, n in m.counts.items()} for m in molecules])
        return Mixed((likeness, Radial(np.array([m.traits for m in molecules]))), (1 - OF_TRAITS, OF_TRAITS))
    compositions = [composition(text) for text in texts]
    read = list(filter(None, compositions))
    if len(read) == len(texts):
        return Overlap(np.array([[fractions.get(element, 0.0) for element in chemical_symbols] for fractions in read]))
    are_formulas = len(read) > len(molecules)
    place = compositions.index(None) if are_formulas else structures.index(None)
    kind = "formula" if are_formulas else "SMILES"
    raise UnreadableError(place, f'"{texts[place]}" is no {kind}, as most others are')


def of_features(numbers: Sequence[Array], labels: Sequence[Sequence[str]]) -> Similarity:
    """Returns a radial similarity of numbers, the fraction of equal labels, or their mean weighted by columns. numbers:
    columns of (n,). labels: columns of n texts."""
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
    """Returns the fraction of each element in a formula such as Ca(OH)2 or La0.5Sr0.5MnO3; None for other texts."""
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
            amounts = groups.pop()
        else:
            if not atomic_numbers.get(part):  # "X" has number 0
                return None
            amounts = {part: 1.0}
        for element, x in amounts.items():
            groups[-1][element] = groups[-1].get(element, 0.0) + amount * x
    total = sum(groups[0].values())
    return {element: x / total for element, x in groups[0].items()} if len(groups) == 1 and total > 0 else None
