"""The genetic search, independent of campaigns: `tell` adds a score, `ask` returns children.

The search is steady-state: each child is bred from the current population, without generations. The population holds
the best molecules by score, with at most PER_SCAFFOLD per Murcko scaffold, so that no series takes it over. Parents are
drawn by rank, half of them from the best sqrt(n): p(rank r of n) ~ log((r + 2) / (r + 1)). Operators are drawn by how
many of their children survived (`operators`).

Memory is bounded: at most `KEEP` times the population is remembered. The same seed, scores and order of calls give the
same children.
"""

from __future__ import annotations

import bisect
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sciagent.agent.proposers.operators import OperatorChoice, decay
from sciagent.chemistry.editing.edits import ANY, CROSSOVERS, OPERATIONS, EditLimits, crossover, mutate

POPULATION = 200
PER_SCAFFOLD = 20
KEEP = 5  # remembered members per place in the population
TRIES_PER_CHILD = 30
# weights of the first draws; other operators have 1. Common steps of synthesis are drawn most; edits of single atoms
# and bonds must first succeed.
SHARES = {
    "chain crossover": 4.0,
    "add substituent to a saturated atom": 0.5,
    "append atom": 0.5,
    "insert atom": 0.5,
    "take out atom": 0.5,
    "change element": 0.5,
    "change bond order": 0.5,
    "open ring": 0.25,
    "close ring": 0.5,
}
SECOND_EDIT = 0.15  # fraction of the children that are edited twice


@dataclass(frozen=True)
class Child:
    """A molecule that the search proposes for scoring."""

    smiles: str
    operation: str
    parents: tuple[str, ...]
    """SMILES of the parents."""


@dataclass(frozen=True)
class Member:
    """A scored molecule."""

    smiles: str
    score: float
    operation: str
    number: int
    """Position in the order of arrival."""


class GeneticSearch:
    """A search for molecules with a high score.

    limits: bounds on the children. known: returns whether a SMILES must not be proposed; remembered SMILES are excluded
    anyway. made: operator counts of an earlier search to continue from (`made`).
    """

    def __init__(
        self,
        *,
        limits: EditLimits = ANY,
        known: Callable[[str], bool] = lambda smiles: False,
        made: Mapping[str, float] | None = None,
    ) -> None:
        self._limits, self._known = limits, known
        self._operators = OperatorChoice({name: SHARES.get(name, 1.0) for name in (*OPERATIONS, *CROSSOVERS)}, made)
        self._members: list[Member] = []  # sorted, best first
        self._texts: set[str] = set()
        self._latest = -1

    @property
    def made(self) -> dict[str, float]:
        """Decayed number of children by operator; the argument `made` of a later search."""
        return dict(self._operators.made)

    def tell(self, smiles: str, score: float, operation: str = "", *, number: int | None = None) -> None:
        """Adds the score of a canonical SMILES; higher is better. A repeated SMILES is ignored.

        number: position in the order of arrival; by default the order of the calls.
        """
        number = self._latest + 1 if number is None else number
        self._latest = max(self._latest, number)
        if smiles in self._texts:
            return
        bisect.insort(self._members, Member(smiles, score, operation, number), key=lambda m: (-m.score, m.number))
        self._texts.add(smiles)
        if len(self._members) > KEEP * POPULATION:
            self._texts.discard(self._members.pop().smiles)

    def population(self) -> list[Member]:
        """Returns the members, best first: at most PER_SCAFFOLD per scaffold, POPULATION in all."""
        of_scaffold: Counter[str] = Counter()
        chosen: list[Member] = []
        for member in self._members:
            scaffold = scaffold_of(member.smiles)
            of_scaffold[scaffold] += 1
            if of_scaffold[scaffold] <= PER_SCAFFOLD:
                chosen.append(member)
                if len(chosen) == POPULATION:
                    break
        return chosen

    def ask(self, n: int, rng: random.Random) -> list[Child]:
        """Returns at most n children, all different and unknown; fewer if the tries run out."""
        members = self.population()
        if not members:
            return []
        weights = self._operators.weights(_kept(members, self._latest))
        parents = [m.smiles for m in members]
        children: dict[str, Child] = {}
        for _ in range(n * TRIES_PER_CHILD):
            if len(children) == n:
                break
            operation = self._operators.draw(rng, weights)
            child = self._breed(operation, parents, weights, rng)
            if child is None or child.smiles in children or child.smiles in self._texts or self._known(child.smiles):
                continue
            children[child.smiles] = child
            self._operators.count(operation)
        return list(children.values())

    def _breed(
        self, operation: str, parents: Sequence[str], weights: Sequence[float], rng: random.Random
    ) -> Child | None:
        mother = parents[rank(len(parents), rng)]
        if operation in CROSSOVERS:
            father = parents[rank(len(parents), rng)]
            parents_used: tuple[str, ...] = (mother, father)
            edited = crossover(mother, father, rng, operations=(operation,), limits=self._limits)
        else:
            parents_used = (mother,)
            edited = mutate(mother, rng, operations=(operation,), limits=self._limits)
        if edited is not None and rng.random() < SECOND_EDIT:
            second = self._operators.draw(rng, weights)
            if second not in CROSSOVERS:
                edited = mutate(edited[0], rng, operations=(second,), limits=self._limits) or edited
        return None if edited is None else Child(edited[0], operation, parents_used)


def rank(n: int, rng: random.Random) -> int:
    """Returns a rank in 0 … n - 1 with p(r) = log((r + 2) / (r + 1)) / log(n + 1): each doubling is equally likely."""
    return min(int((n + 1) ** rng.random()) - 1, n - 1)


def _kept(members: Sequence[Member], now: int) -> dict[str, float]:
    """Returns the weight of the surviving members by operator: 2 for the best, down to 0, decayed by age."""
    kept: dict[str, float] = {}
    for place, member in enumerate(members):
        worth = 2 * (1 - place / len(members)) * decay(now - member.number)
        kept[member.operation] = kept.get(member.operation, 0.0) + worth
    return kept


@lru_cache(maxsize=20_000)
def scaffold_of(smiles: str) -> str:
    """Returns the Murcko scaffold as SMILES, without stereochemistry. Molecules without rings are grouped by size."""
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold

    mol: Any = Chem.MolFromSmiles(smiles)
    if mol is None:
        return ""
    Chem.RemoveStereochemistry(mol)
    murcko: Any = MurckoScaffold
    scaffold = Chem.MolToSmiles(murcko.GetScaffoldForMol(mol))
    return scaffold or f"{mol.GetNumHeavyAtoms()} atoms without a ring"
