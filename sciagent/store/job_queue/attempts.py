"""Attempts: each execution of a job, and each execution of a verifier without a job, with its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.outcomes_verdicts_and_reasons import Outcome, Reason
from sciagent.domain.states_and_needs import ATTEMPT_TRANSITIONS, AttemptState, ReportedProgress, check_transition
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, execute_many, insert_many
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import next_watermark


def _end_as(end: AttemptState) -> sa.Update:
    """An update of an attempt, if its present state allows this end."""
    states_before = [state for state, after in ATTEMPT_TRANSITIONS.items() if end in after]
    is_allowed = sa.or_(sa.false(), *(t.attempt.c.state == state for state in states_before))
    return sa.update(t.attempt).where(t.attempt.c.id == sa.bindparam("attempt_id"), is_allowed)


_END_AS = {end: _end_as(end) for end in AttemptState}
# only an attempt that has a watermark, since it ended before its worker came back
_MARK_LATE = sa.update(t.attempt).where(
    t.attempt.c.id == sa.bindparam("attempt_id"), t.attempt.c.watermark.is_not(None)
)
# only an attempt that has no watermark yet
_MARK_END = sa.update(t.attempt).where(t.attempt.c.id == sa.bindparam("attempt_id"), t.attempt.c.watermark.is_(None))


@dataclass(frozen=True)
class AttemptEnd:
    """The end of an attempt."""

    attempt_id: int
    state: AttemptState
    cost: Mapping[str, float]
    wall_seconds: float | None
    """None if unknown."""
    outcome: str | None = None
    reason: str | None = None
    detail: str = ""


def begin(
    connection: Connection,
    owner: str,
    *,
    campaign_id: int | None,
    rung_id: int | None,
    n_candidates: int = 1,
    turn_id: int | None = None,
) -> int:
    """Begin an attempt that has no job; returns its id. turn_id: the turn within which it runs."""
    now = db_now(connection)
    a = t.attempt.c
    new = sa.insert(t.attempt).values(campaign_id=campaign_id, rung_id=rung_id, owner=owner, n_candidates=n_candidates)
    new = new.values(fence=0, state=AttemptState.RUNNING, cost={}, started_at=now, heartbeat_at=now, turn_id=turn_id)
    return int(connection.execute(new.returning(a.id)).scalar_one())


def write_ended(connection: Connection, owner: str, costs: Sequence[Mapping[str, float]]) -> list[int]:
    """Write attempts of no campaign that were made elsewhere, one for each cost, and return their ids in order."""
    now = db_now(connection)
    ended = {"owner": owner[:200], "state": AttemptState.DONE, "outcome": Outcome.OK, "fence": 0, "n_candidates": 1}
    ended |= {"started_at": now, "heartbeat_at": now, "ended_at": now}
    return insert_many(connection, t.attempt, [{"cost": dict(cost)} for cost in costs], ended)


def environment_fault(connection: Connection, campaign_id: int) -> tuple[int, str] | None:
    """Returns (rung id, detail of its last failed attempt) of a rung that cannot run; None if there is none.

    A rung cannot run if it has no successful attempt in the campaign, and an attempt lacked a package, a program or a
    file.
    """
    a = t.attempt.c
    failed = sa.and_(a.state == AttemptState.FAILED, a.outcome == Outcome.BAD_ENVIRONMENT, a.reason != Reason.RETURNED)
    last = sa.func.max(sa.case((failed, a.id)))
    done = sa.func.count(sa.case((a.state == AttemptState.DONE, a.id)))
    by_rung = sa.select(a.rung_id, last.label("last")).where(a.campaign_id == campaign_id, a.rung_id.is_not(None))
    faults = by_rung.group_by(a.rung_id).having(done == 0, last.is_not(None)).subquery()
    found = sa.select(a.rung_id, a.detail).join(faults, a.id == faults.c.last).order_by(a.rung_id).limit(1)
    row = connection.execute(found).first()
    return None if row is None else (int(row.rung_id), str(row.detail))


def end_many(connection: Connection, ends: Sequence[AttemptEnd]) -> None:
    """End attempts. Raises ValueError if the state of an attempt does not allow its end."""
    rows = [vars(end) | {"detail": end.detail[:4000]} for end in ends]
    ended = {"ended_at": db_now(connection)}
    for state in {end.state for end in ends}:
        rows_of_state = [row for row in rows if row["state"] is state]
        n_changed = execute_many(connection, _END_AS[state], rows_of_state, ended)
        if n_changed != len(rows_of_state):
            _refuse(connection, [end.attempt_id for end in ends if end.state is state], state)


def mark_end(connection: Connection, attempt_ids: Sequence[int], watermark: int | None = None) -> None:
    """Write the watermark at which attempts ended. watermark: the watermark of their evidence; None: a new one.

    "All attempts up to w" is then a fixed set, like all evidence. A new watermark is locked until the commit, so the
    transaction must not wait for another row afterwards. An attempt that ended before keeps its watermark.
    """
    if not attempt_ids:
        return
    at = next_watermark(connection) if watermark is None else watermark
    execute_many(connection, _MARK_END, [{"attempt_id": id_} for id_ in attempt_ids], {"watermark": at})


def mark_late(connection: Connection, booked_before: Mapping[int, Mapping[str, float]]) -> None:
    """Write that the cost of lost attempts was raised at a new watermark, since their workers came back.

    booked_before: {attempt id: cost until then}, which remains their cost as of earlier watermarks. Attempts that have
    not ended at a watermark yet are left out. As after `mark_end`, the transaction must not wait for another row.
    """
    if booked_before:
        rows = [{"attempt_id": id_, "cost_at_loss": dict(cost)} for id_, cost in booked_before.items()]
        execute_many(connection, _MARK_LATE, rows, {"late_watermark": next_watermark(connection)})


def progress_of(
    stored: Mapping[str, Any] | None, reported_at: datetime | None, now: datetime
) -> ReportedProgress | None:
    """The progress in the columns `progress` and `progress_at` of an attempt, with its age at `now`; None if it has
    reported none."""
    if stored is None or reported_at is None:
        return None
    age = (now - reported_at).total_seconds()
    return replace(ReportedProgress(**stored), age_seconds=max(0.0, age))


def booked(connection: Connection, attempt_ids: Sequence[int]) -> dict[int, tuple[AttemptState, Mapping[str, float]]]:
    """{attempt id: (state, booked cost)}. The attempts are locked, in the order of their ids, so that nobody else books
    a further cost of them meanwhile."""
    a = t.attempt.c
    query = sa.select(a.id, a.state, a.cost).where(among(connection, a.id, attempt_ids))
    rows = connection.execute(query.order_by(a.id).with_for_update()).all()
    return {id_: (AttemptState(state), cost) for id_, state, cost in rows}


def _refuse(connection: Connection, attempt_ids: Sequence[int], end: AttemptState) -> None:
    """Raises the ValueError that explains why one of these attempts cannot end."""
    for before, _ in booked(connection, attempt_ids).values():
        if before != end:  # the others have just been ended
            check_transition(ATTEMPT_TRANSITIONS, before, end)
    raise ValueError(f"an attempt cannot become {end}: it has ended so before, or is not in the ledger")
