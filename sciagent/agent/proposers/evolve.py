"""`evolve`: seeds first, then graph edits and crossover of what scored best so far.

Parents are drawn by rank from the best of the ledger; a child that the campaign knows already is not proposed again.
A turn depends on its seed and on what the ledger holds, on nothing else.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sciagent.agent.proposers.files import read_structures
from sciagent.chemistry.edits import crossover, mutate
from sciagent.chemistry.molecule import parse_molecule
from sciagent.domain.ports import ProposalIn, Turn, Workbench
from sciagent.errors import InvalidCandidateError

PARENTS = 40  # of the best, how many may breed
TRIES_PER_CHILD = 30
RANK_DECAY = 0.93  # weight of rank k is RANK_DECAY**k


class Evolve:
    name = "evolve"

    def __init__(
        self, seeds: Path, *, column: str = "smiles", crossover_rate: float = 0.25, max_heavy_atoms: int = 60
    ) -> None:
        self._seeds = [r.text for r in read_structures(seeds, column)]
        self._crossover_rate = crossover_rate
        self._max_heavy_atoms = max_heavy_atoms

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> dict[str, Any] | None:
        """At most `limit` children, fewer if the tries run out; None never: an evolution has no end of its own."""
        offset = int(turn.cursor.get("seeds", 0))
        if offset < len(self._seeds):
            batch = self._seeds[offset : offset + limit]
            workbench.propose([ProposalIn(s, operation="seed") for s in batch])
            return {"seeds": offset + len(batch)}
        rng = random.Random(turn.seed)
        pool = [s.text for s in workbench.best(PARENTS)] or self._valid_seeds()
        if not pool:
            return None
        children: dict[str, ProposalIn] = {}
        for _ in range(limit * TRIES_PER_CHILD):
            if len(children) == limit:
                break
            made = self._child(pool, rng)
            if made is not None and made[0] not in children and not workbench.known(made[0]):
                children[made[0]] = made[1]
        workbench.propose(list(children.values()))
        return {"seeds": offset}

    def _child(self, pool: Sequence[str], rng: random.Random) -> tuple[str, ProposalIn] | None:
        """(key, proposal) of one child, or None if the edit did not give a molecule."""
        mother = _by_rank(pool, rng)
        parents: tuple[str, ...] = (mother,)
        made: tuple[str, str] | None = None
        if rng.random() < self._crossover_rate:
            father = _by_rank(pool, rng)
            parents, crossed = (mother, father), crossover(mother, father, rng)
            made = None if crossed is None else (crossed, "crossover")
        if made is None:
            parents, made = (mother,), mutate(mother, rng)
        if made is None:
            return None
        try:
            child = parse_molecule(made[0])
        except InvalidCandidateError:
            return None
        if child.heavy_atoms > self._max_heavy_atoms:
            return None
        return child.key, ProposalIn(child.smiles, parents=parents, operation=made[1])

    def _valid_seeds(self) -> list[str]:
        found = []
        for text in self._seeds:
            try:
                found.append(parse_molecule(text).smiles)
            except InvalidCandidateError:
                continue
        return found


def _by_rank(pool: Sequence[str], rng: random.Random) -> str:
    return rng.choices(pool, weights=[RANK_DECAY**k for k in range(len(pool))])[0]
