"""Trajectories and their turns: the inputs, calls and observations of a proposer. Each turn is written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.store.database import tables as t
from sciagent.store.database.clock import db_now
from sciagent.store.results.evidence import read_watermark

_J, _U = t.trajectory.c, t.turn.c
RUNNING, ENDED = "running", "ended"


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
    """The tokens of the prompt after the kept ones."""
    output_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    """Log-probability of each output token."""
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


def open_(
    connection: Connection, campaign_id: int, number: int, *, proposer: str, settings: Mapping[str, Any], seed: int
) -> int:
    """Returns the id of the campaign's trajectory with this number. Creates the trajectory if it does not exist."""
    query = sa.select(_J.id).where(_J.campaign_id == campaign_id, _J.number == number)
    if (id_ := connection.execute(query).scalar()) is not None:
        return int(id_)
    new = sa.insert(t.trajectory).values(campaign_id=campaign_id, number=number, proposer=proposer, seed=seed)
    new = new.values(settings=dict(settings), state=RUNNING, started_at=db_now(connection))
    return int(connection.execute(new.returning(_J.id)).scalar_one())


def running(connection: Connection, campaign_id: int) -> list[TrajectoryRow]:
    """The trajectories that have not ended, oldest first."""
    query = sa.select(_J.id, _J.number, _J.seed, _J.settings).where(_J.campaign_id == campaign_id, _J.state == RUNNING)
    return [TrajectoryRow(*row) for row in connection.execute(query.order_by(_J.number)).all()]


def last_number(connection: Connection, campaign_id: int) -> int:
    """The highest number of the campaign's trajectories; -1 if there is none."""
    number = connection.execute(sa.select(sa.func.max(_J.number)).where(_J.campaign_id == campaign_id)).scalar()
    return -1 if number is None else int(number)


def proposals_by(connection: Connection, campaign_id: int) -> dict[str, int]:
    """Number of proposals by the proposer's name, without those of people."""
    p = t.proposal.c
    query = (
        sa.select(_J.proposer, sa.func.count(p.id))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _J.id).join(t.proposal, p.turn_id == _U.id))
        .where(_J.campaign_id == campaign_id)
        .group_by(_J.proposer)
    )
    return {name: n for name, n in connection.execute(query)}


def end(connection: Connection, trajectory_id: int, why: str) -> None:
    """End a trajectory. why: stored with its settings."""
    settings = connection.execute(sa.select(_J.settings).where(_J.id == trajectory_id)).scalar_one()
    values = {"state": ENDED, "ended_at": db_now(connection), "settings": {**settings, "ended": why}}
    connection.execute(sa.update(t.trajectory).where(_J.id == trajectory_id).values(values))


def last_turn(connection: Connection, trajectory_id: int) -> tuple[int, Mapping[str, Any]]:
    """Number and cursor of the last turn; (-1, {}) if there is none."""
    query = sa.select(_U.number, _U.cursor).where(_U.trajectory_id == trajectory_id).order_by(_U.number.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return (-1, {}) if row is None else (int(row[0]), dict(row[1] or {}))


def turns(connection: Connection, trajectory_id: int) -> list[Any]:
    """All turns in order, as rows of the table."""
    query = sa.select(t.turn).where(_U.trajectory_id == trajectory_id).order_by(_U.number)
    return list(connection.execute(query).mappings())


def write_turn(connection: Connection, trajectory_id: int, new: NewTurn) -> int:
    """Write a turn; returns its id."""
    values = {"trajectory_id": trajectory_id, "watermark": read_watermark(connection), "at": db_now(connection)}
    values |= vars(new) | {"policy_version": new.policy_version[:200]}
    del values["sampled"]
    if new.sampled is not None:
        values |= vars(new.sampled)
    return int(connection.execute(sa.insert(t.turn).values(values).returning(_U.id)).scalar_one())
