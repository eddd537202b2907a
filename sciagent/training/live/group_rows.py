"""The training rows of a group of rollouts, read from the ledger as they were sampled and rewarded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.evidence import content_hash
from sciagent.store.campaign_state import trajectories
from sciagent.store.learning import groups, policies, rewards
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.training.learner.kinds.sampled import SAME, sampled_row
from sciagent.training.learner.kinds.valued import decided, valued_row
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.reading import RecordedEpisode
from sciagent.training.token_rows import rows_of


@dataclass
class RewardedGroup:
    """A group with its rewards of one version."""

    id: int
    version: int
    """Id of the version of rewards."""
    campaign: str
    """Its name."""
    rows: list[TrainingRow] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """Ids of the turns that the rows train."""
    outcomes: list[float] = field(default_factory=list)
    """The rewards of the episodes that are decided."""
    terms: list[Mapping[str, float]] = field(default_factory=list)
    """The sums of the named parts of the rewards, of each episode that is decided."""

    @property
    def has_something_to_learn(self) -> bool:
        """Whether the siblings earned differently, or a value head compares them with what it expected."""
        return any(
            row.episode is not None or any(abs(advantage) > SAME for advantage in row.advantages) for row in self.rows
        )


def read(
    connection: Connection,
    built: Built,
    version: RewardVersionRow,
    group_ids: Sequence[int],
    context: int,
    training: str = "grpo",
) -> list[RewardedGroup]:
    """Returns the groups, in the order of their ids. context: rows with more tokens are left out. training: `ppo` for
    rows whose advantages a value head makes."""
    spec, found = built.row.spec, list[RewardedGroup]()
    task = content_hash({"objectives": spec["objectives"], "goal": spec["goal"]})
    for row in groups.of_ids(connection, group_ids).values():
        group = RewardedGroup(row.id, version.id, built.row.name)
        siblings = groups.siblings(connection, row.id)
        named = policies.of_episodes(connection, [sibling.id for sibling in siblings])
        for sibling in siblings:
            policy = named[sibling.id].name if sibling.id in named else None
            about = (built.row.name, sibling.id, sibling.number, row.id, sibling.sibling, policy, row.purpose, task)
            _add_episode(connection, group, RecordedEpisode(*about, opening=(), thinking="preserve"), context, training)
        found.append(group)
    return sorted(found, key=lambda group: group.id)


def _add_episode(
    connection: Connection, group: RewardedGroup, episode: RecordedEpisode, context: int, training: str
) -> None:
    turns = trajectories.turns(connection, episode.id)
    ids = {turn["number"]: turn["id"] for turn in turns}
    for cells in rows_of(connection, episode, turns, group.version, Counter()):
        if len(cells["ids"]) <= context:
            _add_row(group, cells, ids, training)
    earned = rewards.of_version(connection, group.version, [episode.id])
    for reward in earned:
        if reward.turn_id is None and reward.value is not None:
            group.outcomes.append(reward.value)
            group.terms.append(_terms([each.terms for each in earned if each.turn_id is not None]))


def _add_row(group: RewardedGroup, cells: Mapping[str, Any], ids: Mapping[int, int], training: str) -> None:
    """Adds a row if it has something to learn. ids: of the episode's turns, by number."""
    if training == "ppo":
        has_any, places, made = decided(cells), cells["trainable"], valued_row
    else:
        has_any, places, made = any(cells["gradient"]), cells["gradient"], sampled_row
    if has_any:
        group.rows.append(made(cells))
        used = {number for number, taken in zip(cells["turns"], places, strict=True) if taken}
        group.turns += [ids[number] for number in sorted(used)]


def _terms(terms: Sequence[Mapping[str, float | None]]) -> Mapping[str, float]:
    """Returns the sums of the terms of an episode's turns."""
    sums: dict[str, float] = {}
    for of_turn in terms:
        for name, amount in of_turn.items():
            sums[name] = sums.get(name, 0.0) + (amount or 0.0)
    return sums
