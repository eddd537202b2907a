"""Attempts: each time that somebody worked, with its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.jobs.states import ATTEMPT_TRANSITIONS, AttemptState, check_transition
from sciagent.store.database import tables as t
from sciagent.store.database.bulk import among, execute_many
from sciagent.store.database.clock import db_now

_BEFORE = {end: [one for one, after in ATTEMPT_TRANSITIONS.items() if end in after] for end in AttemptState}
_END_AS = {
    end: sa.update(t.attempt).where(
        t.attempt.c.id == sa.bindparam("of"), sa.or_(sa.false(), *(t.attempt.c.state == one for one in before))
    )
    for end, before in _BEFORE.items()
}


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
    connection: Connection,
    owner: str,
    *,
    campaign_id: int | None,
    rung_id: int | None,
    job_id: int | None = None,
    fence: int = 0,
    n_candidates: int = 1,
) -> int:
    now = db_now(connection)
    values: dict[str, Any] = {
        "campaign_id": campaign_id,
        "rung_id": rung_id,
        "job_id": job_id,
        "fence": fence,
        "owner": owner,
        "state": AttemptState.RUNNING,
        "n_candidates": n_candidates,
        "cost": {},
        "started_at": now,
        "heartbeat_at": now,
    }
    return int(connection.execute(sa.insert(t.attempt).values(values).returning(t.attempt.c.id)).scalar_one())


def end_many(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    """Raises ValueError for an end that the state of the attempt does not allow."""
    rows = [
        {
            "of": one.attempt_id,
            "state": one.state,
            "cost": dict(one.cost),
            "wall_seconds": one.wall_seconds,
            "outcome": one.outcome,
            "reason": one.reason,
            "detail": one.detail[:4000],
        }
        for one in ends
    ]
    ended = {"ended_at": db_now(connection)}
    for state in {one.state for one in ends}:
        mine = [row for row in rows if row["state"] is state]
        if execute_many(connection, _END_AS[state], mine, ended) != len(mine):
            _refuse(connection, [one for one in ends if one.state is state])


def booked(connection: Connection, attempt_ids: Sequence[int]) -> dict[int, tuple[AttemptState, Mapping[str, float]]]:
    """{attempt id: its state, and what was booked for it}."""
    a = t.attempt.c
    query = sa.select(a.id, a.state, a.cost).where(among(connection, a.id, attempt_ids))
    return {int(id_): (AttemptState(state), cost) for id_, state, cost in connection.execute(query).all()}


def _refuse(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    """Say what was wrong with one of them."""
    a = t.attempt.c
    query = sa.select(a.state).where(among(connection, a.id, [one.attempt_id for one in ends])).distinct()
    for before in connection.execute(query).scalars():
        if before != ends[0].state:  # those are the ones that have just been ended
            check_transition(ATTEMPT_TRANSITIONS, AttemptState(before), ends[0].state)
    raise ValueError(f"an attempt cannot become {ends[0].state}: it has ended so before, or is not in the ledger")
