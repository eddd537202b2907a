"""What a report shows of single episodes. An episode is a trajectory of a model or of a client of the tools; that of a
script, which has no conversation, is none. Prompt ids and log-probabilities stay in the database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t

_CC, _P, _U, _J = t.campaign_candidate.c, t.proposal.c, t.turn.c, t.trajectory.c


class Begun(NamedTuple):
    """settings: of the proposer, with `opening` and, once it is over, `ended`."""

    id: int
    number: int
    proposer: str
    state: str
    started_at: datetime
    ended_at: datetime | None
    settings: dict[str, Any]


class EpisodeOutcome(NamedTuple):
    """turns: how many it has. new: candidates that it was the first to propose; hits: among them."""

    turns: int
    new: int
    hits: int


class Proposed(NamedTuple):
    turn_id: int
    text: str
    status: str
    reason: str | None
    detail: str | None
    operation: str | None
    rationale: str | None
    predicted: Any
    candidate_id: int | None


def _is_one() -> Any:
    """That the trajectory is an episode: it was opened with messages, or by a client."""
    settings = sa.type_coerce(_J.settings, sa.JSON())
    return sa.or_(settings["opening"].as_string().is_not(None), settings["client"].as_string().is_not(None))


def count(connection: Connection, row: CampaignRow) -> int:
    query = sa.select(sa.func.count()).select_from(t.trajectory).where(_J.campaign_id == row.id, _is_one())
    return int(connection.execute(query).scalar_one())


_BEGUN = (_J.id, _J.number, _J.proposer, _J.state, _J.started_at, _J.ended_at, _J.settings)


def page(connection: Connection, row: CampaignRow, after: int, n: int) -> list[Begun]:
    """n episodes with a number above `after`, in order."""
    query = sa.select(*_BEGUN).where(_J.campaign_id == row.id, _J.number > after, _is_one()).order_by(_J.number)
    return [Begun(*one) for one in connection.execute(query.limit(n))]


def latest(connection: Connection, row: CampaignRow, n: int) -> list[Begun]:
    """The last n, the latest first."""
    query = sa.select(*_BEGUN).where(_J.campaign_id == row.id, _is_one()).order_by(_J.number.desc()).limit(n)
    return [Begun(*one) for one in connection.execute(query)]


def behind_the_best(connection: Connection, row: CampaignRow, n: int, looked_at: int = 400) -> list[Begun]:
    """Up to n episodes that were the first to propose one of the best, the best first; hits are before all others.
    looked_at: how many of the best."""
    query = (
        sa.select(*_BEGUN)
        .select_from(t.campaign_candidate)
        .join(t.proposal, _P.id == _CC.proposal_id)
        .join(t.turn, _U.id == _P.turn_id)
        .join(t.trajectory, _J.id == _U.trajectory_id)
        .where(_CC.campaign_id == row.id, _is_one())
        .order_by(_CC.is_hit.desc(), _CC.depth.desc(), _CC.score.desc().nulls_last(), _CC.seq)
        .limit(looked_at)
    )
    found: dict[int, Begun] = {}
    for one in connection.execute(query):
        found.setdefault(one[0], Begun(*one))
        if len(found) == n:
            break
    return list(found.values())


def outcomes(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, EpisodeOutcome]:
    """What became of the candidates of these trajectories."""
    turns = sa.select(_U.trajectory_id, sa.func.count()).where(_U.trajectory_id.in_(ids)).group_by(_U.trajectory_id)
    here = sa.and_(_CC.campaign_id == row.id, _CC.candidate_id == _P.candidate_id, _CC.proposal_id == _P.id)
    made = (
        sa.select(_U.trajectory_id, sa.func.count(), sa.func.sum(sa.case((_CC.is_hit == sa.true(), 1), else_=0)))
        .select_from(t.turn.join(t.proposal, _P.turn_id == _U.id).outerjoin(t.campaign_candidate, here))
        .where(_U.trajectory_id.in_(ids), _P.status == "new")
        .group_by(_U.trajectory_id)
    )
    brought = {int(id_): (int(n), int(hits)) for id_, n, hits in connection.execute(made)}
    return {int(id_): EpisodeOutcome(int(n), *brought.get(int(id_), (0, 0))) for id_, n in connection.execute(turns)}


def turns(connection: Connection, trajectory_id: int, n: int) -> list[Any]:
    """The first n, as mappings: id, number, message, calls, observations, sampling, policy_version, cost, at,
    output_ids, forced."""
    columns = (
        _U.id,
        _U.number,
        _U.message,
        _U.calls,
        _U.observations,
        _U.sampling,
        _U.policy_version,
        _U.cost,
        _U.at,
        _U.output_ids,
        _U.forced,
    )
    query = sa.select(*columns).where(_U.trajectory_id == trajectory_id).order_by(_U.number).limit(n)
    return list(connection.execute(query).mappings())


def proposals(connection: Connection, trajectory_id: int, n: int | None = None) -> list[Proposed]:
    """The first n proposals of an episode, or all, in the order they came."""
    query = (
        sa.select(
            _P.turn_id,
            _P.text,
            _P.status,
            _P.reason,
            _P.detail,
            _P.operation,
            _P.rationale,
            _P.predicted,
            _P.candidate_id,
        )
        .join(t.turn, _U.id == _P.turn_id)
        .where(_U.trajectory_id == trajectory_id)
        .order_by(_P.id)
        .limit(n)
    )
    return [Proposed(*one) for one in connection.execute(query)]
