"""The oracle that both searches call, and the area under the curve of what they find.

A call is counted when a canonical SMILES is scored for the first time; asking again is free, for either search.
"""

from __future__ import annotations

import gzip
import heapq
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

from rdkit import Chem, rdBase

STEP = 100  # calls between two points of a curve
TOP = 10


class BudgetSpentError(Exception):
    """The last call was used."""


class Oracle:
    """Scores SMILES until `budget` different molecules were scored, then raises BudgetSpentError."""

    def __init__(self, objective: Callable[[str], float], budget: int) -> None:
        self._silence = rdBase.BlockLogs()  # as long as it lives: what searches write is not always a molecule
        self._objective = objective
        self._budget = budget
        self._scores: dict[str, float] = {}
        self._top: list[float] = []
        self.curve: list[float] = []  # mean of the best ten after 100, 200, … calls
        self.trace: list[float] = []  # every score, in the order of the calls

    @property
    def calls(self) -> int:
        return len(self._scores)

    def known(self, smiles: str) -> bool:
        """Whether this canonical SMILES was scored."""
        return smiles in self._scores

    def score(self, smiles: str) -> float:
        mol = Chem.MolFromSmiles(smiles)
        if mol is None or mol.GetNumAtoms() == 0:
            return 0.0
        text = Chem.MolToSmiles(mol)
        if text not in self._scores:
            if self.calls >= self._budget:
                raise BudgetSpentError
            value = self._objective(text)
            self._scores[text] = value
            self.trace.append(value)
            if len(self._top) < TOP:
                heapq.heappush(self._top, value)
            else:
                heapq.heappushpop(self._top, value)
            if self.calls % STEP == 0:
                self.curve.append(sum(self._top) / len(self._top))
        return self._scores[text]

    def best(self, n: int) -> list[tuple[str, float]]:
        return heapq.nlargest(n, self._scores.items(), key=lambda item: item[1])


def auc(curve: Sequence[float], budget: int) -> float:
    """Area under the mean of the best ten against the number of calls, divided by the budget: in [0, 1].

    curve[i]: the mean after STEP * (i + 1) calls; the curve starts at (0, 0) and is joined by straight lines; a run
    that ended early goes on with its last value.

    Source: Gao, Fu, Sun, Coley, NeurIPS Datasets and Benchmarks 2022, section 2; the code published with it.
    """
    points = [0.0, *curve[: budget // STEP]]
    area = sum((a + b) / 2 * STEP for a, b in pairwise(points))
    return (area + points[-1] * (budget - STEP * (len(points) - 1))) / budget


def start_set(file: Path, seed: int, n: int) -> list[str]:
    """n different molecules of a list (`.csv[.gz]` or `.smi[.gz]`, SMILES first), drawn by the seed, canonical.

    Raises ValueError if the list has fewer.
    """
    opener = gzip.open if file.suffix == ".gz" else open
    with opener(file, "rt", encoding="utf-8") as stream:
        lines = [line.split(",")[0].split()[0] for line in stream if line.strip()]
    rng = random.Random(seed)
    rng.shuffle(lines)
    found: dict[str, None] = {}
    for line in lines:
        mol = None if line.lower() == "smiles" else Chem.MolFromSmiles(line)
        if mol is not None:
            found[Chem.MolToSmiles(mol)] = None
        if len(found) == n:
            return list(found)
    raise ValueError(f"{file}: {len(found)} molecules; {n} are needed")
