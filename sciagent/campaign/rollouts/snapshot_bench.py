"""The workbench of a rollout: it sees the frozen snapshot and its own episode, and nothing of other episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sciagent.agent.tools.registry import Past
from sciagent.campaign.core.build import Built, BuiltRung
from sciagent.campaign.proposing.at_once import Runs
from sciagent.campaign.proposing.briefing import AgentWorkbench
from sciagent.campaign.proposing.workbench import BenchEntry
from sciagent.domain.candidates import Candidate
from sciagent.domain.cost import Cost
from sciagent.domain.ports import Scored
from sciagent.training.rollouts.side_by_side import FastRungs
from sciagent.training.rollouts.snapshot import Snapshot


@dataclass(frozen=True)
class OwnProposal:
    """A proposal of the episode, as its later turns see it."""

    text: str
    key: str | None
    """None for a text that is no molecule."""
    status: str
    standing: str | None
    reason: str
    operation: str
    score: float | None
    depth: int
    lines: list[str]
    """Lines on the results of the rungs that answered at once."""


class EpisodeMemory:
    """The proposals of an episode so far. They depend on the episode alone, and are stored with its turns."""

    def __init__(self) -> None:
        self.proposals: list[OwnProposal] = []
        self._by_key: dict[str, OwnProposal] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._by_key

    def lines(self, key: str) -> list[str]:
        return self._by_key[key].lines if key in self._by_key else []

    def extend(self, proposals: Iterable[OwnProposal]) -> None:
        for proposal in proposals:
            self.proposals.append(proposal)
            if proposal.key is not None and proposal.status == "new":
                self._by_key[proposal.key] = proposal

    def restore(self, stored: Iterable[Mapping[str, Any]]) -> None:
        """Adds the proposals of a turn in the ledger. stored: as `SnapshotBench.learned` wrote them."""
        self.extend(OwnProposal(**row) for row in stored)

    def scored(self, first: int) -> list[Scored]:
        """Returns the candidates with a score. first: sequence number of the first proposal."""
        return [
            Scored(p.key, p.text, p.score, p.depth, False, first + place, p.operation)
            for place, p in enumerate(self.proposals)
            if p.key is not None and p.status == "new" and p.score is not None
        ]

    def recent(self) -> list[Past]:
        """Returns the proposals, newest first."""
        return [
            Past(
                text=p.text,
                key=p.key,
                status=p.status,
                standing=p.standing,
                reason=p.reason,
                operation=p.operation,
                score=p.score,
            )
            for p in reversed(self.proposals)
        ]


class SnapshotBench(AgentWorkbench):
    """The workbench for one turn of a rollout.

    A candidate is known if it is in the snapshot or if the episode proposed it before. Ranks, history, results and
    budget are those of the snapshot and of the episode. Notes are not kept, since other episodes would read them.
    """

    def __init__(
        self,
        built: Built,
        worker: Runs,
        rungs: FastRungs,
        snapshot: Snapshot,
        memory: EpisodeMemory,
        *,
        room: int,
        trajectory: int,
    ) -> None:
        super().__init__(built, worker, "", room=room, trajectory=trajectory)
        self._rungs, self._snapshot, self._memory = rungs, snapshot, memory

    @property
    def cost(self) -> Cost:
        """Cost of the fast and inline rungs on the turn's candidates, whoever paid: equal alone and beside others."""
        return sum((entry.charged for entry in self._entries), Cost())

    def best(self, n: int) -> list[Scored]:
        rows = [*self._snapshot.board, *self._memory.scored(self._snapshot.seq)]
        return sorted(rows, key=lambda row: (-row.score, row.seq))[:n]

    def recent(self, n: int) -> list[Past]:
        return [*self._memory.recent(), *self._snapshot.recent][:n]

    def results_of(self, key: str) -> list[str]:
        return self._snapshot.results.get(key) or self._memory.lines(key)

    def left(self) -> dict[str, float]:
        return dict(self._snapshot.left)

    def goal(self) -> str:
        return self._snapshot.goal

    def note(self, text: str) -> None:
        """Does nothing: a note would be a channel between episodes."""

    def _members(self, keys: Sequence[str]) -> set[str]:
        return {key for key in keys if key in self._snapshot.keys or key in self._memory}

    def _alike(self, family_hash: str, formula: str) -> list[Candidate]:
        """Returns nothing: an episode is compared with its own proposals, since others would be a channel."""
        return []

    def _run_fast(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        self._rungs.answer(rung, entries)
        for entry in entries:
            self._place(entry)

    def learned(self) -> list[OwnProposal]:
        """Returns the proposals of the turn, as later turns of the episode see them."""
        return [self._own(entry) for entry in self._entries]

    def _own(self, entry: BenchEntry) -> OwnProposal:
        out, place = entry.out(), entry.place
        return OwnProposal(
            text=entry.notation or out.text,
            key=out.key,
            status=out.status,
            standing=out.standing,
            reason=str(out.reason or ""),
            operation=entry.given.operation[:100],
            score=None if place is None else place.score,
            depth=-1 if place is None else place.depth,
            lines=self.lines_on(entry, [r for r in self._built.fast if r.rules.is_terminal or not r.is_fast]),
        )


def stored(proposals: Iterable[OwnProposal]) -> list[Mapping[str, Any]]:
    """Returns the proposals as JSON."""
    return [asdict(proposal) for proposal in proposals]
