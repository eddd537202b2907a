"""`evolve`: seeds first, then the genetic search of `genetic` over what scored best so far.

The population is read from the ledger at each turn, the best by score through an index, never all candidates; which
operators were used is kept in the cursor. A turn thus depends on its seed, its cursor and what the ledger holds, on
nothing else, and no worker waits for a generation to end. What the campaign knows already is not proposed again.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from sciagent.agent.proposers.genetic import KEEP, POPULATION, GeneticSearch
from sciagent.chemistry.editing.edits import ANY, EditLimits
from sciagent.chemistry.molecule import parse_molecule
from sciagent.chemistry.structure_files import read_structures
from sciagent.domain.ports import ProposalIn, Turn, Workbench
from sciagent.errors import InvalidCandidateError

STAND_IN = 200  # seeds, at most, that breed beside what is scored while few are


class Evolve:
    """limits: what a child may be; what the ladder's checks would refuse is not worth a proposal."""

    name = "evolve"
    total: int | None = None  # it goes on as long as it is asked

    def __init__(self, seeds: Path, *, column: str = "smiles", limits: EditLimits = ANY) -> None:
        self._seeds = [r.text for r in read_structures(seeds, column)]
        self._limits = limits

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> dict[str, Any] | None:
        """At most `limit` children, fewer if the tries run out; None only without any molecule to start from."""
        offset = int(turn.cursor.get("seeds", 0))
        if offset < len(self._seeds):
            batch = self._seeds[offset : offset + limit]
            workbench.propose([ProposalIn(s, operation="seed") for s in batch])
            return {"seeds": offset + len(batch)}
        search = GeneticSearch(limits=self._limits, known=_Known(workbench), made=turn.cursor.get("made"))
        scored = workbench.best(POPULATION * KEEP)
        for one in scored:
            search.tell(one.text, one.score, one.operation, number=one.seq)
        if len(scored) < min(len(self._seeds), STAND_IN):
            for text in self._valid_seeds():
                search.tell(text, 0.0, "seed")
        if not search.population():
            return None
        children = search.ask(limit, random.Random(turn.seed))
        workbench.propose([ProposalIn(c.smiles, parents=c.parents, operation=c.operation) for c in children])
        return {"seeds": offset, "made": {name: round(n, 3) for name, n in search.made.items() if n}}

    def _valid_seeds(self) -> list[str]:
        found = []
        for text in self._seeds[:STAND_IN]:
            try:
                found.append(parse_molecule(text).smiles)
            except InvalidCandidateError:
                continue
        return found


class _Known:
    """Whether a child is not worth proposing: no candidate, in the campaign already, or one of this turn already."""

    def __init__(self, workbench: Workbench) -> None:
        self._workbench = workbench
        self._keys: set[str] = set()

    def __call__(self, smiles: str) -> bool:
        try:
            key = parse_molecule(smiles).key
        except InvalidCandidateError:
            return True
        if key in self._keys or self._workbench.known(key):
            return True
        self._keys.add(key)
        return False
