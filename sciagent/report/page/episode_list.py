"""The episodes of a campaign's model, read from the ledger: what it was told, thought, called and saw, turn by turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.errors import UnknownNameError
from sciagent.store.campaign_state import trajectories
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t


def listed(connection: Connection, row: CampaignRow) -> Sequence[Mapping[str, Any]]:
    """The campaign's trajectories: number, who proposed, state, turns, new candidates, tokens."""
    j, u, p = t.trajectory.c, t.turn.c, t.proposal.c
    made = (
        sa.select(u.trajectory_id.label("id"), sa.func.count(p.id).label("n"))
        .select_from(t.turn.join(t.proposal, p.turn_id == u.id))
        .where(p.campaign_id == row.id, p.status == "new")
        .group_by(u.trajectory_id)
        .subquery()
    )
    turns = (
        sa.select(u.trajectory_id.label("id"), sa.func.count().label("n"))
        .select_from(t.turn.join(t.trajectory, j.id == u.trajectory_id))
        .where(j.campaign_id == row.id)
        .group_by(u.trajectory_id)
        .subquery()
    )
    query = (
        sa.select(j.number, j.proposer, j.state, j.started_at, j.ended_at, j.settings, turns.c.n, made.c.n)
        .select_from(t.trajectory.outerjoin(turns, turns.c.id == j.id).outerjoin(made, made.c.id == j.id))
        .where(j.campaign_id == row.id)
        .order_by(j.number)
    )
    return [
        {
            "number": number,
            "proposer": proposer,
            "state": state,
            "started_at": started,
            "ended_at": ended,
            "why": settings.get("ended"),
            "turns": n or 0,
            "new": new or 0,
        }
        for number, proposer, state, started, ended, settings, n, new in connection.execute(query).all()
    ]


def episode(connection: Connection, row: CampaignRow, number: int) -> Mapping[str, Any]:
    """One of them, whole. Raises UnknownNameError for a number that the campaign does not have."""
    j = t.trajectory.c
    query = sa.select(t.trajectory).where(j.campaign_id == row.id, j.number == number)
    found = connection.execute(query).mappings().one_or_none()
    if found is None:
        there = [str(one["number"]) for one in listed(connection, row)]
        raise UnknownNameError(f"episode of {row.name}", str(number), there)
    made = _proposals(connection, found["id"])
    return {
        "campaign": row.name,
        "number": number,
        "proposer": found["proposer"],
        "state": found["state"],
        "why": found["settings"].get("ended"),
        "opening": found["settings"].get("opening", []),
        "turns": [_turn(one, made.get(one["id"], [])) for one in trajectories.turns(connection, found["id"])],
    }


def _turn(one: Any, proposals: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        "number": one["number"],
        "message": one["message"],
        "calls": one["calls"],
        "observations": one["observations"],
        "sampling": one["sampling"],
        "policy": one["policy_version"],
        "cost": one["cost"],
        "at": one["at"],
        "trainable": bool(one["output_ids"]),
        "proposals": proposals,
    }


def _proposals(connection: Connection, trajectory_id: int) -> dict[int, list[Mapping[str, Any]]]:
    """By turn: what became of what it proposed."""
    u, p, cc = t.turn.c, t.proposal.c, t.campaign_candidate.c
    query = (
        sa.select(u.id, p.text, p.status, p.reason, p.operation, cc.standing, cc.score, cc.is_hit)
        .select_from(
            t.turn.join(t.proposal, p.turn_id == u.id).outerjoin(
                t.campaign_candidate, sa.and_(cc.campaign_id == p.campaign_id, cc.candidate_id == p.candidate_id)
            )
        )
        .where(u.trajectory_id == trajectory_id)
        .order_by(p.id)
    )
    found: dict[int, list[Mapping[str, Any]]] = {}
    for id_, text, status, reason, operation, standing, score, is_hit in connection.execute(query).all():
        found.setdefault(id_, []).append(
            {
                "text": text,
                "status": status,
                "reason": reason,
                "operation": operation,
                "standing": standing,
                "score": score,
                "hit": bool(is_hit),
            }
        )
    return found
