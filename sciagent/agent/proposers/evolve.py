"""`evolve`: proposes the seeds first, then the children of a genetic search over the best candidates so far.

Each turn reads the population from the ledger, through an index on the score; the cursor keeps the operator counts. A
turn therefore depends only on its seed, its cursor and the ledger, and there are no generations to wait for. Known
candidates are not proposed again.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sciagent.agent.proposers.genetic import KEEP, POPULATION, GeneticSearch
from sciagent.chemistry.subjects.base import Subject
from sciagent.chemistry.subjects.registry import needed_edits
from sciagent.domain.candidates import Candidate
from sciagent.domain.ports import ProposalIn, Turn, Workbench
from sciagent.errors import InvalidCandidateError

STAND_IN = 200  # largest number of unscored seeds that join the population while few candidates are scored


class Evolve:
    """Proposes the seeds of a file, then children within the edit limits that fit the ladder's checks."""

    name = "evolve"
    total: int | None = None  # unlimited: it proposes for as long as it is called

    def __init__(
        self,
        subject: Subject,
        seeds: Path,
        *,
        column: str | None = None,
        limits: Any = None,
        keep: Sequence[str] | None = None,
    ) -> None:
        """limits: bounds on children; None: those of the subject without checks."""
        self._subject, self._edits = subject, needed_edits(subject)
        self._seeds = list(subject.records(seeds, column, keep=keep))
        self._limits = self._edits.limits() if limits is None else limits

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes the next seeds, or at most `limit` children. Returns None if there is no candidate to start from."""
        offset = int(turn.cursor.get("seeds", 0))
        if offset < len(self._seeds):
            batch = self._seeds[offset : offset + limit]
            workbench.propose([ProposalIn(seed.text, operation="seed", names=seed.names) for seed in batch])
            return {"seeds": offset + len(batch)}
        seen: set[str] = set()

        def is_known(text: str) -> bool:
            """Returns whether a child is invalid, misses a gate, or is already in the campaign or in this turn."""
            if (child := self._read(text)) is None:
                return True
            known = child.key in seen or bool(workbench.missed_gate(child)) or workbench.known(child)
            seen.add(child.key)
            return known

        search = GeneticSearch(self._edits, limits=self._limits, known=is_known, made=turn.cursor.get("made"))
        keys = self._tell(search, workbench)
        if not search.population():
            return None
        children = search.ask(limit, random.Random(turn.seed))
        workbench.propose([replace(c, parents=tuple(keys[parent] for parent in c.parents)) for c in children])
        return {"seeds": offset, "made": {name: round(n, 3) for name, n in search.made.items() if n}}

    def _tell(self, search: GeneticSearch, workbench: Workbench) -> dict[str, str]:
        """Tells the search the best candidates, and seeds while few are scored. Returns keys by notation."""
        scored = workbench.best(POPULATION * KEEP)
        keys = {member.text: member.key for member in scored}
        for member in scored:
            search.tell(member.text, member.score, member.operation, number=member.seq)
        if len(scored) < min(len(self._seeds), STAND_IN):
            for seed in filter(None, (self._read(seed.text) for seed in self._seeds[:STAND_IN])):
                notation = self._subject.notation(seed)
                keys.setdefault(notation, workbench.key_of(seed))
                search.tell(notation, 0.0, "seed")
        return keys

    def _read(self, text: str) -> Candidate | None:
        """Returns the candidate of a notation; None for any other text."""
        try:
            return self._subject.read(text)
        except InvalidCandidateError:
            return None
