"""Shows a published version of the rewards with all its episodes, and what differs between two versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import Field
from sqlalchemy.engine import Connection

from sciagent.domain.answers.candidate_and_value_answers import AnswerModel
from sciagent.errors import UsageError
from sciagent.rewards.turn_rewards import price_of
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import reward_inputs as episodes
from sciagent.store.learning import versioned_rewards
from sciagent.store.learning.versioned_rewards import RewardRow, RewardVersionRow


class ChangedReward(AnswerModel):
    """A turn whose reward differs between two versions."""

    episode: int
    """Number of the trajectory in its campaign."""
    turn: int
    was: float | None
    """Reward in the earlier version; None: undecided, or not in that version."""
    now: float | None
    """Reward in the later version; None: undecided."""


class RewardedCandidate(AnswerModel):
    """A candidate in the turn that proposed it first."""

    key: str
    value: float | None
    """Worth in hits or utility; None if undecided."""
    cost: float
    """Price × amount over all resources that were booked for the candidate, in hits or utility."""
    resources: Mapping[str, float]
    """The amount of each booked resource, also of a resource without a price."""
    settled: bool


class RewardedTurn(AnswerModel):
    """A turn with its reward, in hits or utility."""

    turn: int
    reward: float | None
    to_go: float | None = Field(serialization_alias="return")
    """Sum of the rewards from this turn on; `return` in JSON."""
    advantage: float | None
    """None: undecided, or the episode has no siblings."""
    terms: Mapping[str, float | None]
    candidates: tuple[RewardedCandidate, ...]


class RewardedEpisode(AnswerModel):
    """An episode with its rewards."""

    episode: int
    group: int | None
    """Number of its rollout group; None for an episode without siblings."""
    sibling: int | None
    policy: str | None
    outcome: float | None
    turns: tuple[RewardedTurn, ...]


class ShownRewards(AnswerModel):
    """A version of rewards with all its episodes."""

    version: int
    campaign: str
    spec_hash: str
    watermark: int
    law: int | None
    episodes: tuple[RewardedEpisode, ...]


def changes(connection: Connection, old: RewardVersionRow, new: RewardVersionRow) -> tuple[ChangedReward, ...]:
    """Returns the turns whose rewards differ between two versions, and the turns that only the new version has."""
    places = versioned_rewards.places(connection, new.campaign_id)
    old_rewards = {}
    for row in versioned_rewards.of_version(connection, old.id):
        if row.turn_id is not None:  # a row without a turn is for the whole episode
            old_rewards[row.turn_id] = row.value
    changed = []
    for row in versioned_rewards.of_version(connection, new.id):
        if row.turn_id is None:
            continue
        is_same = row.turn_id in old_rewards and old_rewards[row.turn_id] == row.value
        if not is_same:
            episode, turn = places[row.turn_id]
            was = old_rewards.get(row.turn_id)
            changed.append(ChangedReward(episode=episode, turn=turn, was=was, now=row.value))
    return tuple(changed)


def show(ledger: Ledger, version: int) -> ShownRewards:
    """Returns a version with all its episodes. Raises UnknownNameError."""
    with ledger.read() as connection:
        row = versioned_rewards.get(connection, version)
        by_episode: dict[int, list[RewardRow]] = {}
        for reward in versioned_rewards.of_version(connection, version):
            by_episode.setdefault(reward.trajectory_id, []).append(reward)
        return ShownRewards(
            version=row.id,
            campaign=versioned_rewards.campaign_of(connection, version),
            spec_hash=row.spec_hash,
            watermark=row.watermark,
            law=row.law,
            episodes=tuple(_episodes(connection, row, by_episode)),
        )


def _episodes(
    connection: Connection, version: RewardVersionRow, by_episode: dict[int, list[RewardRow]]
) -> list[RewardedEpisode]:
    campaign_id = version.campaign_id
    prices = version.spec["prices"]
    places = versioned_rewards.places(connection, campaign_id)
    group_numbers = _group_numbers(connection, campaign_id)
    shown = []
    for episode in episodes.episodes(connection, campaign_id, version.watermark):
        rows = by_episode.get(episode.id)
        if rows is None:
            continue
        outcome = None
        turns = []
        for row in rows:
            if row.turn_id is None:
                outcome = row.value  # of the whole episode
            else:
                _, number = places[row.turn_id]
                turns.append(shown_turn(row, number, prices))
        shown.append(
            RewardedEpisode(
                episode=episode.number,
                group=None if episode.group_id is None else group_numbers[episode.group_id],
                sibling=episode.sibling,
                policy=episode.policy,
                outcome=outcome,
                turns=tuple(turns),
            )
        )
    return shown


def shown_turn(row: RewardRow, number: int, prices: Mapping[str, float]) -> RewardedTurn:
    """Returns a turn with its reward. number: number of the turn in its episode. prices: prices of the resources."""
    return RewardedTurn(
        turn=number,
        reward=row.value,
        to_go=row.to_go,
        advantage=row.advantage,
        terms=dict(sorted(row.terms.items())),  # PostgreSQL does not keep the order
        candidates=tuple(_candidate(candidate, prices) for candidate in row.candidates),
    )


def _candidate(stored: Mapping[str, Any], prices: Mapping[str, float]) -> RewardedCandidate:
    resources = dict(sorted(stored["cost"].items()))
    return RewardedCandidate(
        key=stored["key"],
        value=stored["value"],
        cost=price_of(resources, prices),
        resources=resources,
        settled=stored["settled"],
    )


def _group_numbers(connection: Connection, campaign_id: int) -> dict[int, int]:
    """Returns {id of a group of the campaign: its number}."""
    g = t.rollout_group.c
    rows = connection.execute(sa.select(g.id, g.number).where(g.campaign_id == campaign_id))
    return {int(id_): int(number) for id_, number in rows}


def difference(ledger: Ledger, old: int, new: int) -> tuple[ChangedReward, ...]:
    """Returns the turns whose rewards differ between two versions. Raises UnknownNameError, or UsageError for versions
    of two campaigns."""
    with ledger.read() as connection:
        before = versioned_rewards.get(connection, old)
        after = versioned_rewards.get(connection, new)
        if before.campaign_id != after.campaign_id:
            raise UsageError(f"versions {old} and {new} belong to two campaigns, which share no turns")
        return changes(connection, before, after)
