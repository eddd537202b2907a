"""The ports that keep the arrows in a single direction: proposers see a workbench, a dispatch sees choices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from sciagent.domain.campaigns.ladder import Position


@dataclass(frozen=True)
class ProposalIn:
    """What a proposer hands in: a text (SMILES), where it came from, why, and what it expects to be measured."""

    text: str
    parents: tuple[str, ...] = ()
    operation: str = ""
    rationale: str = ""
    predicted: dict[str, Any] = field(default_factory=dict)
    multiplicity: int | None = None


@dataclass(frozen=True)
class ProposalOut:
    """What the workbench answers: `status` is new | duplicate | refused; `standing` after the fast rungs."""

    text: str
    status: str
    key: str | None = None
    reason: str | None = None
    detail: str = ""
    standing: str | None = None


@dataclass(frozen=True)
class Scored:
    """A candidate as a proposer sees it: score in [0, 1], the rung position it has reached.

    seq: its place in the order of arrival, from 0. operation: how it was made, as its proposal said.
    """

    key: str
    text: str
    score: float
    depth: int
    in_seeds: bool = False
    seq: int = 0
    operation: str = ""


class Workbench(Protocol):
    """What a proposer may do. Implemented by `campaign`."""

    def propose(self, proposals: Sequence[ProposalIn]) -> list[ProposalOut]: ...
    def best(self, n: int) -> list[Scored]:
        """The n best by score, best first; equal scores in order of arrival."""

    def known(self, key: str) -> bool: ...


@dataclass(frozen=True)
class Turn:
    """Where a proposer is. `seed` derives from (the campaign's seed, trajectory, turn); `cursor` is what it returned
    last."""

    number: int
    seed: int
    cursor: Mapping[str, Any]


class Proposer(Protocol):
    """Scripted search, file or model. A call is a turn; the ledger keeps the returned cursor."""

    name: str

    @property
    def total(self) -> int | None:
        """How many it will propose in all; None if it cannot say."""

    def turn(self, workbench: Workbench, turn: Turn, limit: int) -> Mapping[str, Any] | None:
        """Propose at most `limit` candidates; return the new cursor, or None when there is nothing left."""


@dataclass(frozen=True)
class Choice:
    """Run rung `position` on candidate `id`. propensity: probability with which the rule chose it (1: certain).

    law: version of the law that it was chosen by; price: of each resource, in hits a unit of it."""

    id: int
    position: Position
    index: float
    propensity: float = 1.0
    why: str = ""
    law: str | None = None
    price: Mapping[str, float] | None = None
