"""The frozen snapshot of a campaign: all that the episodes of a group see of it.

`GroupBeginning` says which candidates of the campaign are in the snapshot; `take` takes the snapshot. `SnapshotBench`
is the workbench of a rollout, which sees the snapshot and its own episode (`EpisodeMemory`), and no other episode.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.tools.candidate_references_and_stated_predictions import MAX_LOOKED_UP
from sciagent.agent.tools.tool_contract_and_calls import Past
from sciagent.agent.tools.toolbox import SHOWN
from sciagent.campaign.core.built_campaign_and_derived_values import Built, BuiltRung
from sciagent.campaign.proposing import briefing_and_workbench
from sciagent.campaign.proposing.briefing_and_workbench import AgentWorkbench
from sciagent.campaign.proposing.proposal_novelty import best_candidates
from sciagent.campaign.proposing.rungs_on_unwritten_proposals import BenchEntry, Runs
from sciagent.domain.candidate_and_its_names_in_files import Candidate
from sciagent.domain.cost_and_budget import Cost
from sciagent.domain.proposer_interfaces import KnownCandidate
from sciagent.domain.worth import Worth
from sciagent.errors import UsageError
from sciagent.store.database import tables as t
from sciagent.store.database.condition_for_part_of_candidates import CandidatePart
from sciagent.store.learning.rollout_groups import GroupRow
from sciagent.store.results.evidence import read_watermark
from sciagent.training.rollouts.tool_calls_across_episodes import FastRungs
from sciagent.training.settings import BEGINNING_PATTERN, BEGINNINGS

MAX_OPERATION_LENGTH = 100  # characters of a proposal's operation
NO_DEPTH = -1  # depth of a proposal that has no place on the ladder
_CC = t.campaign_candidate.c  # a row for each candidate of a campaign


class GroupBeginning(NamedTuple):
    """The candidates that the episodes of a group see."""

    of: Literal["now", "seeds"]
    """`now`: all that the campaign has; `seeds`: what it had before the first proposal of a model."""
    drawn: int | None
    """Number of candidates with a worth that the seed of the group draws; None: all are seen."""


def beginning(text: str) -> GroupBeginning:
    """Reads `now`, `seeds`, or one of them with the number of drawn candidates, as in `seeds:8`. Raises UsageError."""
    if re.match(BEGINNING_PATTERN, text) is None:
        raise UsageError(f'from: "{text}" is none of {BEGINNINGS}')
    of, _, number = text.partition(":")
    n_drawn = int(number) if number else None
    return GroupBeginning(of="seeds" if of == "seeds" else "now", drawn=n_drawn)


def part_of(connection: Connection, campaign_id: int, begins: GroupBeginning, seed: int) -> CandidatePart:
    """Returns the candidates that a group sees. seed: of the group."""
    end = None  # without a limit
    if begins.of == "seeds":
        end = _first_seq_of_model(connection, campaign_id)
        if end is None:  # no model has proposed anything; candidates that arrive later are not seen
            end = next_seq(connection, campaign_id)
    drawn_seqs = None
    if begins.drawn:
        drawn_seqs = _draw_seqs(connection, campaign_id, end, begins.drawn, seed)
    return CandidatePart(end, drawn_seqs)


def _draw_seqs(connection: Connection, campaign_id: int, end: int | None, number: int, seed: int) -> tuple[int, ...]:
    """Returns the sequence numbers of drawn candidates with a worth, in order. end: as in `CandidatePart`."""
    conditions = (_CC.campaign_id == campaign_id, _CC.chance.is_not(None), CandidatePart(end).condition)
    seqs = connection.execute(sa.select(_CC.seq).where(*conditions).order_by(_CC.seq)).scalars().all()
    drawn_seqs = random.Random(seed).sample(seqs, min(number, len(seqs)))
    return tuple(sorted(drawn_seqs))


def next_seq(connection: Connection, campaign_id: int) -> int:
    """Returns the sequence number that the campaign's next candidate gets."""
    last = connection.execute(sa.select(sa.func.max(_CC.seq)).where(_CC.campaign_id == campaign_id)).scalar()
    return 0 if last is None else int(last) + 1


def _first_seq_of_model(connection: Connection, campaign_id: int) -> int | None:
    """Returns the lowest sequence number of a candidate that a model proposed; None if there is none."""
    proposal = t.proposal.c
    turn = t.turn.c
    query = (
        sa.select(_CC.seq)
        .join(t.proposal, proposal.id == _CC.proposal_id)
        .join(t.turn, turn.id == proposal.turn_id)
        .where(_CC.campaign_id == campaign_id, turn.message.is_not(None))
        .order_by(_CC.seq)
        .limit(1)
    )
    seq = connection.execute(query).scalar()
    return None if seq is None else int(seq)


@dataclass(frozen=True)
class Snapshot:
    """The state of the campaign when a group was opened. The group's episodes see nothing newer but their own work."""

    watermark: int
    """Evidence up to this watermark is in the snapshot."""
    seq: int
    """Candidates of the campaign with a lower sequence number are in the snapshot."""
    goal: str
    digest: str
    """Summary of the results, as the opening states it."""
    left: Mapping[str, float]
    """Remaining budget by resource or rung."""
    board: tuple[KnownCandidate, ...]
    """The best candidates, best first."""
    results: Mapping[str, list[str]]
    """Lines on the results of the candidates on the board, by key."""
    recent: tuple[Past, ...]
    """The latest proposals, newest first."""
    keys: frozenset[str] = field(default=frozenset(), compare=False)
    """Keys of all candidates in the snapshot; not stored, since `seq` and `drawn` determine them."""
    drawn: tuple[int, ...] | None = None
    """Sequence numbers of the candidates that were drawn; None if all before `seq` are in the snapshot."""

    @property
    def numbered(self) -> list[str]:
        """The molecules that the digest lists, in the order of their numbers."""
        return [row.text for row in self.board[:SHOWN]]

    def to_json(self) -> Mapping[str, Any]:
        content: dict[str, Any] = {
            "goal": self.goal,
            "digest": self.digest,
            "left": dict(self.left),
            "results": dict(self.results),
            "board": [asdict(row) for row in self.board],
            "recent": [dict(row) for row in self.recent],
        }
        if self.drawn is not None:
            content["drawn"] = list(self.drawn)
        return content


def take(connection: Connection, built: Built, begins: str = "now", seed: int = 0) -> Snapshot:
    """Takes a snapshot of the whole campaign with its remaining budget, or of a part of it with the whole budget.

    begins: `now`: all candidates. `seeds`: the candidates before the first proposal of a model; all groups see the
    same, whenever they are opened. `now:N` or `seeds:N`: N of these candidates, drawn by `seed`.
    """
    campaign_id = built.row.id
    part = part_of(connection, campaign_id, beginning(begins), seed)
    best = best_candidates(connection, built, MAX_LOOKED_UP, part)
    lines = briefing_and_workbench.measured_lines(connection, built, list(best))
    if part.is_whole:
        left = briefing_and_workbench.remaining_budget(connection, built)
    else:
        left = briefing_and_workbench.whole_budget(built, connection)
    return Snapshot(
        watermark=read_watermark(connection),
        seq=next_seq(connection, campaign_id) if part.end is None else part.end,
        goal=briefing_and_workbench.goal(built),
        digest=briefing_and_workbench.digest(connection, built, part),
        left=left,
        board=tuple(best.values()),
        results={candidate.key: lines[id_] for id_, candidate in best.items()},
        recent=tuple(briefing_and_workbench.recent(connection, built, MAX_LOOKED_UP, part)),
        keys=keys_of(connection, campaign_id, part),
        drawn=part.seqs,
    )


def restored(connection: Connection, campaign_id: int, row: GroupRow) -> Snapshot:
    """Returns the snapshot that a group keeps."""
    fields = dict(row.snapshot)
    part = row.part
    fields.pop("drawn", None)  # `part` has them
    board = tuple(_ranked(cells) for cells in fields.pop("board"))
    recent = tuple(Past(**cells) for cells in fields.pop("recent"))  # type: ignore[typeddict-item]
    return Snapshot(
        watermark=row.snapshot_watermark,
        seq=row.snapshot_seq,
        board=board,
        recent=recent,
        keys=keys_of(connection, campaign_id, part),
        drawn=part.seqs,
        **fields,
    )


def _ranked(cells: Mapping[str, Any]) -> KnownCandidate:
    """Returns a candidate of the board from its JSON."""
    worth = Worth.from_columns(cells["worth"])
    assert worth is not None
    return KnownCandidate(**{**cells, "worth": worth})


def keys_of(connection: Connection, campaign_id: int, part: CandidatePart) -> frozenset[str]:
    """Returns the keys of the candidates in a part of the campaign."""
    candidate = t.candidate.c
    query = sa.select(candidate.key).join(t.campaign_candidate, _CC.candidate_id == candidate.id)
    return frozenset(connection.execute(query.where(_CC.campaign_id == campaign_id, part.condition)).scalars())


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
    worth: Worth | None
    depth: int
    """Position of the rung that the candidate has reached; `NO_DEPTH` for a proposal without a place on the ladder."""
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
        for row in stored:
            worth = None if row["worth"] is None else Worth.from_columns(row["worth"])
            self.extend([OwnProposal(**{**row, "worth": worth})])

    def ranked(self, first: int) -> list[KnownCandidate]:
        """Returns the candidates with a worth. first: sequence number of the first proposal."""
        ranked_candidates = []
        for place, p in enumerate(self.proposals):
            if p.key is not None and p.status == "new" and p.worth is not None:
                candidate = KnownCandidate(
                    key=p.key, text=p.text, worth=p.worth, depth=p.depth, seq=first + place, operation=p.operation
                )
                ranked_candidates.append(candidate)
        return ranked_candidates

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
                worth=None if p.worth is None else str(p.worth),
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
        super().__init__(built, worker, room=room, trajectory=trajectory)
        self._rungs = rungs
        self._snapshot = snapshot
        self._memory = memory

    @property
    def cost(self) -> Cost:
        """`charged`, and the cost of the fast and inline rungs on the turn's candidates. An episode is charged for a
        candidate also if another one has paid for it, so that its cost does not depend on other episodes."""
        return sum((entry.charged for entry in self._entries), self.charged)

    def best(self, n: int) -> list[KnownCandidate]:
        ranked = [*self._snapshot.board, *self._memory.ranked(self._snapshot.seq)]
        ranked.sort(key=lambda candidate: candidate.seq)
        ranked.sort(key=lambda candidate: candidate.worth.order, reverse=True)  # stable: ties in order of arrival
        return ranked[:n]

    def recent(self, n: int) -> list[Past]:
        return [*self._memory.recent(), *self._snapshot.recent][:n]

    def results_of(self, key: str) -> list[str]:
        return self._snapshot.results.get(key) or self._memory.lines(key)

    def barred(self, candidate: Candidate) -> str | None:
        """Returns None: a snapshot does not keep what people have vetoed."""
        return None

    def left(self) -> dict[str, float]:
        return dict(self._snapshot.left)

    def goal(self) -> str:
        return self._snapshot.goal

    def note(self, text: str) -> None:
        """Does nothing: a note would be a channel between episodes."""

    def _members(self, keys: Sequence[str]) -> set[str]:
        return {key for key in keys if key in self._snapshot.keys or key in self._memory}

    def _campaign_family(self, family_hash: str, formula: str) -> list[Candidate]:
        """Returns no candidates: the candidates of other episodes would be a channel between episodes."""
        return []

    def _run_fast(self, rung: BuiltRung, entries: Sequence[BenchEntry]) -> None:
        self._rungs.answer(rung, entries)
        for entry in entries:
            self._place(entry)

    def learned(self) -> list[OwnProposal]:
        """Returns the proposals of the turn, as later turns of the episode see them."""
        return [self._own(entry) for entry in self._entries]

    def _own(self, entry: BenchEntry) -> OwnProposal:
        shown = entry.out()
        place = entry.place
        # as in the digest of a campaign: inline rungs, and a fast rung if it is the terminal one
        rungs_with_lines = [rung for rung in self._built.fast if rung.rules.is_terminal or not rung.is_fast]
        return OwnProposal(
            text=entry.notation or shown.text,
            key=shown.key,
            status=shown.status,
            standing=shown.standing,
            reason=str(shown.reason or ""),
            operation=entry.given.operation[:MAX_OPERATION_LENGTH],
            worth=None if place is None else place.worth,
            depth=NO_DEPTH if place is None else place.depth,
            lines=self.lines_on(entry, rungs_with_lines),
        )


def stored(proposals: Iterable[OwnProposal]) -> list[Mapping[str, Any]]:
    """Returns the proposals as JSON."""
    return [asdict(proposal) for proposal in proposals]
