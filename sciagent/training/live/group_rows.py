"""The training rows of a group of rollouts, read from the ledger as they were sampled and rewarded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built
from sciagent.domain.evidence import content_hash
from sciagent.store.campaign_state import trajectories
from sciagent.store.learning import groups, policies, rewards
from sciagent.store.learning.rewards import RewardVersionRow
from sciagent.training.learner.dataset_rows import SAME, sampled_row
from sciagent.training.learner.rows import TrainingRow
from sciagent.training.reading import RecordedEpisode
from sciagent.training.token_rows import rows_of


@dataclass
class RewardedGroup:
    """A group with its rewards of one version."""

    id: int
    version: int
    """Id of the version of rewards."""
    rows: list[TrainingRow] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    """Ids of the turns that the rows train."""
    outcomes: list[float] = field(default_factory=list)
    """The rewards of the episodes that are decided."""
    terms: list[Mapping[str, float]] = field(default_factory=list)
    """The sums of the named parts of the rewards, of each episode that is decided."""

    @property
    def has_something_to_learn(self) -> bool:
        """Whether the siblings earned differently."""
        return any(abs(advantage) > SAME for row in self.rows for advantage in row.advantages)


def read(
    connection: Connection, built: Built, version: RewardVersionRow, group_ids: Sequence[int], context: int
) -> list[RewardedGroup]:
    """Returns the groups, in the order of their ids. context: rows with more tokens are left out."""
    spec, found = built.row.spec, list[RewardedGroup]()
    task = content_hash({"objectives": spec["objectives"], "goal": spec["goal"]})
    for row in groups.of_ids(connection, group_ids).values():
        group = RewardedGroup(row.id, version.id)
        siblings = groups.siblings(connection, row.id)
        named = policies.of_episodes(connection, [sibling.id for sibling in siblings])
        for sibling in siblings:
            policy = named[sibling.id].name if sibling.id in named else None
            about = (built.row.name, sibling.id, sibling.number, row.id, sibling.sibling, policy, row.purpose, task)
            _add_episode(connection, group, RecordedEpisode(*about, opening=(), thinking="preserve"), context)
        found.append(group)
    return sorted(found, key=lambda group: group.id)


def _add_episode(connection: Connection, group: RewardedGroup, episode: RecordedEpisode, context: int) -> None:
    turns = trajectories.turns(connection, episode.id)
    ids = {turn["number"]: turn["id"] for turn in turns}
    for cells in rows_of(connection, episode, turns, group.version, Counter()):
        if any(cells["gradient"]) and len(cells["ids"]) <= context:
            group.rows.append(sampled_row(cells))
            used = {number for number, taken in zip(cells["turns"], cells["gradient"], strict=True) if taken}
            group.turns += [ids[number] for number in sorted(used)]
    earned = rewards.of_version(connection, group.version, [episode.id])
    for reward in earned:
        if reward.turn_id is None and reward.value is not None:
            group.outcomes.append(reward.value)
            group.terms.append(_terms([each.terms for each in earned if each.turn_id is not None]))


def _terms(terms: Sequence[Mapping[str, float | None]]) -> Mapping[str, float]:
    """Returns the sums of the terms of an episode's turns."""
    sums: dict[str, float] = {}
    for of_turn in terms:
        for name, amount in of_turn.items():
            sums[name] = sums.get(name, 0.0) + (amount or 0.0)
    return sums
