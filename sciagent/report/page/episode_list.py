"""The episodes of a campaign's model, read from the ledger: its messages, calls and observations, turn by turn."""

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
    """The campaign's trajectories: number, proposer, state, turns, new candidates, tokens."""
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
    """A whole episode. Raises UnknownNameError for a number that the campaign does not have."""
    j = t.trajectory.c
    query = sa.select(t.trajectory).where(j.campaign_id == row.id, j.number == number)
    trajectory = connection.execute(query).mappings().one_or_none()
    if trajectory is None:
        there = [str(trajectory["number"]) for trajectory in listed(connection, row)]
        raise UnknownNameError(f"episode of {row.name}", str(number), there)
    made = _proposals(connection, trajectory["id"])
    return {
        "campaign": row.name,
        "number": number,
        "proposer": trajectory["proposer"],
        "state": trajectory["state"],
        "why": trajectory["settings"].get("ended"),
        "opening": trajectory["settings"].get("opening", []),
        "turns": [_turn(turn, made.get(turn["id"], [])) for turn in trajectories.turns(connection, trajectory["id"])],
    }


def _turn(turn: Any, proposals: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    return {
        "number": turn["number"],
        "message": turn["message"],
        "calls": turn["calls"],
        "observations": turn["observations"],
        "sampling": turn["sampling"],
        "policy": turn["policy_version"],
        "cost": turn["cost"],
        "at": turn["at"],
        "trainable": bool(turn["output_ids"]),
        "proposals": proposals,
    }


def _proposals(connection: Connection, trajectory_id: int) -> dict[int, list[Mapping[str, Any]]]:
    """{turn id: its proposals with their status}."""
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
    by_turn: dict[int, list[Mapping[str, Any]]] = {}
    for id_, text, status, reason, operation, standing, score, is_hit in connection.execute(query).all():
        by_turn.setdefault(id_, []).append(
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
    return by_turn
