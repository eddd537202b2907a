"""Single episodes of a report. An episode is a trajectory of a model or of a client of the tools.

A script's trajectory is not an episode, since it has no conversation. Prompt ids and log-probabilities are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.views import campaign_counts
from sciagent.store.views.queries import with_proposer

_CC, _P, _U, _J = t.campaign_candidate.c, t.proposal.c, t.turn.c, t.trajectory.c
LOOKED_AT = 400  # number of best candidates whose episodes are read


class Begun(NamedTuple):
    """An episode, with columns of its trajectory."""

    id: int
    number: int
    proposer: str
    state: str
    started_at: datetime
    ended_at: datetime | None
    ended_why: str | None
    settings: dict[str, Any]
    """Settings of the proposer, with `opening`."""


class EpisodeOutcome(NamedTuple):
    """The results of an episode."""

    turns: int
    new: int
    """Number of candidates that it proposed first."""
    hits: int
    """Number of hits among these candidates."""


class Proposed(NamedTuple):
    """A proposal of a turn."""

    turn_id: int
    text: str
    status: str
    reason: str | None
    operation: str | None
    rationale: str | None
    predicted: Any
    candidate_id: int | None


_SETTINGS = sa.type_coerce(_J.settings, sa.JSON())
# an episode was opened with messages, or by a client
_IS_EPISODE = sa.or_(_SETTINGS["opening"].as_string().is_not(None), _SETTINGS["client"].as_string().is_not(None))
_EPISODES = sa.select(*(_J[name] for name in Begun._fields)).where(_IS_EPISODE)


def count(connection: Connection, row: CampaignRow) -> int:
    """Number of episodes of the campaign."""
    return campaign_counts.count(connection, t.trajectory, _J.campaign_id == row.id, _IS_EPISODE)


def page(connection: Connection, row: CampaignRow, after: int, n: int) -> list[Begun]:
    """The next n episodes in order, with a number above `after`."""
    query = _EPISODES.where(_J.campaign_id == row.id, _J.number > after).order_by(_J.number).limit(n)
    return [Begun(*episode) for episode in connection.execute(query)]


def latest(connection: Connection, row: CampaignRow, n: int) -> list[Begun]:
    """The last n episodes, latest first."""
    query = _EPISODES.where(_J.campaign_id == row.id).order_by(_J.number.desc()).limit(n)
    return [Begun(*episode) for episode in connection.execute(query)]


def behind_the_best(connection: Connection, row: CampaignRow, n: int) -> list[Begun]:
    """At most n episodes that first proposed one of the best candidates, in the order of the candidates."""
    query = (
        _EPISODES.select_from(with_proposer(t.campaign_candidate.join(t.proposal, _P.id == _CC.proposal_id)))
        .where(_CC.campaign_id == row.id)
        .order_by(*t.BEST_FIRST)
        .limit(LOOKED_AT)
    )
    episodes = {episode.id: Begun(*episode) for episode in connection.execute(query)}
    return list(episodes.values())[:n]


def outcomes(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, EpisodeOutcome]:
    """{trajectory id: results of the episode}."""
    turns = sa.select(_U.trajectory_id, sa.func.count()).where(_U.trajectory_id.in_(ids)).group_by(_U.trajectory_id)
    here = sa.and_(_CC.campaign_id == row.id, _CC.candidate_id == _P.candidate_id, _CC.proposal_id == _P.id)
    first_proposals = (
        sa.select(_U.trajectory_id, sa.func.count(), sa.func.sum(sa.case((_CC.is_hit, 1), else_=0)))
        .select_from(t.turn.join(t.proposal, _P.turn_id == _U.id).outerjoin(t.campaign_candidate, here))
        .where(_U.trajectory_id.in_(ids), _P.status == "new")
        .group_by(_U.trajectory_id)
    )
    new_and_hits = {id_: (n, hits) for id_, n, hits in connection.execute(first_proposals)}
    return {id_: EpisodeOutcome(n, *new_and_hits.get(id_, (0, 0))) for id_, n in connection.execute(turns)}


def turns(connection: Connection, trajectory_id: int, n: int) -> list[Any]:
    """The first n turns of an episode, as mappings of selected columns."""
    shown = (_U.id, _U.number, _U.message, _U.calls, _U.observations, _U.sampling, _U.policy_version, _U.cost, _U.at)
    tokens = (_U.output_ids, _U.forced, _U.behaviour, _U.untrainable)
    query = sa.select(*shown, *tokens).where(_U.trajectory_id == trajectory_id)
    return list(connection.execute(query.order_by(_U.number).limit(n)).mappings())


def proposals(connection: Connection, trajectory_id: int, n: int | None = None) -> list[Proposed]:
    """The first n proposals of an episode, or all, in order of arrival."""
    query = sa.select(*(_P[name] for name in Proposed._fields)).join(t.turn, _U.id == _P.turn_id)
    query = query.where(_U.trajectory_id == trajectory_id)
    return [Proposed(*proposal) for proposal in connection.execute(query.order_by(_P.id).limit(n))]
