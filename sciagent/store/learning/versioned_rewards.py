"""Versions of rewards in the ledger. A version and its rewards are written once and never changed.

A law is the state of a fitted model that values candidates; rewards may use one. The watermark of a version is the
number of the last piece of evidence that it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.evidence_keys_and_pooled_replicates import content_hash
from sciagent.errors import UnknownNameError
from sciagent.inputs.environment_variables import code_version
from sciagent.store.database import tables as t
from sciagent.store.database.bulk_statements import among, enter_by_hash
from sciagent.store.database.engine import db_now

_V = t.reward_version.c
_R = t.reward.c


class RewardVersionRow(NamedTuple):
    """A published version of the rewards of a campaign."""

    id: int
    campaign_id: int
    number: int
    spec_hash: str
    spec: dict[str, Any]
    watermark: int
    law: int | None
    """Id of the row of `law`; None if no law was used."""
    previous_id: int | None
    guards: dict[str, Any]
    """Statistics of each policy."""
    scope: str | None
    """Hash of the ids of the groups whose episodes have rewards; None: all episodes of the campaign have."""


class RewardRow(NamedTuple):
    """The reward of a turn, or of a whole episode."""

    trajectory_id: int
    turn_id: int | None
    """None for the outcome of the episode."""
    value: float | None
    to_go: float | None
    """The return: the rewards from this turn to the end of the episode."""
    advantage: float | None
    terms: Mapping[str, float | None]
    """The parts of which the value consists."""
    candidates: Sequence[Mapping[str, Any]]


class EarnedRewards(NamedTuple):
    """The rewards of an episode in one version."""

    outcome: float | None = None
    by_turn: Sequence[float | None] | None = None
    """The reward of each turn in order, None for a turn without one; None if no turn has a reward."""
    advantages: Mapping[int, float] = {}
    """{number of the turn: advantage}."""


def _versions() -> sa.Select[Any]:
    s = t.reward_spec.c
    columns = (_V.id, _V.campaign_id, _V.number, s.hash, s.spec, _V.watermark, _V.laws, _V.previous_id)
    return sa.select(*columns, _V.guards, _V.scope).select_from(
        t.reward_version.join(t.reward_spec, s.id == _V.reward_spec_id)
    )


def _version(row: Sequence[Any]) -> RewardVersionRow:
    id_, campaign_id, number, spec_hash, spec, watermark, laws, previous_id, guards, scope = row
    law = int(laws[0]) if laws else None
    return RewardVersionRow(id_, campaign_id, number, spec_hash, dict(spec), watermark, law, previous_id, guards, scope)


def get(connection: Connection, version: int) -> RewardVersionRow:
    """Returns a version by its id. Raises UnknownNameError."""
    row = connection.execute(_versions().where(_V.id == version)).one_or_none()
    if row is None:
        known = connection.execute(sa.select(_V.id).order_by(_V.id.desc()).limit(20)).scalars().all()
        raise UnknownNameError("version of rewards", str(version), [str(id_) for id_ in known])
    return _version(row)


def campaign_of(connection: Connection, version: int) -> str:
    """Returns the name of the campaign that a version belongs to."""
    query = sa.select(t.campaign.c.name).join(t.reward_version, _V.campaign_id == t.campaign.c.id)
    return str(connection.execute(query.where(_V.id == version)).scalar_one())


def last(connection: Connection, campaign_id: int, spec_hash: str, scope: str | None = None) -> RewardVersionRow | None:
    """The last version of a campaign under the same description; None if there is none. scope: the last version
    of this scope; None: of all episodes."""
    query = _versions().where(_V.campaign_id == campaign_id, t.reward_spec.c.hash == spec_hash)
    query = query.where(_V.scope.is_(None) if scope is None else _V.scope == scope)
    row = connection.execute(query.order_by(_V.id.desc()).limit(1)).one_or_none()
    return None if row is None else _version(row)


def scope_of(group_ids: Iterable[int]) -> str:
    """The scope of a version that has the rewards of some groups."""
    return content_hash(sorted(group_ids))


def first_of_scope(connection: Connection, campaign_id: int, spec_hash: str, scope: str) -> RewardVersionRow | None:
    """The first version of some groups under a description; None if there is none."""
    query = _versions().where(_V.campaign_id == campaign_id, t.reward_spec.c.hash == spec_hash, _V.scope == scope)
    row = connection.execute(query.order_by(_V.id).limit(1)).one_or_none()
    return None if row is None else _version(row)


def last_of_any_scope(connection: Connection, campaign_id: int, spec_hash: str) -> RewardVersionRow | None:
    """The last version of a campaign under a description, of all episodes or of some; None if there is none."""
    query = _versions().where(_V.campaign_id == campaign_id, t.reward_spec.c.hash == spec_hash)
    row = connection.execute(query.order_by(_V.id.desc()).limit(1)).one_or_none()
    return None if row is None else _version(row)


def write_version(
    connection: Connection,
    campaign_id: int,
    *,
    spec_hash: str,
    spec: Mapping[str, Any],
    watermark: int,
    law: int | None,
    previous_id: int | None,
    guards: Mapping[str, Any],
    scope: str | None = None,
) -> int:
    """Write a version without rewards; returns its id. Runs under the lock of the campaign's row."""
    spec_id = enter_by_hash(connection, t.reward_spec, spec_hash, {"spec": dict(spec)})
    number = connection.execute(sa.select(sa.func.max(_V.number)).where(_V.campaign_id == campaign_id)).scalar()
    values = {
        "campaign_id": campaign_id,
        "number": 0 if number is None else int(number) + 1,
        "reward_spec_id": spec_id,
        "watermark": watermark,
        "laws": [] if law is None else [law],
        "prices": dict(spec["prices"]),
        "previous_id": previous_id,
        "code_version": code_version(),
        "at": db_now(connection),
        "guards": dict(guards),
        "scope": scope,
    }
    return int(connection.execute(sa.insert(t.reward_version).values(values).returning(_V.id)).scalar_one())


def write(connection: Connection, version: int, rewards: Sequence[RewardRow]) -> None:
    """Write the rewards of a version."""
    rows = [
        {
            "reward_version_id": version,
            "trajectory_id": reward.trajectory_id,
            "turn_id": reward.turn_id,
            "value": reward.value,
            "return": reward.to_go,
            "advantage": reward.advantage,
            "terms": dict(reward.terms),
            "candidates": [dict(candidate) for candidate in reward.candidates],
        }
        for reward in rewards
    ]
    if rows:
        connection.execute(sa.insert(t.reward), rows)


def of_version(connection: Connection, version: int, trajectory_ids: Sequence[int] | None = None) -> list[RewardRow]:
    """The rewards of a version, in the order of episodes and turns. trajectory_ids: only
    the rewards of these episodes; None: of all."""
    query = sa.select(_R.trajectory_id, _R.turn_id, _R.value, _R["return"], _R.advantage, _R.terms, _R.candidates)
    query = query.where(_R.reward_version_id == version)
    if trajectory_ids is not None:
        query = query.where(among(connection, _R.trajectory_id, trajectory_ids))
    return [RewardRow(*row) for row in connection.execute(query.order_by(_R.id))]


def of_episode(
    connection: Connection, version: int | None, trajectory_id: int, numbers: Mapping[int, int]
) -> EarnedRewards:
    """Returns the rewards of an episode. version: None for no rewards. numbers: {turn id: number
    of the turn in the episode}."""
    if version is None:
        return EarnedRewards()
    rewards = of_version(connection, version, [trajectory_id])
    outcomes = [reward.value for reward in rewards if reward.turn_id is None]
    outcome = outcomes[0] if outcomes else None
    by_number = dict[int, RewardRow]()
    for reward in rewards:
        if reward.turn_id is not None and reward.turn_id in numbers:
            by_number[numbers[reward.turn_id]] = reward
    if not by_number:
        return EarnedRewards(outcome)
    n_turns = max(numbers.values()) + 1
    by_turn = [by_number[number].value if number in by_number else None for number in range(n_turns)]
    advantages = {number: reward.advantage for number, reward in by_number.items() if reward.advantage is not None}
    return EarnedRewards(outcome, by_turn, advantages)


def places(connection: Connection, campaign_id: int) -> dict[int, tuple[int, int]]:
    """{turn id: (number of its trajectory, its own number)} of the campaign's turns."""
    u = t.turn.c
    trajectory = t.trajectory.c
    turns = t.turn.join(t.trajectory, trajectory.id == u.trajectory_id)
    query = sa.select(u.id, trajectory.number, u.number).select_from(turns)
    rows = connection.execute(query.where(trajectory.campaign_id == campaign_id))
    return {int(id_): (int(episode), int(turn)) for id_, episode, turn in rows}


def last_of_campaign(connection: Connection, campaign_id: int, as_of: int) -> int | None:
    """The last version of all of a campaign's episodes under any description, up to a watermark; None if there is
    none."""
    query = sa.select(sa.func.max(_V.id)).where(_V.campaign_id == campaign_id, _V.watermark <= as_of)
    query = query.where(_V.scope.is_(None))
    version = connection.execute(query).scalar()
    return None if version is None else int(version)
