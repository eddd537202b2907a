"""Computes the rewards of a campaign's episodes at a watermark, as rows of a version."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import NamedTuple

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.campaign.rewarding.candidate_facts import CandidateFacts
from sciagent.campaign.rewarding.predicted import PredictionScores
from sciagent.errors import UsageError
from sciagent.rewards.credit import gigpo, marginal, outcome, rtg
from sciagent.rewards.credit.marginal import Find
from sciagent.rewards.credit.returns import Group, returns
from sciagent.rewards.expectations import RewardLaw
from sciagent.rewards.process import TurnFacts, TurnReward, limited, turn_rewards
from sciagent.rewards.spec import RewardSpec
from sciagent.rewards.terms import Snapshots, terms_of
from sciagent.store.learning import episodes
from sciagent.store.learning.episodes import EpisodeRow, EpisodeTurn
from sciagent.store.learning.rewards import RewardRow


class _Episode(NamedTuple):
    """An episode with its rewards."""

    row: EpisodeRow
    turns: Sequence[EpisodeTurn]
    facts: Sequence[TurnFacts]
    rewards: Sequence[TurnReward]


def reward_rows(
    built: Built,
    connection: Connection,
    spec: RewardSpec,
    law: RewardLaw | None,
    as_of: int,
    only: Collection[int] | None = None,
) -> list[RewardRow]:
    """Returns the rewards of episodes: of each its outcome first, then its turns. only: ids of trajectories, with all
    siblings of each; None: of all.

    Raises UsageError for a campaign without episodes, or with terms that its candidates cannot have.
    """
    written: list[RewardRow] = []
    found = _episodes(built, connection, spec, law, as_of, only)
    for group_id, members in groupby(found, key=lambda episode: episode.row.group_id):
        group = list(members)
        compared = None if group_id is None else _advantages(spec, group)  # without siblings there is no comparison
        for place, episode in enumerate(group):
            written += _rows(episode, [None] * len(episode.turns) if compared is None else compared[place])
    return written


def _episodes(
    built: Built,
    connection: Connection,
    spec: RewardSpec,
    law: RewardLaw | None,
    as_of: int,
    only: Collection[int] | None,
) -> list[_Episode]:
    """Returns the episodes, those of a group one after the other."""
    rows = episodes.episodes(connection, built.row.id, as_of, only)
    if not rows:
        raise UsageError(f'campaign "{built.row.name}" has no episodes of a model; rewards are given to its turns')
    turns = episodes.turns_of(connection, [row.id for row in rows], as_of)
    facts = CandidateFacts(built, connection, [(row, turns[row.id]) for row in rows], spec, law, as_of)
    predictions = PredictionScores(built, connection, spec, [(row, turns[row.id]) for row in rows], as_of)
    snapshots = Snapshots(built, connection, spec, sorted({row.group_id for row in rows if row.group_id is not None}))
    found = []
    for row in rows:
        terms = terms_of(turns[row.id], facts.notations, snapshots.of(row.group_id), spec, built.subject)
        of_turns = [
            facts.of_turn(row, turn, {**mine, "prediction": predicted})
            for turn, mine, predicted in zip(turns[row.id], terms, predictions.of(row, turns[row.id]), strict=True)
        ]
        found.append(_Episode(row, turns[row.id], of_turns, turn_rewards(of_turns, spec)))
    return found


def _advantages(spec: RewardSpec, group: Sequence[_Episode]) -> list[list[float | None]]:
    values: Group = [[reward.value for reward in episode.rewards] for episode in group]
    match spec.credit:
        case "outcome":
            return outcome.advantages(values)
        case "rtg":
            return rtg.advantages(values)
        case "gigpo":
            return gigpo.advantages(values, [[turn.state for turn in episode.turns] for episode in group])
        case "marginal":
            finds = [
                [[Find(c.key, c.families, c.worth) for c in facts.candidates] for facts in limited(episode.facts, spec)]
                for episode in group
            ]
            costs: Group = [[_net_cost(reward) for reward in episode.rewards] for episode in group]
            return marginal.advantages(finds, costs, spec.weight)


def _net_cost(reward: TurnReward) -> float:
    """Returns what a turn took beside its evidence: its cost, less its named terms."""
    return -sum(amount for name, amount in reward.terms.items() if name != "evidence" and amount is not None)


def _rows(episode: _Episode, advantages: Sequence[float | None]) -> list[RewardRow]:
    """Returns the rows of an episode: its outcome first, then its turns."""
    to_go = returns([reward.value for reward in episode.rewards])
    total = to_go[0] if to_go else 0.0
    rows = [RewardRow(episode.row.id, None, total, total, None, {}, ())]
    for turn, facts, reward, later, advantage in zip(
        episode.turns, episode.facts, episode.rewards, to_go, advantages, strict=True
    ):
        shown = [{"key": c.key, "value": c.worth, "cost": dict(c.cost), "settled": c.settled} for c in facts.candidates]
        rows.append(RewardRow(episode.row.id, turn.id, reward.value, later, advantage, reward.terms, shown))
    return rows
