"""Interfaces of scripts, which are proposers without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sciagent.domain.ports import Turn, Workbench


@dataclass(frozen=True)
class MeasuredCandidate:
    """A candidate with a score, and what was measured of it."""

    text: str
    """Its notation."""
    score: float
    seq: int
    """Place in the order of arrival, from 0."""
    values: Mapping[str, float]
    """Results of the terminal rung by property, in canonical units; empty if it has not answered."""
    key: str
    """Key of the candidate, which proposals made from it state among their `parents`."""


class ScriptBench(Workbench, Protocol):
    """The workbench of scripts."""

    def measured(self) -> list[MeasuredCandidate]:
        """Returns the candidates that have a score, best first."""

    def charge(self, core_seconds: float) -> None:
        """Adds what the proposer itself has computed to the cost of the turn."""


class Proposer(Protocol):
    """A source of candidates: a scripted search, a file or a model."""

    name: str

    @property
    def total(self) -> int | None:
        """Total number of candidates that it will propose; None if unknown."""

    def turn(self, workbench: ScriptBench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Proposes at most `limit` candidates. Returns the new cursor, which the ledger keeps, or None at the end."""
