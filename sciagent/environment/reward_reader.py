"""Reads the rewards of episodes by the evidence of now, by the same rules as published versions."""

from __future__ import annotations

import threading

from sqlalchemy.engine import Connection

from sciagent.campaign.core.build import Built, open_for_people
from sciagent.campaign.rewarding.showing import shown_turn
from sciagent.domain.answers.rewards import RewardedEpisode, RewardedTurn
from sciagent.errors import EpisodeError, UsageError
from sciagent.rewards.episode_rewards import reward_rows
from sciagent.rewards.expectations import RewardLaw
from sciagent.rewards.publishing import check_scheduler, law_of
from sciagent.rewards.spec import RewardSpec
from sciagent.store.database.ledger import Ledger
from sciagent.store.learning import episodes, groups, rewards
from sciagent.store.learning.episodes import EpisodeRow
from sciagent.store.results.evidence import read_watermark


class RewardReader:
    """Reads rewards; may be used by several threads.

    The law that values unsettled candidates is the stated one, else that of the last published version under the same
    description, else one that is fitted once there are enough answers, and then kept.
    """

    def __init__(self, ledger: Ledger, campaign: str, spec: RewardSpec) -> None:
        """Raises UsageError if the campaign cannot have such rewards."""
        self._built: Built = open_for_people(ledger, campaign)
        check_scheduler(self._built, spec)
        if spec.watermark is not None:
            raise UsageError("watermark: an environment rewards by the evidence of now; leave it out")
        self._spec, self._lock = spec, threading.Lock()
        self._law: RewardLaw | None = None
        self._tried = -1

    def watermark(self) -> int:
        """Returns the watermark of the newest evidence."""
        with self._built.ledger.read() as connection:
            return read_watermark(connection)

    def of_episode(self, number: int, alone: bool = False) -> RewardedEpisode:
        """Returns the rewards of an episode. It has advantages once its group is complete.

        alone: without advantages, which needs the siblings' rewards. Raises EpisodeError for an unknown episode.
        """
        built = self._built
        with built.ledger.read() as connection:
            as_of = read_watermark(connection) + 1
            found = episodes.by_number(connection, built.row.id, number)
            if found is None or found.group_id is None:
                raise EpisodeError(404, f"{built.row.name} has no episode {number} of a group")
            group = groups.by_id(connection, found.group_id)
            alone = alone or group.size == 1 or group.state != "complete"
            ids = [found.id] if alone else [each.id for each in groups.siblings(connection, group.id)]
            law = self._law_of(connection, as_of)
            rows = reward_rows(built, connection, self._spec, law, as_of, ids)
            turns = {turn.id: turn.number for turn in episodes.turns_of(connection, [found.id], as_of)[found.id]}
        mine = [row for row in rows if row.trajectory_id == found.id]
        shown = [shown_turn(row, turns[row.turn_id], self._spec.prices) for row in mine if row.turn_id is not None]
        return _rewarded(found, group.number, mine[0].value, shown, alone)

    def _law_of(self, connection: Connection, as_of: int) -> RewardLaw | None:
        spec = self._spec
        if spec.unsettled == "settled":
            return None
        with self._lock:
            if self._law is None and self._tried != as_of:
                self._tried = as_of
                previous = rewards.last(connection, self._built.row.id, spec.hash)
                self._law = law_of(self._built, connection, spec, as_of, previous)[1]
            return self._law


def _rewarded(
    row: EpisodeRow, group: int, outcome: float | None, turns: list[RewardedTurn], alone: bool
) -> RewardedEpisode:
    return RewardedEpisode(
        episode=row.number,
        group=group,
        sibling=row.sibling,
        policy=row.policy,
        outcome=outcome,
        turns=tuple(turn.model_copy(update={"advantage": None}) for turn in turns) if alone else tuple(turns),
    )
