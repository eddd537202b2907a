"""Attempts: each time that somebody worked, with its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.states import ATTEMPT_TRANSITIONS, AttemptState, check_transition
from sciagent.store import tables as t
from sciagent.store.bulk import among, execute_many
from sciagent.store.clock import db_now

_END = sa.update(t.attempt).where(t.attempt.c.id == sa.bindparam("of"))


@dataclass(frozen=True)
class AttemptEnd:
    """What became of an attempt. wall_seconds: None where nobody knows."""

    attempt_id: int
    state: AttemptState
    cost: Mapping[str, float]
    wall_seconds: float | None
    outcome: str | None = None
    reason: str | None = None
    detail: str = ""


def begin(
    connection: Connection, owner: str, *, campaign_id: int | None, rung_id: int | None, job_id: int | None = None,
    fence: int = 0, n_candidates: int = 1,
) -> int:  # fmt: skip
    now = db_now(connection)
    values: dict[str, Any] = {
        "campaign_id": campaign_id, "rung_id": rung_id, "job_id": job_id, "fence": fence, "owner": owner,
        "state": AttemptState.RUNNING, "n_candidates": n_candidates, "cost": {}, "started_at": now, "heartbeat_at": now,
    }  # fmt: skip
    return int(connection.execute(sa.insert(t.attempt).values(values).returning(t.attempt.c.id)).scalar_one())


def end(
    connection: Connection,
    attempt_id: int,
    state: AttemptState,
    *,
    cost: Mapping[str, float],
    wall_seconds: float | None,
    outcome: str | None = None,
    reason: str | None = None,
    detail: str = "",
) -> None:
    """One attempt, as `end_many` ends it."""
    end_many(connection, [AttemptEnd(attempt_id, state, cost, wall_seconds, outcome, reason, detail)])


def end_many(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    """Raises ValueError for an end that the state of the attempt does not allow."""
    a = t.attempt.c
    query = sa.select(a.id, a.state).where(among(connection, a.id, [one.attempt_id for one in ends]))
    states = {str(state): state for state in AttemptState}
    old = {int(id_): states[state] for id_, state in connection.execute(query).all()}
    for before, after in {(old[one.attempt_id], one.state) for one in ends}:
        check_transition(ATTEMPT_TRANSITIONS, before, after)
    now = db_now(connection)
    rows = [
        {
            "of": one.attempt_id, "state": one.state, "cost": dict(one.cost), "wall_seconds": one.wall_seconds,
            "outcome": one.outcome, "reason": one.reason, "detail": one.detail[:4000], "ended_at": now,
        }
        for one in ends
    ]  # fmt: skip
    execute_many(connection, _END, rows)
