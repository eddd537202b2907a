"""What a report asks of those who propose: what each handed in, what became of it, what it cost, what it foretold.

Counts and sums are made by the database, in order n; what cannot be summed there streams. A proposer is known by the
label of its trajectories; None stands for proposals without a turn, which people made.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.cost import RESOURCE_UNITS
from sciagent.domain.outcomes import Outcome
from sciagent.store.campaign_state.campaigns import CampaignRow, RungRow
from sciagent.store.database import tables as t
from sciagent.store.views.report_queries import CHUNK, ProgressStep

_CC, _P, _U, _J = t.campaign_candidate.c, t.proposal.c, t.turn.c, t.trajectory.c


class Handed(NamedTuple):
    """n proposals of one status. readable: a structure could be made of the text."""

    proposer: str | None
    status: str
    readable: bool
    n: int


class Brought(NamedTuple):
    """What became of the candidates that a proposer was the first to propose. paid: how many have an answer of a paid
    rung. hits: seeds among them. utility: the best of those settled."""

    proposer: str | None
    n: int
    paid: int
    hits: int
    hits_in_seeds: int
    utility: float | None


class PredictionMade(NamedTuple):
    """A prediction made with a proposal. episode: number of the trajectory; predicted: JSON as it was given."""

    candidate_id: int
    predicted: Any
    proposer: str | None
    episode: int | None


def handed(connection: Connection, row: CampaignRow) -> list[Handed]:
    readable = _P.candidate_id.is_not(None)
    query = (
        sa.select(_J.proposer, _P.status, readable, sa.func.count())
        .select_from(_with_proposer(t.proposal))
        .where(_P.campaign_id == row.id)
        .group_by(_J.proposer, _P.status, readable)
    )
    return [Handed(who, status, bool(r), int(n)) for who, status, r, n in connection.execute(query)]


def brought(connection: Connection, row: CampaignRow, first_paid: int) -> list[Brought]:
    """first_paid: position of the first rung that is not fast."""
    hit = _CC.is_hit == sa.true()
    query = (
        sa.select(
            _J.proposer,
            sa.func.count(),
            _number(_CC.depth >= first_paid),
            _number(hit),
            _number(sa.and_(hit, _CC.in_seeds == sa.true())),
            sa.func.max(_CC.utility),
        )
        .select_from(_with_proposer(t.campaign_candidate.outerjoin(t.proposal, _P.id == _CC.proposal_id)))
        .where(_CC.campaign_id == row.id)
        .group_by(_J.proposer)
    )
    return [
        Brought(who, int(n), int(paid), int(hits), int(seeds), u)
        for who, n, paid, hits, seeds, u in connection.execute(query)
    ]


def costs_of_jobs(connection: Connection, row: CampaignRow) -> list[tuple[str | None, str, float]]:
    """(proposer, resource, amount) of all that was booked for verifying candidates, at who proposed them first."""
    s = t.spend.c
    query = (
        sa.select(_J.proposer, s.resource, sa.func.sum(s.amount))
        .select_from(_with_proposer(_jobs()))
        .where(s.campaign_id == row.id)
        .group_by(_J.proposer, s.resource)
    )
    return [(who, resource, float(amount)) for who, resource, amount in connection.execute(query)]


class Turns(NamedTuple):
    """costs: by resource, of the turns themselves: what was sampled, and fast rungs run at once."""

    proposer: str
    episodes: int
    turns: int
    costs: dict[str, float]


def turns(connection: Connection, row: CampaignRow) -> list[Turns]:
    sums = [sa.func.sum(_amount(resource)) for resource in RESOURCE_UNITS]
    query = (
        sa.select(_J.proposer, sa.func.count(_J.id.distinct()), sa.func.count(_U.id), *sums)
        .select_from(t.trajectory.outerjoin(t.turn, _U.trajectory_id == _J.id))
        .where(_J.campaign_id == row.id)
        .group_by(_J.proposer)
    )
    found = []
    for who, episodes, n, *amounts in connection.execute(query):
        costs = {name: float(x) for name, x in zip(RESOURCE_UNITS, amounts, strict=True) if x}
        found.append(Turns(who, int(episodes), int(n), costs))
    return found


def progress(
    connection: Connection, row: CampaignRow, terminal: RungRow, points: int = 300
) -> dict[str | None, list[ProgressStep]]:
    """By proposer, hits and best utility against the core-seconds booked for its candidates and its own turns by the
    time of each answer; at most 2 x `points` steps each, streamed."""
    steps: dict[str | None, list[ProgressStep]] = defaultdict(lambda: [ProgressStep(0.0, 0, None)])
    cost: dict[str | None, float] = defaultdict(float)
    merged = heapq.merge(
        _answers(connection, row, terminal),
        _reused(connection, row, terminal),
        _own(connection, row),
        key=lambda one: one[0],
    )
    for _, who, amount, hit, value in merged:
        cost[who] += amount
        mine = steps[who]
        last = mine[-1]
        best = last.utility if value is None else max(value, last.utility or 0.0)
        if hit or best != last.utility:
            mine.append(ProgressStep(cost[who], last.hits + bool(hit), best))
            if len(mine) > 2 * points:
                steps[who] = [mine[0], *mine[1:-1:2], mine[-1]]
    for who, total in cost.items():
        last = steps[who][-1]
        steps[who].append(ProgressStep(total, last.hits, last.utility))
    return dict(steps)


_Answer = tuple[datetime, str | None, float, bool | None, float | None]


def _answers(connection: Connection, row: CampaignRow, terminal: RungRow) -> Iterator[_Answer]:
    s, a = t.spend.c, t.attempt.c
    settles = sa.and_(a.outcome == Outcome.OK, s.rung_id == terminal.id, t.job.c.replicate == 0)
    query = (
        sa.select(s.at, _J.proposer, s.amount, sa.case((settles, _CC.is_hit)), sa.case((settles, _CC.utility)))
        .select_from(_with_proposer(_jobs()))
        .where(s.campaign_id == row.id, s.resource == "core_seconds")
        .order_by(s.at, s.id)
    )
    for at, who, amount, hit, utility in _stream(connection, query):
        yield at, who, float(amount), hit, utility


def _reused(connection: Connection, row: CampaignRow, terminal: RungRow) -> Iterator[_Answer]:
    d = t.decision.c
    here = sa.and_(_CC.campaign_id == d.campaign_id, _CC.candidate_id == d.candidate_id)
    joined = t.decision.join(t.campaign_candidate, here).outerjoin(t.proposal, _P.id == _CC.proposal_id)
    query = (
        sa.select(d.at, _J.proposer, _CC.is_hit, _CC.utility)
        .select_from(_with_proposer(joined))
        .where(d.rung_id == terminal.id, d.action == "reuse")
        .order_by(d.at, d.id)
    )
    for at, who, hit, utility in _stream(connection, query):
        yield at, who, 0.0, hit, utility


def _own(connection: Connection, row: CampaignRow) -> Iterator[_Answer]:
    query = (
        sa.select(_U.at, _J.proposer, _amount("core_seconds"))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _J.id))
        .where(_J.campaign_id == row.id)
        .order_by(_U.at, _U.id)
    )
    for at, who, amount in _stream(connection, query):
        yield at, who, float(amount or 0.0), None, None


def predictions(connection: Connection, row: CampaignRow, latest: int | None = None) -> Iterator[PredictionMade]:
    """Predictions with proposals that were new, in the order they came, streamed. latest: only so many, the latest
    first."""
    query = (
        sa.select(_P.candidate_id, _P.predicted, _J.proposer, _J.number)
        .select_from(_with_proposer(t.proposal))
        .where(
            _P.campaign_id == row.id,
            _P.status == "new",
            _P.candidate_id.is_not(None),
            sa.cast(_P.predicted, sa.Text).not_in(["{}", "null"]),
        )
        .order_by(_P.id if latest is None else _P.id.desc())
        .limit(latest)
    )
    for values in _stream(connection, query):
        yield PredictionMade(*values)


def episode_numbers(connection: Connection, row: CampaignRow) -> dict[str, tuple[int, int]]:
    """The first and the last number of each proposer's trajectories."""
    query = sa.select(_J.proposer, sa.func.min(_J.number), sa.func.max(_J.number)).where(_J.campaign_id == row.id)
    return {who: (int(low), int(high)) for who, low, high in connection.execute(query.group_by(_J.proposer))}


def _with_proposer(joined: Any) -> Any:
    """joined: holds proposals; those of people have neither turn nor trajectory."""
    return joined.outerjoin(t.turn, _U.id == _P.turn_id).outerjoin(t.trajectory, _J.id == _U.trajectory_id)


def _jobs() -> Any:
    """What was booked for jobs, with the place of their candidates and the proposals that brought them."""
    s, a, j = t.spend.c, t.attempt.c, t.job.c
    here = sa.and_(_CC.campaign_id == s.campaign_id, _CC.candidate_id == j.candidate_id)
    booked = t.spend.join(t.attempt, a.id == s.attempt_id).join(t.job, j.id == a.job_id)
    return booked.join(t.campaign_candidate, here).outerjoin(t.proposal, _P.id == _CC.proposal_id)


def _number(condition: Any) -> Any:
    return sa.func.sum(sa.case((condition, 1), else_=0))


def _amount(resource: str) -> Any:
    """The amount of a resource in a turn's own cost; NULL where it has none."""
    return sa.type_coerce(_U.cost, sa.JSON())[resource].as_float()


def _stream(connection: Connection, query: Any) -> Iterator[Any]:
    yield from connection.execute(query, execution_options={"yield_per": CHUNK})
