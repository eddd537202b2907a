"""A bench in memory: it parses what is proposed and keeps it. A molecule has a higher utility the larger it is."""

from __future__ import annotations

from collections.abc import Sequence

from sciagent.agent.tools.tool_contract_and_calls import Past
from sciagent.chemistry.molecule import Molecule, parse_molecule
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.proposer_interfaces import KnownCandidate, ProposalIn, ProposalOut
from sciagent.errors import InvalidCandidateError
from tests.support.worths import worth


class MemoryBench:
    """Expected utility: heavy atoms / 100. `handed` is all that ever reached it."""

    def __init__(self, *smiles: str) -> None:
        self.molecules: dict[str, Molecule] = {}
        self.operations: dict[str, str] = {}
        self.past: list[Past] = []
        self.notes: list[str] = []
        self.vetoed = set[str]()
        self.held = set[str]()  # keys of candidates that a person holds
        self.handed: list[ProposalIn] = []
        self.propose([ProposalIn(text, operation="seed") for text in smiles])

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]:
        return [self._one(one) for one in proposals]

    def _one(self, given: ProposalIn) -> ProposalOut:
        self.handed.append(given)
        try:
            made = parse_molecule(given.text)
        except InvalidCandidateError as error:
            self._remember(given, None, "refused", error.reason)
            return ProposalOut(given.text, "refused", None, error.reason, error.detail)
        status = "duplicate" if made.key in self.molecules else "new"
        self.molecules.setdefault(made.key, made)
        self.operations.setdefault(made.key, given.operation)
        self._remember(given, made.key, status, "")
        return ProposalOut(given.text, status, made.key, standing="open", candidate=made.smiles)

    def _remember(self, given: ProposalIn, key: str | None, status: str, reason: str) -> None:
        known = str(worth(self.molecules[key].heavy_atoms / 100)) if key else None
        self.past.append(
            Past(
                text=given.text,
                key=key,
                status=status,
                standing="open" if key else None,
                reason=reason,
                operation=given.operation,
                worth=known,
            )
        )

    def key_of(self, candidate: Candidate) -> str:
        return candidate.key

    def best(self, n: int) -> list[KnownCandidate]:
        rows = []
        for seq, (key, m) in enumerate(self.molecules.items()):
            operation = self.operations[key]
            w = worth(m.heavy_atoms / 100)
            rows.append(KnownCandidate(key, m.smiles, w, 1, seq=seq, operation=operation, is_held=key in self.held))
        return sorted(rows, key=lambda row: (-row.worth.expected_utility, row.seq))[:n]

    def missed_gate(self, candidate: Candidate) -> str | None:
        return None

    def barred(self, candidate: Candidate) -> str | None:
        return "vetoed by ann: smells" if candidate.key in self.vetoed else None

    def known(self, candidate: Candidate) -> bool:
        return candidate.key in self.molecules

    def results_of(self, key: str) -> list[str]:
        return [f"checks: pass, {self.molecules[key].heavy_atoms} heavy atoms"] if key in self.molecules else []

    def recent(self, n: int) -> list[Past]:
        return self.past[::-1][:n]

    def left(self) -> dict[str, float]:
        return {"proposals": 100.0 - len(self.past), "core_seconds": 3600.0}

    def note(self, text: str) -> None:
        self.notes.append(text)

    def goal(self) -> str:
        return "largest homo_lumo_gap"
