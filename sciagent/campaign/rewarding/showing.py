"""Shows versions of rewards: with all episodes, and what differs between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from sciagent.domain.answers.rewards import (
    ChangedReward,
    RewardedCandidate,
    RewardedEpisode,
    RewardedTurn,
    ShownRewards,
)
from sciagent.errors import UsageError
from sciagent.rewards.process import price_of
from sciagent.rewards.publishing import changes
from sciagent.store.database import tables as t
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, rewards
from sciagent.store.learning.rewards import RewardRow, RewardVersionRow


def show(ledger: Ledger, version: int) -> ShownRewards:
    """Returns a version with all its episodes. Raises UnknownNameError."""
    with ledger.read() as connection:
        row = rewards.get(connection, version)
        by_episode: dict[int, list[RewardRow]] = {}
        for reward in rewards.of_version(connection, version):
            by_episode.setdefault(reward.trajectory_id, []).append(reward)
        return ShownRewards(
            version=row.id,
            campaign=rewards.campaign_of(connection, version),
            spec_hash=row.spec_hash,
            watermark=row.watermark,
            law=row.law,
            episodes=tuple(_episodes(connection, row, by_episode)),
        )


def _episodes(
    connection: Connection, version: RewardVersionRow, by_episode: dict[int, list[RewardRow]]
) -> list[RewardedEpisode]:
    campaign_id, prices = version.campaign_id, version.spec["prices"]
    places, groups = rewards.places(connection, campaign_id), _group_numbers(connection, campaign_id)
    shown = []
    for episode in episodes.episodes(connection, campaign_id, version.watermark):
        if (rows := by_episode.get(episode.id)) is None:
            continue
        turns = tuple(shown_turn(row, places[row.turn_id][1], prices) for row in rows if row.turn_id is not None)
        shown.append(
            RewardedEpisode(
                episode=episode.number,
                group=None if episode.group_id is None else groups[episode.group_id],
                sibling=episode.sibling,
                policy=episode.policy,
                outcome=next(row.value for row in rows if row.turn_id is None),
                turns=turns,
            )
        )
    return shown


def shown_turn(row: RewardRow, number: int, prices: Mapping[str, float]) -> RewardedTurn:
    """Returns a turn with its reward. number: of the turn in its episode. prices: by which costs are shown."""
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
    g = t.rollout_group.c
    rows = connection.execute(sa.select(g.id, g.number).where(g.campaign_id == campaign_id))
    return {int(id_): int(number) for id_, number in rows}


def difference(ledger: Ledger, old: int, new: int) -> tuple[ChangedReward, ...]:
    """Returns the turns whose rewards differ. Raises UnknownNameError, or UsageError for two campaigns."""
    with ledger.read() as connection:
        before, after = rewards.get(connection, old), rewards.get(connection, new)
        if before.campaign_id != after.campaign_id:
            raise UsageError(f"versions {old} and {new} belong to two campaigns, which share no turns")
        return changes(connection, before, after)
