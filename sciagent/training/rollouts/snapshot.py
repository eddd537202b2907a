"""The frozen snapshot of a campaign: all that the episodes of a group see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.tools.calls import SHOWN
from sciagent.agent.tools.references import LOOK
from sciagent.agent.tools.registry import Past
from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing import briefing
from sciagent.campaign.proposing.measured import best_candidates
from sciagent.campaign.rollouts.beginnings import beginning, next_seq, part_of
from sciagent.domain.ports import Scored
from sciagent.store.database import tables as t
from sciagent.store.database.parts import CandidatePart
from sciagent.store.learning.groups import GroupRow
from sciagent.store.results.evidence import read_watermark


@dataclass(frozen=True)
class Snapshot:
    """The state of the campaign when a group was opened. The episodes of the group see nothing newer of others."""

    watermark: int
    """Evidence up to this watermark is in the snapshot."""
    seq: int
    """Candidates of the campaign with a lower sequence number are in the snapshot."""
    goal: str
    digest: str
    """Summary of the results, as the opening states it."""
    left: Mapping[str, float]
    """Remaining budget by resource or rung."""
    board: tuple[Scored, ...]
    """The best candidates by score, best first."""
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
        stated: dict[str, Any] = {
            "goal": self.goal,
            "digest": self.digest,
            "left": dict(self.left),
            "results": dict(self.results),
        }
        stated |= {"board": [asdict(row) for row in self.board], "recent": [dict(row) for row in self.recent]}
        return stated if self.drawn is None else {**stated, "drawn": list(self.drawn)}


def take(connection: Connection, built: Built, begins: str = "now", seed: int = 0) -> Snapshot:
    """Takes a snapshot: of the campaign as it is now, or of a part of it, with the whole budget.

    begins: `now`, all candidates; `seeds`, what the campaign had before the first proposal of a model, so that all
    groups see the same whenever they are opened; `now:N` or `seeds:N`, of these N that `seed` draws.
    """
    campaign_id = built.row.id
    part = part_of(connection, campaign_id, beginning(begins), seed)
    best = best_candidates(connection, built, LOOK, part)
    lines = briefing.measured_lines(connection, built, list(best))
    return Snapshot(
        watermark=read_watermark(connection),
        seq=next_seq(connection, campaign_id) if part.end is None else part.end,
        goal=briefing.goal(built),
        digest=briefing.digest(connection, built, part),
        left=briefing.left(connection, built) if part.is_whole else briefing.whole_budget(built, connection),
        board=tuple(best.values()),
        results={one.key: lines[id_] for id_, one in best.items()},
        recent=tuple(briefing.recent(connection, built, LOOK, part)),
        keys=keys_of(connection, campaign_id, part),
        drawn=part.seqs,
    )


def restored(connection: Connection, campaign_id: int, row: GroupRow) -> Snapshot:
    """Returns the snapshot that a group keeps."""
    known, part = dict(row.snapshot), row.part
    known.pop("drawn", None)
    board = tuple(Scored(**row) for row in known.pop("board"))
    recent = tuple(Past(**row) for row in known.pop("recent"))  # type: ignore[typeddict-item]
    return Snapshot(
        row.snapshot_watermark,
        row.snapshot_seq,
        board=board,
        recent=recent,
        keys=keys_of(connection, campaign_id, part),
        drawn=part.seqs,
        **known,
    )


def keys_of(connection: Connection, campaign_id: int, part: CandidatePart) -> frozenset[str]:
    """Returns the keys of the candidates in a part of the campaign."""
    cc, c = t.campaign_candidate.c, t.candidate.c
    query = sa.select(c.key).join(t.campaign_candidate, cc.candidate_id == c.id)
    return frozenset(connection.execute(query.where(cc.campaign_id == campaign_id, part.condition)).scalars())
