"""Reward terms by the length of the notation, of another package: one with a setting, and some that break the rules."""

from __future__ import annotations

from pydantic import Field
from sqlalchemy.engine import Connection

from sciagent.rewards.reward_term_contract import RewardTerm, TermInputs, TermSettings, TurnOfEpisode


class LongSettings(TermSettings):
    most: int = Field(8, gt=0)
    """Characters of a notation that is not long."""


class Long(RewardTerm):
    """The share of a turn's proposals that are new and have a long notation."""

    name = "lengths.long"
    version = "1"
    Settings = LongSettings
    settings: LongSettings

    def prepare(self, connection: Connection, inputs: TermInputs) -> None:
        self._notations = inputs.notations

    def of(self, turn: TurnOfEpisode) -> float:
        long = [id_ for id_ in turn.turn.new_candidates if len(self._notations[id_]) > self.settings.most]
        return len(long) / max(len(turn.turn.proposals), 1)


class BetweenSettings(TermSettings):
    least: int


class Between(Long):
    """A term whose setting has no default."""

    name = "lengths.between"
    Settings = BetweenSettings  # type: ignore[assignment]


class Broken(Long):
    """A term that fails."""

    name = "lengths.broken"

    def of(self, turn: TurnOfEpisode) -> float:
        raise KeyError("no such length")


class Large(Long):
    """A term out of range."""

    name = "lengths.large"

    def of(self, turn: TurnOfEpisode) -> float:
        return 2.0


class Nameless(Long):
    """A term with the name of another one."""
