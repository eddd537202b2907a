"""`evolve`: proposes the seeds first, then the children of a genetic search over the best candidates so far.

Each turn reads the population from the ledger, through an index on the score; the cursor keeps the operator counts. A
turn therefore depends only on its seed, its cursor and the ledger, and there are no generations to wait for. Known
candidates are not proposed again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sciagent.agent.proposers.genetic import KEEP, POPULATION, GeneticSearch
from sciagent.chemistry.editing.edits import ANY, EditLimits
from sciagent.chemistry.molecule import molecule_or_none
from sciagent.chemistry.structure_files import read_structures
from sciagent.domain.campaigns.ports import ProposalIn, Turn, Workbench

STAND_IN = 200  # largest number of unscored seeds that join the population while few candidates are scored


class Evolve:
    """Proposes the seeds of a file, then children within the edit limits that fit the ladder's checks."""

    name = "evolve"
    total: int | None = None  # unlimited: it proposes for as long as it is called

    def __init__(
        self, seeds: Path, *, column: str = "smiles", limits: EditLimits = ANY, keep: Sequence[str] | None = None
    ) -> None:
        self._seeds = list(read_structures(seeds, column, keep=keep))
        self._limits = limits

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next seeds, or at most `limit` children. Returns None if there is no molecule to start from."""
        offset = int(turn.cursor.get("seeds", 0))
        if offset < len(self._seeds):
            batch = self._seeds[offset : offset + limit]
            workbench.propose([ProposalIn(seed.text, operation="seed", names=seed.names) for seed in batch])
            return {"seeds": offset + len(batch)}
        seen: set[str] = set()

        def is_known(smiles: str) -> bool:
            """Returns whether a child is invalid, misses a gate, or is already in the campaign or in this turn."""
            if (molecule := molecule_or_none(smiles)) is None:
                return True
            known = molecule.key in seen or bool(workbench.missed_gate(molecule)) or workbench.known(molecule)
            seen.add(molecule.key)
            return known

        search = GeneticSearch(limits=self._limits, known=is_known, made=turn.cursor.get("made"))
        scored = workbench.best(POPULATION * KEEP)
        for member in scored:
            search.tell(member.text, member.score, member.operation, number=member.seq)
        if len(scored) < min(len(self._seeds), STAND_IN):
            for seed in filter(None, (molecule_or_none(seed.text) for seed in self._seeds[:STAND_IN])):
                search.tell(seed.smiles, 0.0, "seed")
        if not search.population():
            return None
        workbench.propose(search.ask(limit, random.Random(turn.seed)))
        return {"seeds": offset, "made": {name: round(n, 3) for name, n in search.made.items() if n}}
