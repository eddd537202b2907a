"""Trajectories and their turns: the inputs, calls and observations of a proposer. Each turn is written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.proposer_interfaces import FILTERED
from sciagent.inputs.environment_variables import code_version
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among
from sciagent.store.database.engine import db_now
from sciagent.store.results.evidence import read_watermark

_TRAJECTORY = t.trajectory.c
_TURN = t.turn.c
_PROPOSAL = t.proposal.c
_PROPOSALS = t.trajectory.join(t.turn, _TURN.trajectory_id == _TRAJECTORY.id).join(
    t.proposal, _PROPOSAL.turn_id == _TURN.id
)
RUNNING = "running"
ENDED = "ended"
Purpose = Literal["campaign", "rollout", "evaluation", "demonstration"]
"""The purpose of the turns of a trajectory."""
NOT_SAMPLED = "no model sampled it: a script or a client made the turn"
NOT_SAMPLED_HERE = "not sampled here: a client stated the answer, without its tokens"


class Asked(NamedTuple):
    """The moment at which a question was asked: later evidence had no influence on the answer."""

    watermark: int
    at: datetime


def asked_now(connection: Connection) -> Asked:
    """The present moment, for a question that is asked now."""
    return Asked(read_watermark(connection), db_now(connection))


@dataclass(frozen=True)
class TrajectoryRow:
    """One row of the trajectory table."""

    id: int
    number: int
    seed: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class SampledRow:
    """The message and tokens that a model sampled in a turn; token fields are None if the provider returns none."""

    message: Mapping[str, Any] = field(default_factory=dict)
    """The parsed answer of the model."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    kept: int | None = None
    """Number of tokens of earlier turns with which the prompt begins."""
    prompt_ids: Sequence[int] | None = None
    """The tokens of the prompt that follow the kept ones."""
    output_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    """Log-probability of each output token, in the distribution that `sampling` names under `logprobs`."""
    behaviour: Sequence[float] | None = None
    """Log-probability of each output token in the distribution that it was drawn from; None if unknown."""
    forced: Sequence[bool] | None = None
    """For each output token, whether the grammar left no choice."""
    template_hash: str | None = None


@dataclass(frozen=True)
class NewTurn:
    """A turn to be written."""

    number: int
    cursor: Mapping[str, Any]
    """State from which the proposer continues."""
    calls: Sequence[Mapping[str, Any]]
    observations: Sequence[Mapping[str, Any]]
    cost: Mapping[str, float]
    """{resource: amount}."""
    policy_version: str
    sampled: SampledRow | None = None
    asked: Asked | None = None
    """When the question was asked; None if unknown."""
    tool_set_id: int | None = None
    policy_id: int | None = None
    untrainable: str | None = NOT_SAMPLED
    """Why no policy gradient may use the turn; None if it may be used."""


def open_(
    connection: Connection,
    campaign_id: int,
    number: int,
    *,
    proposer: str,
    settings: Mapping[str, Any],
    seed: int,
    purpose: Purpose = "campaign",
    group_id: int | None = None,
    sibling: int | None = None,
    policy_version: str | None = None,
) -> int:
    """Returns the id of the campaign's trajectory with this number. Creates the trajectory if it does not exist.

    group_id, sibling: the group of rollouts, and the number of the episode in it, from 0. policy_version: the name of
    the model that is asked.
    """
    query = sa.select(_TRAJECTORY.id).where(_TRAJECTORY.campaign_id == campaign_id, _TRAJECTORY.number == number)
    existing_id = connection.execute(query).scalar()
    if existing_id is not None:
        return int(existing_id)
    new = sa.insert(t.trajectory).values(campaign_id=campaign_id, number=number, proposer=proposer, seed=seed)
    new = new.values(settings=dict(settings), state=RUNNING, started_at=db_now(connection))
    new = new.values(purpose=purpose, group_id=group_id, sibling=sibling, code_version=code_version())
    new = new.values(policy_version=None if policy_version is None else policy_version[:200])
    return int(connection.execute(new.returning(_TRAJECTORY.id)).scalar_one())


def running_trajectories(connection: Connection, campaign_id: int) -> list[TrajectoryRow]:
    """The trajectories of the campaign's own proposers that have not ended, oldest first."""
    query = sa.select(_TRAJECTORY.id, _TRAJECTORY.number, _TRAJECTORY.seed, _TRAJECTORY.settings).where(
        _TRAJECTORY.campaign_id == campaign_id, _TRAJECTORY.state == RUNNING
    )
    query = query.where(_TRAJECTORY.purpose == "campaign")
    return [TrajectoryRow(*row) for row in connection.execute(query.order_by(_TRAJECTORY.number)).all()]


def last_number(connection: Connection, campaign_id: int) -> int:
    """The highest number of the campaign's trajectories; -1 if there is none."""
    number = connection.execute(
        sa.select(sa.func.max(_TRAJECTORY.number)).where(_TRAJECTORY.campaign_id == campaign_id)
    ).scalar()
    return -1 if number is None else int(number)


def proposals_by_proposer(connection: Connection, campaign_id: int) -> dict[str, int]:
    """{name of a proposer: number of its proposals}, without proposals of people and those that a filter dropped."""
    query = (
        sa.select(_TRAJECTORY.proposer, sa.func.count(_PROPOSAL.id))
        .select_from(_PROPOSALS)
        .where(_TRAJECTORY.campaign_id == campaign_id, _PROPOSAL.status != FILTERED)
        .group_by(_TRAJECTORY.proposer)
    )
    return {name: n for name, n in connection.execute(query)}


def latest_log_chances(connection: Connection, campaign_id: int, proposer: str, n: int) -> list[float]:
    """Returns the logarithms of the last n chances that a filter compared of a proposer's proposals, oldest first."""
    decision = _PROPOSAL.filter_decision
    query = (
        sa.select(decision)
        .select_from(_PROPOSALS)
        .where(_TRAJECTORY.campaign_id == campaign_id, _TRAJECTORY.proposer == proposer)
        .where(sa.cast(decision, sa.Text) != "null")  # a proposal that no filter has judged holds null
        .order_by(_PROPOSAL.id.desc())
        .limit(4 * n)  # some were not compared
    )
    compared = [stated for stated in connection.execute(query).scalars() if stated["rank"] is not None]
    return [float(stated["log_chance"]) for stated in reversed(compared[:n])]


def filtered_among(connection: Connection, campaign_id: int, candidate_ids: Sequence[int]) -> set[int]:
    """Returns the ids of the candidates of which a filter of the campaign dropped a proposal."""
    query = sa.select(_PROPOSAL.candidate_id).where(_PROPOSAL.campaign_id == campaign_id, _PROPOSAL.status == FILTERED)
    return set(connection.execute(query.where(among(connection, _PROPOSAL.candidate_id, candidate_ids))).scalars())


def last_turn_brought_seeds(connection: Connection, trajectory_id: int) -> bool:
    """Whether the last turn of a trajectory proposed seeds."""
    last = sa.select(sa.func.max(_TURN.id)).where(_TURN.trajectory_id == trajectory_id).scalar_subquery()
    query = sa.select(_PROPOSAL.id).where(_PROPOSAL.turn_id == last, _PROPOSAL.operation == "seed").limit(1)
    return connection.execute(query).scalar() is not None


def end(connection: Connection, trajectory_id: int, why: str) -> None:
    """End a trajectory."""
    values = {"state": ENDED, "ended_at": db_now(connection), "ended_why": why}
    connection.execute(sa.update(t.trajectory).where(_TRAJECTORY.id == trajectory_id).values(values))


def last_turn(connection: Connection, trajectory_id: int) -> tuple[int, Mapping[str, Any]]:
    """Number and cursor of the last turn; (-1, {}) if there is none."""
    query = (
        sa.select(_TURN.number, _TURN.cursor)
        .where(_TURN.trajectory_id == trajectory_id)
        .order_by(_TURN.number.desc())
        .limit(1)
    )
    row = connection.execute(query).one_or_none()
    return (-1, {}) if row is None else (int(row.number), dict(row.cursor or {}))


def turns(connection: Connection, trajectory_id: int) -> list[Any]:
    """All turns in order, as rows of the table."""
    query = sa.select(t.turn).where(_TURN.trajectory_id == trajectory_id).order_by(_TURN.number)
    return list(connection.execute(query).mappings())


def write_turn(connection: Connection, trajectory_id: int, new: NewTurn, watermark: int) -> int:
    """Write a turn; returns its id.

    watermark: as `note_and_take_watermarks.note` returned it in this transaction.
    """
    values: dict[str, Any] = {"trajectory_id": trajectory_id, "at": db_now(connection), "watermark": watermark}
    values |= vars(new) | {"policy_version": new.policy_version[:200]}
    del values["sampled"], values["asked"]  # they are no columns; their fields are
    if new.sampled is not None:
        values |= vars(new.sampled)
    if new.asked is not None:
        values |= {"asked_watermark": new.asked.watermark, "asked_at": new.asked.at}
    values = {name: value for name, value in values.items() if value is not None}  # NULL, not the JSON value null
    return int(connection.execute(sa.insert(t.turn).values(values).returning(_TURN.id)).scalar_one())
