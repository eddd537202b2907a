"""The answers of `sciagent trace`: the list of a campaign's episodes, and an episode with its messages and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.errors import UnknownNameError
from sciagent.store.campaign_state import trajectories
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.views import report_candidates, report_episodes
from sciagent.store.views.report_episodes import EpisodeOutcome

CHUNK = 500


def listed(connection: Connection, row: CampaignRow) -> Sequence[Mapping[str, Any]]:
    """Returns the campaign's episodes: number, proposer, state, times, reason of the end, turns and new candidates."""
    j = t.trajectory
    rows = connection.execute(sa.select(j).where(j.c.campaign_id == row.id).order_by(j.c.number)).mappings().all()
    outcomes: dict[int, EpisodeOutcome] = {}
    for start in range(0, len(rows), CHUNK):
        ids = [trajectory["id"] for trajectory in rows[start : start + CHUNK]]
        outcomes |= report_episodes.outcomes(connection, row, ids)
    answers = []
    for trajectory in rows:
        outcome = outcomes.get(trajectory["id"], EpisodeOutcome(0, 0, 0))
        answer = {name: trajectory[name] for name in ("number", "proposer", "state", "started_at", "ended_at")}
        answers.append(
            answer | {"why": trajectory["settings"].get("ended"), "turns": outcome.turns, "new": outcome.new}
        )
    return answers


def episode(connection: Connection, row: CampaignRow, number: int) -> Mapping[str, Any]:
    """Returns a whole episode. Raises UnknownNameError for a number that the campaign does not have."""
    j = t.trajectory.c
    query = sa.select(t.trajectory).where(j.campaign_id == row.id, j.number == number)
    trajectory = connection.execute(query).mappings().one_or_none()
    if trajectory is None:
        there = [str(trajectory["number"]) for trajectory in listed(connection, row)]
        raise UnknownNameError(f"episode of {row.name}", str(number), there)
    proposals = _proposals(connection, row, trajectory["id"])
    return {
        "campaign": row.name,
        "number": number,
        "proposer": trajectory["proposer"],
        "state": trajectory["state"],
        "why": trajectory["settings"].get("ended"),
        "opening": trajectory["settings"].get("opening", []),
        "turns": [
            {name: turn[name] for name in ("number", "message", "calls", "observations", "sampling", "cost", "at")}
            | {
                "policy": turn["policy_version"],
                "trainable": bool(turn["output_ids"]),
                "proposals": proposals.get(turn["id"], []),
            }
            for turn in trajectories.turns(connection, trajectory["id"])
        ],
    }


def _proposals(connection: Connection, row: CampaignRow, trajectory_id: int) -> dict[int, list[Mapping[str, Any]]]:
    """Returns {turn id: its proposals with their status}."""
    proposed = report_episodes.proposals(connection, trajectory_id)
    members = report_candidates.members(connection, row, [p.candidate_id for p in proposed if p.candidate_id])
    by_turn: dict[int, list[Mapping[str, Any]]] = {}
    for proposal in proposed:
        member = members.get(proposal.candidate_id or 0)
        by_turn.setdefault(proposal.turn_id, []).append(
            {name: getattr(proposal, name) for name in ("text", "status", "reason", "operation")}
            | {name: getattr(member, name, None) for name in ("standing", "score")}
            | {"hit": member is not None and member.hit}
        )
    return by_turn
