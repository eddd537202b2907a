"""Queries of a report on the episodes and proposers of a campaign.

An episode is a trajectory of a model or of a client of the tools. A script's trajectory is no episode, since a script
has no conversation. Prompt ids and log-probabilities are not read.

The database computes counts and sums. A proposer is identified by the label of its trajectories; None stands for
people, whose proposals have no turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.cost_and_budget import RESOURCE_UNITS
from sciagent.store.campaign_state.campaigns import CampaignRow
from sciagent.store.database import tables as t
from sciagent.store.views import campaign_counts_and_remarks
from sciagent.store.views.report_queries import stream, with_proposer

_CC = t.campaign_candidate.c
_P = t.proposal.c
_U = t.turn.c
_T = t.trajectory.c
MAX_CANDIDATES_READ = 400  # number of best candidates whose episodes are read


class EpisodeStart(NamedTuple):
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


class EpisodeProposal(NamedTuple):
    """A proposal of a turn."""

    turn_id: int
    text: str
    status: str
    """`new`, `duplicate` or `refused`."""
    reason: str | None
    operation: str | None
    rationale: str | None
    predicted: Any
    candidate_id: int | None


_SETTINGS = sa.type_coerce(_T.settings, sa.JSON())
# an episode was opened with messages, or by a client
_IS_EPISODE = sa.or_(_SETTINGS["opening"].as_string().is_not(None), _SETTINGS["client"].as_string().is_not(None))
_EPISODES = sa.select(*(_T[name] for name in EpisodeStart._fields)).where(_IS_EPISODE)


def episode_count(connection: Connection, row: CampaignRow) -> int:
    """Number of episodes of the campaign."""
    return campaign_counts_and_remarks.count(connection, t.trajectory, _T.campaign_id == row.id, _IS_EPISODE)


def episodes_page(connection: Connection, row: CampaignRow, after: int, n: int) -> list[EpisodeStart]:
    """The next n episodes in order, with a number above `after`."""
    query = _EPISODES.where(_T.campaign_id == row.id, _T.number > after).order_by(_T.number).limit(n)
    return [EpisodeStart(*episode) for episode in connection.execute(query)]


def latest_episodes(connection: Connection, row: CampaignRow, n: int) -> list[EpisodeStart]:
    """The last n episodes, latest first."""
    query = _EPISODES.where(_T.campaign_id == row.id).order_by(_T.number.desc()).limit(n)
    return [EpisodeStart(*episode) for episode in connection.execute(query)]


def episodes_behind_the_best(connection: Connection, row: CampaignRow, n: int) -> list[EpisodeStart]:
    """At most n episodes that first proposed one of the best candidates, in the order of the candidates."""
    query = (
        _EPISODES.select_from(with_proposer(t.campaign_candidate.join(t.proposal, _P.id == _CC.proposal_id)))
        .where(_CC.campaign_id == row.id)
        .order_by(*t.BEST_FIRST)
        .limit(MAX_CANDIDATES_READ)
    )
    episodes = {episode.id: EpisodeStart(*episode) for episode in connection.execute(query)}
    return list(episodes.values())[:n]


def episode_outcomes(connection: Connection, row: CampaignRow, ids: Sequence[int]) -> dict[int, EpisodeOutcome]:
    """{trajectory id: results of the episode}."""
    turns = sa.select(_U.trajectory_id, sa.func.count()).where(_U.trajectory_id.in_(ids)).group_by(_U.trajectory_id)
    is_first_proposal = sa.and_(
        _CC.campaign_id == row.id, _CC.candidate_id == _P.candidate_id, _CC.proposal_id == _P.id
    )
    first_proposals = (
        sa.select(_U.trajectory_id, sa.func.count(), sa.func.sum(sa.case((_CC.is_hit, 1), else_=0)))
        .select_from(t.turn.join(t.proposal, _P.turn_id == _U.id).outerjoin(t.campaign_candidate, is_first_proposal))
        .where(_U.trajectory_id.in_(ids), _P.status == "new")
        .group_by(_U.trajectory_id)
    )
    new_and_hits = {id_: (n_new, n_hits) for id_, n_new, n_hits in connection.execute(first_proposals)}
    outcomes = {}
    for id_, n_turns in connection.execute(turns):
        n_new, n_hits = new_and_hits.get(id_, (0, 0))
        outcomes[id_] = EpisodeOutcome(n_turns, n_new, n_hits)
    return outcomes


def turn_rows(connection: Connection, trajectory_id: int, n: int) -> list[Any]:
    """The first n turns of an episode, as mappings of selected columns."""
    shown = (_U.id, _U.number, _U.message, _U.calls, _U.observations, _U.sampling, _U.policy_version, _U.cost, _U.at)
    tokens = (_U.output_ids, _U.forced, _U.behaviour, _U.untrainable)
    query = sa.select(*shown, *tokens).where(_U.trajectory_id == trajectory_id)
    return list(connection.execute(query.order_by(_U.number).limit(n)).mappings())


def episode_proposals(connection: Connection, trajectory_id: int, n: int | None = None) -> list[EpisodeProposal]:
    """The first n proposals of an episode, or all, in order of arrival."""
    query = sa.select(*(_P[name] for name in EpisodeProposal._fields)).join(t.turn, _U.id == _P.turn_id)
    query = query.where(_U.trajectory_id == trajectory_id)
    return [EpisodeProposal(*proposal) for proposal in connection.execute(query.order_by(_P.id).limit(n))]


class ProposalCount(NamedTuple):
    """The number of a proposer's proposals with one status."""

    proposer: str | None
    status: str
    readable: bool
    """Whether a structure could be read from their texts."""
    n: int


class ResultsOfProposer(NamedTuple):
    """Results of the candidates that a proposer proposed first."""

    proposer: str | None
    paid: int
    """Number of candidates with an answer of a paid rung."""
    hits: int
    hits_in_seeds: int
    """Number of hits that were seed candidates, too."""
    utility: float | None
    """The best utility of the settled candidates."""


class ProposerTurns(NamedTuple):
    """The turns of a proposer."""

    proposer: str
    episodes: int
    turns: int
    costs: dict[str, float]
    """{resource: amount} of the turns themselves: of sampling, and of fast rungs that ran during a turn."""


class PredictionMade(NamedTuple):
    """A prediction made with a proposal."""

    candidate_id: int
    predicted: Any
    """The prediction as it was given, as JSON."""
    proposer: str | None
    episode: int | None
    """Number of the trajectory."""


def proposal_counts(connection: Connection, row: CampaignRow) -> list[ProposalCount]:
    """Numbers of proposals by proposer, status, and whether the texts could be read, without those that a filter
    dropped and whose candidate came into the campaign later."""
    by = (_T.proposer, _P.status, _P.candidate_id.is_not(None))
    query = sa.select(*by, sa.func.count()).select_from(with_proposer(t.proposal)).where(_P.campaign_id == row.id)
    query = query.where(~campaign_counts_and_remarks.was_sent_on())
    return [ProposalCount._make(group) for group in connection.execute(query.group_by(*by))]


def results_by_proposer(connection: Connection, row: CampaignRow, first_paid: int) -> list[ResultsOfProposer]:
    """Results of candidates, by the proposer that proposed them first. first_paid: position of the first paid rung."""
    has_paid_answer = _CC.depth >= first_paid
    is_hit_in_seeds = sa.and_(_CC.is_hit, _CC.in_seeds)
    numbers = [
        sa.func.sum(sa.case((condition, 1), else_=0)) for condition in (has_paid_answer, _CC.is_hit, is_hit_in_seeds)
    ]
    query = (
        sa.select(_T.proposer, *numbers, sa.func.max(_CC.utility))
        .select_from(with_proposer(t.campaign_candidate.outerjoin(t.proposal, _P.id == _CC.proposal_id)))
        .where(_CC.campaign_id == row.id)
        .group_by(_T.proposer)
    )
    return [ResultsOfProposer._make(group) for group in connection.execute(query)]


def costs_of_jobs(connection: Connection, row: CampaignRow) -> list[tuple[str | None, str, float]]:
    """(proposer, resource, amount) booked for verifying candidates, by the proposer that proposed them first."""
    s = t.spend.c
    query = (
        sa.select(_T.proposer, s.resource, sa.func.sum(s.amount))
        .select_from(with_proposer(join_of_job_costs()))
        .where(s.campaign_id == row.id)
        .group_by(_T.proposer, s.resource)
    )
    return [(who, resource, float(amount)) for who, resource, amount in connection.execute(query)]


def turns_by_proposer(connection: Connection, row: CampaignRow) -> list[ProposerTurns]:
    """Episodes, turns and their costs, by proposer."""
    sums = [sa.func.sum(turn_cost(resource)) for resource in RESOURCE_UNITS]
    query = (
        sa.select(_T.proposer, sa.func.count(_T.id.distinct()), sa.func.count(_U.id), *sums)
        .select_from(t.trajectory.outerjoin(t.turn, _U.trajectory_id == _T.id))
        .where(_T.campaign_id == row.id)
        .group_by(_T.proposer)
    )
    turns = []
    for proposer, n_episodes, n_turns, *amounts in connection.execute(query):
        amount_by_resource = zip(RESOURCE_UNITS, amounts, strict=True)
        costs = {resource: float(amount) for resource, amount in amount_by_resource if amount}
        turns.append(ProposerTurns(proposer, n_episodes, n_turns, costs))
    return turns


def predictions_made(connection: Connection, row: CampaignRow, latest: int | None = None) -> Iterator[PredictionMade]:
    """Predictions of new proposals, streamed in order of arrival.

    latest: yield only this number of predictions, newest first; None: all of them.
    """
    # a proposal without a prediction holds {} or null
    query = (
        sa.select(_P.candidate_id, _P.predicted, _T.proposer, _T.number)
        .select_from(with_proposer(t.proposal))
        .where(
            _P.campaign_id == row.id,
            _P.status == "new",
            _P.candidate_id.is_not(None),
            sa.cast(_P.predicted, sa.Text).not_in(["{}", "null"]),
        )
        .order_by(_P.id if latest is None else _P.id.desc())
        .limit(latest)
    )
    return (PredictionMade(*prediction) for prediction in stream(connection, query))


def episode_numbers(connection: Connection, row: CampaignRow) -> dict[str, tuple[int, int]]:
    """{proposer: (first, last) number of its trajectories}."""
    query = sa.select(_T.proposer, sa.func.min(_T.number), sa.func.max(_T.number)).where(_T.campaign_id == row.id)
    return {who: (low, high) for who, low, high in connection.execute(query.group_by(_T.proposer))}


def join_of_job_costs() -> Any:
    """A join of costs booked for jobs, with the candidates and the proposals that first brought them."""
    s = t.spend.c
    a = t.attempt.c
    j = t.job.c
    is_member = sa.and_(_CC.campaign_id == s.campaign_id, _CC.candidate_id == j.candidate_id)
    job_costs = t.spend.join(t.attempt, a.id == s.attempt_id).join(t.job, j.id == a.job_id)
    return job_costs.join(t.campaign_candidate, is_member).outerjoin(t.proposal, _P.id == _CC.proposal_id)


def turn_cost(resource: str) -> Any:
    """The amount of a resource in a turn's own cost; NULL if there is none."""
    return sa.type_coerce(_U.cost, sa.JSON())[resource].as_float()
