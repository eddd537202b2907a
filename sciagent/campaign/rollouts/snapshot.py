"""The frozen snapshot of a campaign: all that the episodes of a group see of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.agent.tools.molecule_references import LOOK
from sciagent.agent.tools.registry import Past
from sciagent.campaign.core.build import Built
from sciagent.campaign.proposing import briefing
from sciagent.domain.campaigns.ports import Scored
from sciagent.store.campaign_state import standings
from sciagent.store.database import tables as t
from sciagent.store.results.evidence import read_watermark

Beginning = Literal["now", "seeds"]


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
    """Keys of all candidates in the snapshot; not stored, since `seq` determines them."""

    def to_json(self) -> Mapping[str, Any]:
        stated = {"goal": self.goal, "digest": self.digest, "left": dict(self.left), "results": dict(self.results)}
        return stated | {"board": [asdict(row) for row in self.board], "recent": [dict(row) for row in self.recent]}


def take(connection: Connection, built: Built, begins: Beginning = "now") -> Snapshot:
    """Takes a snapshot: of the campaign as it is now, or of its seeds alone, with the whole budget.

    The seeds are what the campaign had before the first proposal of a model. So all groups that begin from them see the
    same, whenever they are opened.
    """
    campaign_id, end = built.row.id, None
    if begins == "seeds" and (end := _first_of_a_model(connection, campaign_id)) is None:
        end = _next_seq(connection, campaign_id)
    rows = standings.top(connection, campaign_id, LOOK, end)
    lines = briefing.measured_lines(connection, built, [row[0] for row in rows])
    seq = _next_seq(connection, campaign_id) if end is None else end
    return Snapshot(
        watermark=read_watermark(connection),
        seq=seq,
        goal=briefing.goal(built),
        digest=briefing.digest(connection, built, end),
        left=briefing.left(connection, built) if end is None else briefing.whole_budget(built, connection),
        board=tuple(
            Scored(key, text, value, depth, seeds, place, operation or "")
            for _, key, text, value, depth, seeds, place, operation in rows
        ),
        results={row[1]: lines[row[0]] for row in rows},
        recent=tuple(briefing.recent(connection, campaign_id, LOOK, end)),
        keys=keys_before(connection, campaign_id, seq),
    )


def restored(connection: Connection, campaign_id: int, watermark: int, seq: int, stored: Mapping[str, Any]) -> Snapshot:
    """Returns the snapshot that a group keeps. stored: as `Snapshot.to_json` wrote it."""
    known = dict(stored)
    board = tuple(Scored(**row) for row in known.pop("board"))
    recent = tuple(Past(**row) for row in known.pop("recent"))  # type: ignore[typeddict-item]
    keys = keys_before(connection, campaign_id, seq)
    return Snapshot(watermark, seq, board=board, recent=recent, keys=keys, **known)


def _next_seq(connection: Connection, campaign_id: int) -> int:
    cc = t.campaign_candidate.c
    last = connection.execute(sa.select(sa.func.max(cc.seq)).where(cc.campaign_id == campaign_id)).scalar()
    return 0 if last is None else int(last) + 1


def _first_of_a_model(connection: Connection, campaign_id: int) -> int | None:
    """Returns the lowest sequence number of a candidate that a model proposed; None if there is none."""
    cc, p, u = t.campaign_candidate.c, t.proposal.c, t.turn.c
    query = sa.select(cc.seq).join(t.proposal, p.id == cc.proposal_id).join(t.turn, u.id == p.turn_id)
    query = query.where(cc.campaign_id == campaign_id, u.message.is_not(None))
    seq = connection.execute(query.order_by(cc.seq).limit(1)).scalar()
    return None if seq is None else int(seq)


def keys_before(connection: Connection, campaign_id: int, seq: int) -> frozenset[str]:
    """Returns the keys of the campaign's candidates with a lower sequence number."""
    cc, c = t.campaign_candidate.c, t.candidate.c
    query = sa.select(c.key).join(t.campaign_candidate, cc.candidate_id == c.id)
    return frozenset(connection.execute(query.where(cc.campaign_id == campaign_id, cc.seq < seq)).scalars())
