"""Trajectories and their turns: what a proposer, scripted or a model, was asked, did and saw; written once each."""

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
    id: int
    number: int
    seed: int
    settings: dict[str, Any]


@dataclass(frozen=True)
class SampledRow:
    """What a model sampled in a turn. message: as it was parsed. kept: how many of the tokens held so far its prompt
    begins with; prompt_ids: those that come after. None where the provider returns no tokens."""

    message: Mapping[str, Any] = field(default_factory=dict)
    sampling: Mapping[str, Any] = field(default_factory=dict)
    kept: int | None = None
    prompt_ids: Sequence[int] | None = None
    output_ids: Sequence[int] | None = None
    logprobs: Sequence[float] | None = None
    forced: Sequence[bool] | None = None
    template_hash: str | None = None


@dataclass(frozen=True)
class NewTurn:
    number: int
    cursor: Mapping[str, Any]
    calls: Sequence[Mapping[str, Any]]
    observations: Sequence[Mapping[str, Any]]
    cost: Mapping[str, float]
    policy: str
    sampled: SampledRow | None = None


def open_(
    connection: Connection, campaign_id: int, number: int, *, proposer: str, settings: Mapping[str, Any], seed: int
) -> int:
    """The id of the campaign's trajectory of that number; it is begun where it is not there."""
    query = sa.select(_J.id).where(_J.campaign_id == campaign_id, _J.number == number)
    if (found := connection.execute(query).scalar()) is not None:
        return int(found)
    values = {
        "campaign_id": campaign_id,
        "number": number,
        "proposer": proposer,
        "settings": dict(settings),
        "seed": seed,
        "state": RUNNING,
        "started_at": db_now(connection),
    }
    return int(connection.execute(sa.insert(t.trajectory).values(values).returning(_J.id)).scalar_one())


def running(connection: Connection, campaign_id: int) -> list[TrajectoryRow]:
    """Those that have not ended, oldest first."""
    query = sa.select(_J.id, _J.number, _J.seed, _J.settings).where(_J.campaign_id == campaign_id, _J.state == RUNNING)
    return [TrajectoryRow(*row) for row in connection.execute(query.order_by(_J.number)).all()]


def last_number(connection: Connection, campaign_id: int) -> int:
    """The highest number of a trajectory of the campaign; -1 without any."""
    found = connection.execute(sa.select(sa.func.max(_J.number)).where(_J.campaign_id == campaign_id)).scalar()
    return -1 if found is None else int(found)


def proposals_by(connection: Connection, campaign_id: int) -> dict[str, int]:
    """How many each proposer has made, by its name; those of people are nobody's."""
    p = t.proposal.c
    query = (
        sa.select(_J.proposer, sa.func.count(p.id))
        .select_from(t.trajectory.join(t.turn, _U.trajectory_id == _J.id).join(t.proposal, p.turn_id == _U.id))
        .where(_J.campaign_id == campaign_id)
        .group_by(_J.proposer)
    )
    return {name: int(n) for name, n in connection.execute(query).all()}


def end(connection: Connection, trajectory_id: int, why: str) -> None:
    """why: kept beside its settings."""
    settings = connection.execute(sa.select(_J.settings).where(_J.id == trajectory_id)).scalar_one()
    values = {"state": ENDED, "ended_at": db_now(connection), "settings": {**settings, "ended": why}}
    connection.execute(sa.update(t.trajectory).where(_J.id == trajectory_id).values(values))


def last_turn(connection: Connection, trajectory_id: int) -> tuple[int, dict[str, Any]]:
    """Number and cursor; -1 and nothing before the first."""
    query = sa.select(_U.number, _U.cursor).where(_U.trajectory_id == trajectory_id).order_by(_U.number.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return (-1, {}) if row is None else (int(row[0]), dict(row[1] or {}))


def turns(connection: Connection, trajectory_id: int) -> list[Any]:
    """All of them, in order, as rows of the table."""
    query = sa.select(t.turn).where(_U.trajectory_id == trajectory_id).order_by(_U.number)
    return list(connection.execute(query).mappings())


def write_turn(connection: Connection, trajectory_id: int, new: NewTurn) -> int:
    """Returns the turn's id."""
    values = {
        "trajectory_id": trajectory_id,
        "number": new.number,
        "cursor": dict(new.cursor),
        "calls": list(new.calls),
        "observations": list(new.observations),
        "watermark": read_watermark(connection),
        "cost": dict(new.cost),
        "policy_version": new.policy[:200],
        "at": db_now(connection),
    }
    if new.sampled is not None:
        values |= vars(new.sampled)
    return int(connection.execute(sa.insert(t.turn).values(values).returning(_U.id)).scalar_one())
