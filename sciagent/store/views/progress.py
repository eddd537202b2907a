"""Hits and best utility against the core-seconds booked so far, for a campaign and for each of its proposers."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.outcomes import Outcome
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.views.queries import booked, stream, with_proposer
from sciagent.store.views.report_proposers import booked_for_jobs, turn_cost

_CC, _P, _U, _J = t.campaign_candidate.c, t.proposal.c, t.turn.c, t.trajectory.c
_Event = tuple[datetime, str | None, float, bool | None, float | None]  # time, proposer, core-seconds, hit, utility


@dataclass(frozen=True)
class ProgressStep:
    """The state of a campaign, or of a proposer, after `core_seconds` of booked cost."""

    core_seconds: float
    hits: int
    utility: float | None
    """The best utility so far; None before the first."""


def progress(connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 800) -> list[ProgressStep]:
    """Steps of the whole campaign, with all core-seconds booked before; at most 2 x `points` steps are kept."""
    events = (_paid(connection, row, terminal, booked(), sa.null()), _reused(connection, row, terminal, sa.null()))
    start = ProgressStep(0.0, 0, None)
    return _steps(heapq.merge(*events, key=lambda event: event[0]), points).get(None, [start, start])


def progress_by_proposer(
    connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 300
) -> dict[str | None, list[ProgressStep]]:
    """Steps of each proposer, with the core-seconds booked for its candidates and its own turns."""
    events = (
        _paid(connection, row, terminal, with_proposer(booked_for_jobs()), _J.proposer),
        _reused(connection, row, terminal, _J.proposer),
        _turns(connection, row),
    )
    return _steps(heapq.merge(*events, key=lambda event: event[0]), points)


def _steps(events: Iterable[_Event], points: int) -> dict[str | None, list[ProgressStep]]:
    """The steps of each proposer at which hits or utility changed, thinned out, with the first and the last."""
    steps: dict[str | None, list[ProgressStep]] = {}
    cost: dict[str | None, float] = {}
    for _, who, amount, hit, utility in events:
        mine = steps.setdefault(who, [ProgressStep(0.0, 0, None)])
        cost[who] = cost.get(who, 0.0) + amount
        best = max((value for value in (mine[-1].utility, utility) if value is not None), default=None)
        if hit or best != mine[-1].utility:
            mine.append(ProgressStep(cost[who], mine[-1].hits + bool(hit), best))
            if len(mine) > 2 * points:
                steps[who] = [mine[0], *mine[1:-1:2], mine[-1]]
    for who, mine in steps.items():
        mine.append(ProgressStep(cost[who], mine[-1].hits, mine[-1].utility))
    return steps


def _paid(connection: Connection, row: CampaignRow, terminal: RungRow, costs: Any, proposer: Any) -> Iterator[_Event]:
    """Booked core-seconds, with hit and utility if they paid for an answer of the terminal rung."""
    s, a = t.spend.c, t.attempt.c
    settles = sa.and_(a.outcome == Outcome.OK, s.rung_id == terminal.id, t.job.c.replicate == 0)
    query = (
        sa.select(s.at, proposer, s.amount, sa.case((settles, _CC.is_hit)), sa.case((settles, _CC.utility)))
        .select_from(costs)
        .where(s.campaign_id == row.id, s.resource == "core_seconds")
        .order_by(s.at, s.id)
    )
    yield from stream(connection, query)


def _reused(connection: Connection, row: CampaignRow, terminal: RungRow, proposer: Any) -> Iterator[_Event]:
    """Answers of the terminal rung that were reused."""
    d = t.decision.c
    here = sa.and_(_CC.campaign_id == d.campaign_id, _CC.candidate_id == d.candidate_id)
    joined = t.decision.join(t.campaign_candidate, here).outerjoin(t.proposal, _P.id == _CC.proposal_id)
    query = (
        sa.select(d.at, proposer, sa.literal(0.0), _CC.is_hit, _CC.utility)
        .select_from(with_proposer(joined))
        .where(d.rung_id == terminal.id, d.action == "reuse")
        .order_by(d.at, d.id)
    )
    yield from stream(connection, query)


def _turns(connection: Connection, row: CampaignRow) -> Iterator[_Event]:
    """The cost of the proposers' own turns."""
    query = (
        sa.select(_U.at, _J.proposer, turn_cost("core_seconds"))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _J.id))
        .where(_J.campaign_id == row.id)
        .order_by(_U.at, _U.id)
    )
    for at, who, amount in stream(connection, query):
        yield at, who, float(amount or 0.0), None, None
